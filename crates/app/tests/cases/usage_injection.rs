//! A-22, A-23, A-25: the usage event that the gateway asks for stays here; the one that the client asks for is its own.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, Stream, chunk, event, finish_event, role_event, usage_event, usage_json,
};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Answer, Bench, Received, Step, Upstream, send};

use crate::checks::{assert_line, assert_only_injected};

/// A content event as an engine with `include_usage` writes it: with `"usage":null`.
fn content(text: &str) -> Vec<u8> {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","model":"m1","choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}],"usage":null}}"#
    ))
}

/// An engine that does what `stream_options` says.
fn obedient(request: &Received) -> Vec<Step> {
    let asked = &request.json()["stream_options"];
    let mut events = vec![role_event(), content("hel"), content("lo"), finish_event("stop")];
    if asked["include_usage"] == json!(true) {
        events.push(usage_event(11, 2));
    }
    events.push(DONE.to_vec());
    Stream { events, usage_at: None }.steps()
}

/// The `data:` objects of a stream; `[DONE]` must be its last one.
fn objects(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    let mut data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(data.pop(), Some("[DONE]"), "{text}");
    data.iter().map(|d| serde_json::from_str(d).unwrap_or_else(|e| panic!("{e} in {d}"))).collect()
}

#[track_caller]
fn assert_no_usage(answer: &Answer, name: &str) {
    for object in objects(answer) {
        assert!(object["choices"].as_array().is_some_and(|c| !c.is_empty()), "{name}: {object}");
        assert!(object["usage"].is_null(), "{name}: {object}");
    }
}

#[tokio::test]
async fn a_22_usage_is_asked_for_and_hidden_again() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    up.on_request(obedient);
    let rows = [
        r#","stream":true"#,
        r#","stream" : true ,"n":1"#,
        r#","stream":true,"stream_options":null"#,
        r#","stream":true,"stream_options":{}"#,
        r#","stream":true,"stream_options":{"other":1}"#,
    ];
    for (i, path) in [CHAT, "/v1/completions"].iter().enumerate() {
        for (n, members) in rows.iter().enumerate() {
            let body = chat("m1", members);
            let answer = bench.ask(&post(path, &body)).await;
            assert_eq!(objects(&answer).len(), 4, "{members}: {}", answer.text());
            assert_no_usage(&answer, members);
            let received = up.received().pop().expect("a request");
            assert_eq!(received.json()["stream_options"]["include_usage"], json!(true), "{members}");
            if n < 2 {
                assert_only_injected(&received.body, &body);
            }
            let line = bench.assert_idle(i * rows.len() + n + 1).await.pop().expect("a line");
            assert_line(&line, &[("prompt_tokens", json!(11)), ("completion_tokens", json!(2))]);
            assert_line(&line, &[("usage_source", json!("engine")), ("cached_tokens", json!(3))]);
            assert_line(&line, &[("finish_reason", json!("stop")), ("outcome", json!("ok"))]);
        }
    }
}

#[tokio::test]
async fn a_23_an_explicit_false_is_kept_towards_the_client() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    up.on_request(obedient);
    let rows = [
        (r#"{"include_usage":false}"#, json!({"include_usage": true})),
        (r#"{"include_usage":false,"other":1}"#, json!({"include_usage": true, "other": 1})),
        (
            r#"{ "other" : [false] , "include_usage" : false }"#,
            json!({"include_usage": true, "other": [false]}),
        ),
        (r#"{"include_\u0075sage":false}"#, json!({"include_usage": true})),
        (r#"{"include_usage":null,"other":1}"#, json!({"include_usage": true, "other": 1})),
    ];
    for (n, (options, expected)) in rows.iter().enumerate() {
        let body = chat("m1", &format!(r#","stream":true,"stream_options":{options},"seed":1.10"#));
        let answer = bench.ask(&post(CHAT, &body)).await;
        assert_no_usage(&answer, options);
        let received = up.received().pop().expect("a request");
        assert_eq!(received.json()["stream_options"], *expected, "{options}");
        assert_eq!(received.text().matches("include_").count(), 1, "{options}: {}", received.text());
        assert!(received.text().ends_with(r#","seed":1.10}"#), "{}", received.text());
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        assert_line(&line, &[("usage_source", json!("engine")), ("completion_tokens", json!(2))]);
    }
    // Who asks for it gets it, byte for byte.
    let body = chat("m1", r#","stream":true,"stream_options":{"include_usage":true}"#);
    let answer = bench.ask(&post(CHAT, &body)).await;
    assert_eq!(up.received().pop().expect("a request").body, body);
    assert_eq!(objects(&answer)[4]["usage"]["completion_tokens"], json!(2));
    bench.assert_idle(rows.len() + 1).await;
}

/// A chunk with text and the totals so far.
fn running(n: u64) -> Vec<u8> {
    event(&format!(
        r#"{{"id":"c","object":"chat.completion.chunk","model":"m1","choices":[{{"index":0,"delta":{{"content":"t"}},"finish_reason":null}}],"usage":{}}}"#,
        usage_json(7, n)
    ))
}

#[tokio::test]
async fn a_25_running_totals_are_not_added_up() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let totals: Vec<Vec<u8>> = (1..=200).map(running).collect();
    let first_wrong: Vec<Vec<u8>> = [0, 900, 0].into_iter().chain(4..=200).map(running).collect();
    let end = [usage_event(7, 200), DONE.to_vec()];
    let streams = [
        [&totals[..], &end].concat(),
        [&first_wrong[..], &end].concat(),
        // Some engines send the last totals with the last chunk and nothing after it.
        [&totals[..], &end[1..]].concat(),
    ];
    let asks = r#","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}"#;
    for (n, events) in streams.iter().enumerate() {
        let mut steps = vec![send(STREAM_HEAD)];
        steps.extend(events.iter().map(|e| send(chunk(e))));
        steps.push(send(LAST_CHUNK));
        up.answer_with(steps);
        let body = chat("m1", asks);
        let answer = bench.ask(&post(CHAT, &body)).await;
        assert_eq!(answer.body, events.concat(), "stream {n}");
        assert_eq!(up.received().pop().expect("a request").body, body);
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        assert_line(&line, &[("prompt_tokens", json!(7)), ("completion_tokens", json!(200))]);
        assert_line(&line, &[("usage_source", json!("engine"))]);
    }
}

/// Asked for by the gateway, running totals in chunks with text are no usage-only event: they pass.
#[tokio::test]
async fn a_25_only_the_usage_only_event_is_hidden() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let events = [running(1), running(2), usage_event(7, 2), DONE.to_vec()];
    up.answer_with(Stream { events: events.to_vec(), usage_at: None }.steps());
    let answer = bench.ask(&post(CHAT, &chat("m1", r#","stream":true"#))).await;
    assert_eq!(answer.body, [&events[0][..], &events[1], &events[3]].concat());
    let line = bench.assert_idle(1).await.remove(0);
    assert_line(&line, &[("prompt_tokens", json!(7)), ("completion_tokens", json!(2))]);
}
