//! A-18, A-19, A-20: answers that go wrong look wrong to the client, and to the books.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, Stream, answer, chunk, error_json, event, json_answer, open_stream,
    role_event, text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, get, post};
use sluicegate_testkit::{Bench, End, Gate, RawClient, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error, last_event, requests_at};

fn stream_request() -> Vec<u8> {
    post(CHAT, &chat("m1", r#","stream":true"#))
}

/// Two replicas with one script, so that whichever is chosen breaks, and a second generation would show.
async fn two_alike(script: &[Step]) -> ([Upstream; 2], Bench) {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    for up in &ups {
        up.answer_with(script.to_vec());
    }
    let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
    (ups, bench)
}

/// Ways for a stream to break off after its first events; the last field says whether an error event can still be put
/// in (not inside a chunk whose size the client may have been told).
fn endings() -> Vec<(&'static str, Vec<Step>, bool)> {
    let partial = &text_event("never whole")[..20];
    vec![
        ("reset", vec![Step::Reset], true),
        ("FIN without the last chunk", vec![Step::Close], true),
        ("last chunk without [DONE]", vec![send(LAST_CHUNK)], true),
        ("half an event, then reset", vec![send(chunk(partial)), Step::Reset], true),
        ("half an event, then FIN", vec![send(chunk(partial)), Step::Close], true),
        ("half an event, then the last chunk", vec![send(chunk(partial)), send(LAST_CHUNK)], true),
        ("half a chunk", vec![send(b"400\r\ndata: {"), Step::Close], false),
        ("half a chunk size", vec![send(b"4"), Step::Close], true),
        ("no chunk at all", vec![send(b"\r\nzz\r\n"), Step::Close], true),
    ]
}

#[tokio::test]
async fn a_18_a_stream_that_breaks_off_never_looks_whole() {
    let events = [role_event(), text_event("one"), text_event("two")];
    for (name, ending, with_error) in endings() {
        let gate = Gate::new();
        let mut script = open_stream(&events);
        script.push(Step::Wait(gate.clone()));
        script.extend(ending);
        let (ups, bench) = two_alike(&script).await;
        let mut client = bench.client().await;
        client.send(&stream_request()).await;
        client.head().await;
        for event in &events {
            assert_eq!(client.event().await, *event, "{name}");
        }
        gate.open();
        let (rest, end) = client.rest().await;
        let rest = String::from_utf8_lossy(&rest).into_owned();
        assert_ne!(end, End::Whole, "{name}: a clean end after {rest:?}");
        assert!(!rest.contains("[DONE]"), "{name}: {rest:?}");
        if with_error {
            assert!(last_event(&rest)["error"].is_object(), "{name}: {rest:?}");
        }
        let lines = bench.assert_idle(1).await;
        assert_line(
            &lines[0],
            &[("outcome", json!("upstream_aborted")), ("attempts", json!(1)), ("status", json!(200))],
        );
        assert_eq!(requests_at(&[&ups[0], &ups[1]]), 1, "{name}: generated twice");
        assert_nobody_blamed(&bench, &[&ups[0], &ups[1]]);
    }
}

/// The cut meets a slow client, whose buffers are full at any point of the last write: what was sent before the cut
/// still comes first, and whole.
#[tokio::test]
async fn a_18_a_slow_client_loses_nothing_that_came_before_the_cut() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let event = text_event(&"x".repeat(700));
    let runs = (1..1200).step_by(29);
    for events in runs.clone() {
        let body = event.repeat(events);
        let gate = Gate::new();
        let mut script = open_stream(&[role_event()]);
        script.extend([Step::Wait(gate.clone()), send([&chunk(&body), LAST_CHUNK].concat())]);
        up.answer_with(script);
        let mut client = RawClient::connect_narrow(bench.address()).await;
        client.send(&stream_request()).await;
        client.head().await;
        assert_eq!(client.event().await, role_event());
        gate.open();
        // It reads on only when the gateway has had time for other things, and so for filling this socket.
        for _ in 0..3 {
            bench.ask(&get("/v1/models")).await;
        }
        let (rest, end) = client.rest().await;
        assert_ne!(end, End::Whole, "{events} events: {}", String::from_utf8_lossy(&rest));
        assert!(rest.starts_with(&body), "{events} events: bytes are missing before the cut");
        assert!(last_event(&String::from_utf8_lossy(&rest))["error"].is_object(), "{events} events");
    }
    bench.assert_idle(4 * runs.count()).await;
}

/// A close is the only end that such an answer can have: without `[DONE]` it is a cut all the same.
#[tokio::test]
async fn a_18_a_stream_without_framing_ends_with_its_done_or_is_cut() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let stream = Stream::chat(&["a", "b"]);
    for (body, whole) in [(stream.bytes(), true), (stream.events[..3].concat(), false)] {
        let (_ups, bench) = two_alike(&[send(head), send(body), Step::Close]).await;
        let answer = bench.ask(&stream_request()).await;
        assert_eq!(answer.end == End::Whole, whole, "{}", answer.text());
        assert_eq!(answer.text().contains("[DONE]"), whole);
        let lines = bench.assert_idle(1).await;
        assert_line(
            &lines[0],
            &[("outcome", json!(if whole { "ok" } else { "upstream_aborted" })), ("attempts", json!(1))],
        );
    }
}

