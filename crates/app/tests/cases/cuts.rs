//! A-18, A-19, A-21 at their edges: cuts inside chunks, cuts of old clients, an engine's own last words, and a client
//! that leaves with the answer in its hand.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, Stream, answer, chat_answer, chunk, error_answer, error_json, event,
    open_stream, role_event, text_event,
};
use sluicegate_testkit::requests::{CHAT, chat, chat_stream, post};
use sluicegate_testkit::{Bench, Config, End, Gate, Health, Load, RawClient, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error, last_event, requests_at};
use crate::encoders::pieces;

fn stream_request() -> Vec<u8> {
    post(CHAT, &chat_stream("m1"))
}

/// The same request of a client that knows no chunks.
fn old(request: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(request).expect("text");
    text.replacen("HTTP/1.1", "HTTP/1.0", 1).into_bytes()
}

/// A replica that is always asked first, beside a busier one that keeps the pool from depending on it.
async fn preferred(settings: &[(&str, &str, i64)]) -> (Upstream, Upstream, Bench) {
    let (up, peer) = (Upstream::start("m1"), Upstream::start("m1"));
    peer.set_load(Load { running: 50, ..Load::default() });
    let mut config = Config::new(&[&up, &peer]).set("pools.health", "cooldown", "10m").set(
        "pools.health",
        "cooldown_max",
        "10m",
    );
    for (section, key, value) in settings {
        config = config.set(section, key, *value);
    }
    let bench = Bench::live(&config, 2).await;
    until(|| bench.replica(&peer).scraped.is_some_and(|load| load.running == 50)).await;
    (up, peer, bench)
}

/// A client that stops reading in the middle of an event of many MiB, until the whole-request limit has gone by.
async fn limit_inside_an_event(request: &[u8], expected: End) {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).set("listen", "threads", 1).set("routes.timeouts", "total", "2s");
    let bench = Bench::live(&config, 1).await;
    let huge = text_event(&"x".repeat(24 << 20));
    let mut script = open_stream(&[role_event(), huge.clone()]);
    script.push(Step::Hang);
    up.answer_with(script);
    let mut client = RawClient::connect_narrow(bench.address()).await;
    client.send(request).await;
    client.head().await;
    assert_eq!(client.event().await, role_event());
    // Asked later, on the same thread: when its limit has gone by, so has the one of the stream.
    up.answer_with(vec![Step::Hang]);
    assert_own_error(&bench.ask(&post(CHAT, &chat("m1", ""))).await, 504);
    // The client panics where the framing is not in order.
    let (rest, end) = client.rest().await;
    assert_eq!(end, expected);
    assert!(rest.len() < huge.len() && huge.starts_with(&rest), "something else was put inside the event");
    let lines = bench.assert_idle(2).await;
    let cut = lines.iter().find(|l| l["stream"] == json!(true)).expect("the stream's line");
    assert_line(cut, &[("outcome", json!("timeout_total")), ("status", json!(200)), ("attempts", json!(1))]);
    assert_nobody_blamed(&bench, &[&up]);
}

#[tokio::test]
async fn a_18_nothing_is_written_inside_a_chunk_that_is_half_taken() {
    limit_inside_an_event(&stream_request(), End::Cut).await;
}

#[tokio::test]
async fn a_18_an_old_client_whose_event_is_half_taken_sees_a_reset() {
    limit_inside_an_event(&old(&stream_request()), End::Reset).await;
}

#[tokio::test]
async fn a_18_a_stream_with_a_length_needs_its_done_too() {
    let stream = Stream::chat(&["a", "b"]);
    for (events, whole) in [(stream.events.clone(), true), (stream.events[..3].to_vec(), false)] {
        let (up, _peer, bench) = preferred(&[]).await;
        let gate = Gate::new();
        let wire = answer(200, &[("content-type", "text/event-stream")], &events.concat());
        let first = wire.len() - events[1..].concat().len();
        let gated = [send(&wire[..first]), Step::Wait(gate.clone()), send(&wire[first..])];
        up.answer_with(gated.to_vec());
        let mut client = bench.client().await;
        client.send(&stream_request()).await;
        client.head().await;
        assert_eq!(client.event().await, events[0]);
        gate.open();
        let (rest, end) = client.rest().await;
        assert_eq!(end == End::Whole, whole, "{}", String::from_utf8_lossy(&rest));
        if !whole {
            assert!(last_event(&String::from_utf8_lossy(&rest))["error"].is_object());
        }
        let outcome = if whole { "ok" } else { "upstream_aborted" };
        let lines = bench.assert_idle(1).await;
        assert_line(&lines[0], &[("outcome", json!(outcome)), ("attempts", json!(1))]);
    }
}

