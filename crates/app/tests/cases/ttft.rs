//! A-29: which event stops the clock of the first token. No times are compared: the client leaves after the event in
//! question, and the usage line either has a first token or has none.

use serde_json::json;
use sluicegate_testkit::answers::{answer, delta_event, error_answer, event, open_stream, role_event};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Step, Upstream, send};

use crate::checks::assert_line;

/// True where a client that has read exactly these events was given a first token.
async fn first_token_after(
    bench: &Bench,
    up: &Upstream,
    path: &str,
    events: &[Vec<u8>],
    requests: usize,
) -> bool {
    let mut script = open_stream(events);
    script.push(Step::Hang);
    up.answer_with(script);
    let mut client = bench.client().await;
    let body = chat("m1", r#","max_tokens":9,"prompt":"hi","input":"hi","stream":true"#);
    client.send(&post(path, &body)).await;
    client.head().await;
    for event in events {
        assert_eq!(client.event().await, *event);
    }
    client.reset();
    let line = bench.assert_idle(requests).await.pop().expect("a line");
    assert_line(&line, &[("outcome", json!("client_gone"))]);
    let ttft = line["ttft_ms"].as_f64();
    if let Some(ttft) = ttft {
        assert!(line["total_ms"].as_f64().is_some_and(|total| total >= ttft), "{line:#}");
    }
    ttft.is_some()
}

#[tokio::test]
async fn a_29_the_first_generated_payload_stops_the_clock_and_nothing_before_it() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let comment = || b": wait\n\n".to_vec();
    let anthropic = |kind: &str, rest: &str| {
        format!("event: {kind}\ndata: {{\"type\":\"{kind}\"{rest}}}\n\n").into_bytes()
    };
    let tool = || {
        delta_event(
            r#"{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":""}}]}"#,
        )
    };
    let chat_rows = [
        (vec![role_event()], false),
        (vec![comment(), comment()], false),
        (vec![role_event(), comment(), delta_event(r#"{"content":""}"#)], false),
        (
            vec![role_event(), delta_event(r#"{"content":null,"reasoning_content":null,"tool_calls":[]}"#)],
            false,
        ),
        (vec![role_event(), delta_event("{}")], false),
        (vec![role_event(), delta_event(r#"{"content":"a"}"#)], true),
        (vec![role_event(), delta_event(r#"{"content":" "}"#)], true),
        (vec![role_event(), delta_event(r#"{"reasoning_content":"hm"}"#)], true),
        (vec![role_event(), delta_event(r#"{"reasoning":"hm"}"#)], true),
        (vec![role_event(), tool()], true),
        (vec![delta_event(r#"{"role":"assistant","content":"a"}"#)], true),
        (vec![comment(), role_event(), comment(), delta_event(r#"{"content":"a"}"#)], true),
    ];
    let text =
        |t: &str| event(&format!(r#"{{"object":"text_completion","choices":[{{"index":0,"text":"{t}"}}]}}"#));
    let start = || anthropic("message_start", r#","message":{"content":[],"usage":{"input_tokens":3}}"#);
    let delta = |d: &str| anthropic("content_block_delta", &format!(r#","index":0,"delta":{d}"#));
    let response = |kind: &str, rest: &str| anthropic(kind, rest);
    let other_rows = [
        ("/v1/completions", vec![text("")], false),
        ("/v1/completions", vec![text("a")], true),
        ("/v1/messages", vec![start(), anthropic("ping", "")], false),
        ("/v1/messages", vec![start(), delta(r#"{"type":"text_delta","text":"a"}"#)], true),
        ("/v1/messages", vec![start(), delta(r#"{"type":"thinking_delta","thinking":"a"}"#)], true),
        ("/v1/messages", vec![start(), delta(r#"{"type":"input_json_delta","partial_json":"{"}"#)], true),
        (
            "/v1/responses",
            vec![response("response.created", ""), response("response.in_progress", "")],
            false,
        ),
        ("/v1/responses", vec![response("response.output_text.delta", r#","delta":"a""#)], true),
    ];
    let rows = chat_rows.into_iter().map(|(e, first)| (CHAT, e, first)).chain(other_rows);
    for (i, (path, events, first)) in rows.enumerate() {
        let found = first_token_after(&bench, &up, path, &events, i + 1).await;
        assert_eq!(found, first, "{path}: {}", String::from_utf8_lossy(&events.concat()));
    }
}

#[tokio::test]
async fn a_29_an_answer_without_a_stream_has_no_first_token() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    bench.ask(&post(CHAT, &chat("m1", ""))).await;
    // A refused stream, and one that the engine answers with plain JSON.
    let stream = post(CHAT, &chat("m1", r#","stream":true"#));
    for bytes in
        [error_answer(400, "no"), answer(200, &[("content-type", "application/json")], b"{\"choices\":[]}")]
    {
        up.answer_with(vec![send(bytes)]);
        bench.ask(&stream).await;
    }
    for line in bench.assert_idle(3).await {
        assert_line(&line, &[("ttft_ms", json!(null))]);
    }
}
