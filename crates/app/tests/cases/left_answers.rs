//! A-27: answers without a stream that nobody waited for, and those that go on behind their client's back.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{answer, chat_answer, open_stream, usage_json};
use sluicegate_testkit::requests::post_as;
use sluicegate_testkit::{Bench, Config, Step, Upstream, send};

use crate::checks::assert_line;
use crate::key_limits::ask_as;

/// The line of the `n`-th request, and what `ann` was charged for it.
async fn line(bench: &Bench, n: usize, charged: &mut u64) -> (Value, u64) {
    let line = bench.assert_idle(n).await.pop().expect("a line");
    let before = std::mem::replace(charged, bench.key_usage("ann").day.tokens);
    (line, *charged - before)
}

/// It generated until the end of its time, at the rate that is taken before any was seen.
#[tokio::test]
async fn a_27_an_answer_that_took_too_long_is_charged_its_output() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("routes.timeouts", "total", "1s").key("ann"), 1).await;
    up.answer_with(vec![Step::Hang]);
    let mut charged = 0;
    for (n, (members, least, most)) in [
        (r#","max_tokens":8"#, 8, 8),
        (r#","max_tokens":100000"#, 9, 99_999),
        (r#","max_tokens":8,"stream":true"#, 0, 0),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(bench.ask(&ask_as("ann", "u", members)).await.status(), 504, "{members}");
        let (line, charged) = line(&bench, n + 1, &mut charged).await;
        assert_line(&line, &[("outcome", json!("timeout_total")), ("usage_source", json!("estimated"))]);
        let tokens = line["completion_tokens"].as_u64().expect("a number");
        assert!((least..=most).contains(&tokens), "{members}: {tokens}");
        assert_eq!(charged, tokens + line["prompt_tokens"].as_u64().expect("a number"));
    }
}

#[tokio::test]
async fn a_27_an_answer_that_was_left_is_charged_its_output_at_the_rate_seen_before() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    // A fast engine: each of its answers is there at once.
    up.answer_with(vec![send(chat_answer("a", 10, 64))]);
    for _ in 0..64 {
        assert_eq!(bench.ask(&ask_as("ann", "u", "")).await.status(), 200);
    }
    let mut charged = bench.key_usage("ann").day.tokens;
    up.answer_with(vec![Step::Hang]);
    for (n, (members, tokens)) in
        [(r#","max_tokens":1"#, 1), (r#","max_tokens":1,"stream":true"#, 0)].iter().enumerate()
    {
        let mut client = bench.client().await;
        client.send(&ask_as("ann", "u", members)).await;
        up.counts().requests.reached(65 + n as u64).await;
        client.reset();
        let (line, charged) = line(&bench, 65 + n, &mut charged).await;
        assert_line(&line, &[("outcome", json!("client_gone")), ("usage_source", json!("estimated"))]);
        assert_line(&line, &[("completion_tokens", json!(tokens))]);
        assert_eq!(charged, tokens + line["prompt_tokens"].as_u64().expect("a number"));
    }
}

/// Its answer comes at once and counts nothing, and leaving it ends nothing.
#[tokio::test]
async fn a_27_a_background_response_is_charged_what_it_reserved_unless_it_is_counted() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    let fields = [("content-type", "application/json")];
    let queued = r#"{"id":"resp_1","object":"response","status":"queued","output":[],"usage":null}"#;
    let counted = format!(r#"{{"id":"resp_2","status":"completed","usage":{}}}"#, usage_json(7, 9));
    let body = |members: &str| format!(r#"{{"model":"m1","input":"hi","max_output_tokens":300{members}}}"#);
    let mut charged = 0;
    let rows = [
        (queued, r#","background":true"#, 300, "estimated"),
        (&counted, r#","background":true"#, 9, "engine"),
        (queued, r#","background":false"#, queued.len() as u64 / 4, "estimated"),
    ];
    for (n, (said, members, tokens, source)) in rows.into_iter().enumerate() {
        up.answer_with(vec![send(answer(200, &fields, said.as_bytes()))]);
        let request = post_as("ann", "/v1/responses", body(members).as_bytes());
        assert_eq!(bench.ask(&request).await.status(), 200);
        let (line, charged) = line(&bench, n + 1, &mut charged).await;
        assert_line(&line, &[("completion_tokens", json!(tokens)), ("usage_source", json!(source))]);
        assert_eq!(charged, tokens + line["prompt_tokens"].as_u64().expect("a number"));
    }
    // Left in mid-stream, and ahead of any answer.
    let event = b"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_3\"}}\n\n";
    for (n, script) in [[open_stream(&[event.to_vec()]), vec![Step::Hang]].concat(), vec![Step::Hang]]
        .into_iter()
        .enumerate()
    {
        let answers = script.len() > 1;
        up.answer_with(script);
        let mut client = bench.client().await;
        client
            .send(&post_as("ann", "/v1/responses", body(r#","background":true,"stream":true"#).as_bytes()))
            .await;
        up.counts().requests.reached(4 + n as u64).await;
        if answers {
            client.head().await;
        }
        client.reset();
        let (line, charged) = line(&bench, 4 + n, &mut charged).await;
        assert_line(&line, &[("outcome", json!("client_gone")), ("usage_source", json!("estimated"))]);
        assert_line(&line, &[("completion_tokens", json!(300))]);
        assert_eq!(charged, 300 + line["prompt_tokens"].as_u64().expect("a number"));
    }
}
