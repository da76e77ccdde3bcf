//! A-24, A-26: what is asked of the engine, and the counts of long answers.

use serde_json::json;
use sluicegate_testkit::answers::{LAST_CHUNK, Stream, answer, chunk, error_answer, usage_json};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Step, Upstream, send};

use crate::checks::{assert_line, assert_only_injected};

#[tokio::test]
async fn a_24_a_body_that_asks_for_no_stream_is_left_alone() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let others = [r#","stream":null"#, r#","metadata":{"stream":true}"#];
    for members in ["", r#","stream":false"#].into_iter().chain(others) {
        let body = chat("m1", members);
        assert_eq!(bench.ask(&post(CHAT, &body)).await.status(), 200, "{members}");
        assert_eq!(up.received().pop().expect("a request").body, body, "{members}");
    }
    // The engine's own refusal is the client's answer; no stream is made of it.
    let refusal = error_answer(400, "Stream options can only be defined when `stream=True`.");
    up.answer_with(vec![send(&refusal)]);
    let body = chat("m1", r#","stream":false,"stream_options":{"include_usage":true}"#);
    let answer = bench.ask(&post(CHAT, &body)).await;
    assert_eq!(answer.status(), 400);
    assert!(answer.text().contains("tream"), "{}", answer.text());
    assert!(up.received().iter().all(|r| !r.text().contains(r#""stream":true,"#)));
    bench.assert_idle(5).await;
}

/// The usage event exists on two paths only, and a pool can say that it must not be asked for.
#[tokio::test]
async fn a_24_nothing_is_injected_where_the_engine_does_not_know_it() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = br#"{"model":"m1","stream":true,"input":"hi","prompt":"hi","messages":[],"max_tokens":1}"#;
    for path in ["/v1/messages", "/v1/responses", "/v1/embeddings"] {
        bench.ask(&post(path, body)).await;
        assert_eq!(up.received().pop().expect("a request").body, body, "{path}");
    }
    for path in [CHAT, "/v1/completions"] {
        bench.ask(&post(path, body)).await;
        assert_only_injected(&up.received().pop().expect("a request").body, body);
    }
    bench.assert_idle(5).await;
    let bench = Bench::live(&Config::new(&[&up]).set("pools", "usage_injection", false), 1).await;
    let body = chat("m1", r#","stream":true"#);
    let stream = bench.ask(&post(CHAT, &body)).await;
    assert_eq!(up.received().pop().expect("a request").body, body);
    assert_eq!(stream.body, Stream::chat(&["hel", "lo"]).bytes());
    bench.assert_idle(1).await;
}

/// A chat answer of about `size` bytes with decoys of `usage` everywhere but at the top level.
fn long_answer(size: usize, usage_first: bool, tail: usize) -> String {
    let usage = format!(r#""usage":{}"#, usage_json(123_456, 789));
    let decoys = r#"\"usage\":{\"prompt_tokens\":1} } ] \\ "#;
    let text = decoys.repeat(size / decoys.len() + 1);
    let choices = format!(
        r#""choices":[{{"index":0,"usage":{{"prompt_tokens":2}},"message":{{"content":"{text}","usage":{{"completion_tokens":5}}}},"finish_reason":"stop"}}]"#
    );
    let logprobs = r#"{"1":{"usage":-0.5}},"#.repeat(tail / 21);
    let after = format!(r#""prompt_logprobs":[{logprobs}null],"kv_transfer_params":null"#);
    match usage_first {
        true => format!("{{{usage},{choices},{after}}}"),
        false => format!(r#"{{"id":"x",{choices},{usage},{after}}}"#),
    }
}

#[tokio::test]
async fn a_26_the_counts_of_a_long_answer_are_found_wherever_they_stand() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let fields = [("content-type", "application/json")];
    let mut sent = 0;
    for size in [1 << 10, 9 << 10, 300 << 10, 5 << 20] {
        for (usage_first, tail) in [(false, 0), (true, 0), (false, 1 << 20)] {
            let body = long_answer(size, usage_first, tail);
            let length = vec![send(answer(200, &fields, body.as_bytes()))];
            let mut chunks = vec![send(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
            )];
            chunks.extend(body.as_bytes().chunks(body.len() / 97 + 1).map(|p| send(chunk(p))));
            chunks.push(send(LAST_CHUNK));
            for steps in [length, chunks] {
                up.answer_with(steps);
                let answer = bench.ask(&post(CHAT, &chat("m1", ""))).await;
                assert!(
                    answer.text() == body,
                    "{size} bytes, usage first: {usage_first}, {tail} bytes after it"
                );
                sent += 1;
            }
        }
    }
    for line in bench.assert_idle(sent).await {
        assert_line(
            &line,
            &[
                ("prompt_tokens", json!(123_456)),
                ("completion_tokens", json!(789)),
                ("cached_tokens", json!(3)),
            ],
        );
        assert_line(
            &line,
            &[("usage_source", json!("engine")), ("finish_reason", json!("stop")), ("ttft_ms", json!(null))],
        );
    }
}

#[tokio::test]
async fn a_26_the_counts_are_found_across_every_cut() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"\u6c49\"usage\":1"}},"finish_reason":"length"}}],"usage" : {} ,"x":null}}"#,
        usage_json(31, 41)
    );
    let wire = answer(200, &[("content-type", "application/json")], body.as_bytes());
    let head = wire.len() - body.len();
    for k in head..=wire.len() {
        up.answer_with(vec![send(&wire[..k]), send(&wire[k..])]);
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.text(), body, "cut at {k}");
    }
    let bytes: Vec<Step> = wire.iter().map(|b| send([*b])).collect();
    up.answer_with(bytes);
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.text(), body);
    for line in bench.assert_idle(body.len() + 2).await {
        assert_line(
            &line,
            &[
                ("prompt_tokens", json!(31)),
                ("completion_tokens", json!(41)),
                ("finish_reason", json!("length")),
            ],
        );
    }
}