/// Answers whose end an HTTP/1.0 client can only tell by the close: the head, the first bytes, and whether an error
/// event can be read in what follows.
fn cut_answers() -> Vec<(&'static str, Vec<u8>, Vec<u8>, bool)> {
    let coded = [&STREAM_HEAD[..STREAM_HEAD.len() - 2], b"content-encoding: gzip\r\n\r\n"].concat();
    let json = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    vec![
        ("stream", STREAM_HEAD.to_vec(), role_event(), true),
        ("coded stream", coded, pieces("gzip", &[role_event()]).swap_remove(0), false),
        ("json", json.to_vec(), br#"{"choices":"#.to_vec(), false),
    ]
}

#[tokio::test]
async fn a_18_an_old_client_never_sees_a_clean_end_of_a_cut_answer() {
    for (name, head, first, with_error) in cut_answers() {
        for ending in [Step::Close, Step::Reset] {
            let up = Upstream::start("m1");
            let bench = Bench::with_replicas(&[&up]).await;
            let gate = Gate::new();
            up.answer_with(vec![send(&head), send(chunk(&first)), Step::Wait(gate.clone()), ending]);
            let mut client = bench.client().await;
            client.send(&old(&stream_request())).await;
            assert_eq!(client.head().await.status(), 200, "{name}");
            assert_eq!(client.at_least(first.len()).await, first, "{name}");
            gate.open();
            let (rest, end) = client.rest().await;
            let told = with_error && last_event(&String::from_utf8_lossy(&rest))["error"].is_object();
            assert!(told || end == End::Reset, "{name}: a clean end");
            let lines = bench.assert_idle(1).await;
            assert_line(&lines[0], &[("outcome", json!("upstream_aborted"))]);
        }
    }
}

#[tokio::test]
async fn a_19_an_engines_own_error_event_is_the_only_one_whatever_comes_after_it() {
    for (code, ejections) in [(400, 0), (500, 1)] {
        for ending in [Step::Close, Step::Reset, send(LAST_CHUNK)] {
            let (up, peer, bench) = preferred(&[("pools.health", "eject_after_5xx", 1)]).await;
            let gate = Gate::new();
            let events = [role_event(), text_event("a"), event(&error_json(code, "boom"))];
            let mut script = open_stream(&events);
            script.extend([Step::Wait(gate.clone()), ending]);
            up.answer_with(script);
            let mut client = bench.client().await;
            client.send(&stream_request()).await;
            client.head().await;
            for event in &events {
                assert_eq!(client.event().await, *event, "{code}");
            }
            gate.open();
            let (rest, end) = client.rest().await;
            assert!(rest.is_empty(), "{code}: {:?} after the engine's error", String::from_utf8_lossy(&rest));
            assert_ne!(end, End::Whole, "{code}");
            let lines = bench.assert_idle(1).await;
            assert_line(
                &lines[0],
                &[
                    ("outcome", json!("upstream_aborted")),
                    ("error_type", json!("InternalServerError")),
                    ("attempts", json!(1)),
                ],
            );
            assert_eq!(bench.replica(&up).ejections, ejections, "{code}");
            assert_eq!(requests_at(&[&up, &peer]), 1);
        }
    }
}

/// One failure of two that would eject, seen as the client sees it.
async fn one_failure(bench: &Bench, up: &Upstream) {
    up.answer_with(vec![send(error_answer(500, "oops"))]);
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 500);
}

#[tokio::test]
async fn a_21_a_client_that_leaves_with_its_done_has_had_a_good_answer() {
    let settings = [("pools.health", "eject_after_5xx", 2), ("routes.retry", "attempts", 1)];
    let (up, peer, bench) = preferred(&settings).await;
    one_failure(&bench, &up).await;
    let stream = Stream::chat(&["a", "b"]);
    let mut script = open_stream(&stream.events);
    // Its last chunk never comes.
    script.push(Step::Hang);
    up.answer_with(script);
    let mut client = bench.client().await;
    client.send(&stream_request()).await;
    client.head().await;
    assert_eq!(client.at_least(stream.bytes().len()).await, stream.bytes());
    client.close().await;
    up.counts().gone.reached(1).await;
    let lines = bench.assert_idle(2).await;
    assert_line(
        &lines[1],
        &[
            ("outcome", json!("ok")),
            ("error_type", json!(null)),
            ("usage_source", json!("engine")),
            ("completion_tokens", json!(2)),
        ],
    );
    // It was a success to the replica: two failures in a row are needed again.
    one_failure(&bench, &up).await;
    assert_eq!(bench.replica(&up).health, Health::Live);
    one_failure(&bench, &up).await;
    assert_eq!(bench.replica(&up).health, Health::Ejected);
    up.answer_with(vec![send(chat_answer("a", 1, 1))]);
    assert_eq!(requests_at(&[&peer]), 0);
    assert!(stream.bytes().ends_with(DONE));
    bench.assert_idle(4).await;
}