#[tokio::test]
async fn a_18_an_answer_shorter_than_its_length_is_cut() {
    let gate = Gate::new();
    let head =
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"choices\":";
    for ending in [Step::Close, Step::Reset] {
        let (ups, bench) = two_alike(&[send(head), Step::Wait(gate.clone()), ending]).await;
        let mut client = bench.client().await;
        client.send(&post(CHAT, &chat("m1", ""))).await;
        assert_eq!(client.head().await.status(), 200);
        assert_eq!(client.at_least(11).await, b"{\"choices\":");
        gate.open();
        let (rest, end) = client.rest().await;
        assert!(rest.is_empty() && end != End::Whole, "{rest:?} {end:?}");
        let lines = bench.assert_idle(1).await;
        assert_line(&lines[0], &[("outcome", json!("upstream_aborted")), ("attempts", json!(1))]);
        assert_eq!(requests_at(&[&ups[0], &ups[1]]), 1);
    }
}

#[tokio::test]
async fn a_18_the_error_event_speaks_the_clients_dialect() {
    let start = b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3}}}\n\n";
    let gate = Gate::new();
    let script = [send(STREAM_HEAD), send(chunk(start)), Step::Wait(gate.clone()), Step::Reset];
    let (_ups, bench) = two_alike(&script).await;
    let mut client = bench.client().await;
    client.send(&post("/v1/messages", br#"{"model":"m1","max_tokens":9,"stream":true,"messages":[]}"#)).await;
    client.head().await;
    assert_eq!(client.event().await, start);
    gate.open();
    let (rest, end) = client.rest().await;
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert_ne!(end, End::Whole);
    assert!(rest.starts_with("event: error\n"), "{rest:?}");
    assert_eq!(last_event(&rest)["type"], json!("error"));
    bench.assert_idle(1).await;
}

/// An error event of vLLM: HTTP 200 all the same, and `[DONE]` after it.
fn boom(code: u16) -> Vec<u8> {
    event(&error_json(code, "boom"))
}

#[tokio::test]
async fn a_19_an_error_event_passes_through_and_is_no_success() {
    let events = [role_event(), text_event("a"), text_event("b"), boom(500), DONE.to_vec()];
    let mut script = open_stream(&events);
    script.push(send(LAST_CHUNK));
    let (ups, bench) = two_alike(&script).await;
    for _ in 0..2 {
        let answer = bench.ask(&stream_request()).await;
        assert_eq!((answer.status(), &answer.body), (200, &events.concat()));
    }
    for line in bench.assert_idle(2).await {
        assert_line(
            &line,
            &[("outcome", json!("upstream_aborted")), ("attempts", json!(1)), ("status", json!(200))],
        );
        assert!(line["error_type"].is_string(), "{line:#}");
    }
    assert_eq!(requests_at(&[&ups[0], &ups[1]]), 2);
    assert_nobody_blamed(&bench, &[&ups[0], &ups[1]]);
}

fn refusal(code: u16) -> Vec<Step> {
    let mut script = open_stream(&[boom(code), DONE.to_vec()]);
    script.push(send(LAST_CHUNK));
    script
}

#[tokio::test]
async fn a_19_a_refusal_inside_a_200_is_retried_where_nothing_was_forwarded() {
    let (bad, good) = (Upstream::start("m1"), Upstream::start("m1"));
    bad.answer_with(refusal(500));
    let bench = Bench::with_replicas(&[&bad, &good]).await;
    for _ in 0..2 {
        let answer = bench.ask(&stream_request()).await;
        assert_eq!(answer.body, Stream::chat(&["hel", "lo"]).bytes_without_usage());
    }
    let lines = bench.assert_idle(2).await;
    assert!(lines.iter().all(|l| l["outcome"] == json!("ok")), "{lines:#?}");
    assert!(bad.counts().requests.get() >= 1, "the bad replica was never chosen");
    assert_nobody_blamed(&bench, &[&bad, &good]);
}

#[tokio::test]
async fn a_19_a_refusal_that_nobody_mends_becomes_a_real_answer() {
    // 5xx: tried elsewhere first. 4xx: final at once.
    for (code, attempts) in [(500, 2), (503, 2), (400, 1)] {
        let (ups, bench) = two_alike(&refusal(code)).await;
        let answer = bench.ask(&stream_request()).await;
        if attempts > 1 {
            assert_eq!(answer.status(), code, "{}", answer.text());
            assert!(!answer.text().contains("[DONE]"), "{}", answer.text());
        }
        assert!(answer.text().contains("boom"), "{}", answer.text());
        let lines = bench.assert_idle(1).await;
        assert_ne!(lines[0]["outcome"], json!("ok"));
        assert_eq!(requests_at(&[&ups[0], &ups[1]]), attempts, "{code}");
        assert_nobody_blamed(&bench, &[&ups[0], &ups[1]]);
    }
}

#[tokio::test]
async fn a_20_a_refused_stream_is_a_plain_answer() {
    let body = error_json(400, "This model's maximum context length is 2048 tokens.");
    let gate = Gate::new();
    let (ups, bench) = two_alike(&[Step::Wait(gate.clone()), send(json_answer(400, &body))]).await;
    let mut client = bench.client().await;
    client.send(&stream_request()).await;
    // Nothing is promised before the replica has said anything: another request has come and gone meanwhile.
    sluicegate_testkit::until(|| requests_at(&[&ups[0], &ups[1]]) == 1).await;
    assert_eq!(bench.ask(&post(CHAT, b"{}")).await.status(), 400);
    assert!(client.nothing_came());
    gate.open();
    let answer = client.answer().await;
    assert_eq!((answer.status(), answer.text(), answer.end), (400, body, End::Whole));
    assert_eq!(answer.head.get("content-type"), Some("application/json"));
    assert_eq!(requests_at(&[&ups[0], &ups[1]]), 1);
    bench.assert_idle(2).await;
}

#[tokio::test]
async fn a_20_a_page_of_html_becomes_our_error_and_json_is_relayed() {
    let html = format!("<html><body>{}</body></html>", "Service Unavailable. ".repeat(50));
    let html = answer(503, &[("content-type", "text/html")], html.as_bytes());
    let (ups, bench) = two_alike(&[send(html)]).await;
    let refused = bench.ask(&stream_request()).await;
    assert!(!refused.text().contains("<html>"), "{}", refused.text());
    assert_own_error(&refused, refused.status());
    assert!([502, 503].contains(&refused.status()), "{}", refused.status());
    assert_eq!(requests_at(&[&ups[0], &ups[1]]), 2);
    let lines = bench.assert_idle(1).await;
    assert_line(&lines[0], &[("outcome", json!("upstream_error")), ("attempts", json!(2))]);

    let body = error_json(503, "The engine is overloaded.");
    let json = answer(503, &[("content-type", "application/json"), ("retry-after", "7")], body.as_bytes());
    let (_ups, bench) = two_alike(&[send(json)]).await;
    let relayed = bench.ask(&stream_request()).await;
    assert_eq!((relayed.status(), relayed.text()), (503, body));
    assert_eq!(relayed.head.get("retry-after"), Some("7"));
    bench.assert_idle(1).await;
}
