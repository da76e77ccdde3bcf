//! A-13 to A-17: streams pass through as they come, wherever they are cut and however they are written.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, Stream, chunk, delta_event, finish_event, open_stream, role_event,
    text_event, usage_event,
};
use sluicegate_testkit::requests::{CHAT, chat, chat_stream, get, post};
use sluicegate_testkit::{Bench, Config, End, Feed, Gate, RawClient, Step, Upstream, send};

use crate::checks::{assert_line, requests_at};

/// A stream of which the usage event is the client's (`true`) or the gateway's own.
const ASKED: [bool; 2] = [true, false];

fn stream_request(asked: bool) -> Vec<u8> {
    post(CHAT, &if asked { chat_stream("m1") } else { chat("m1", r#","stream":true"#) })
}

fn expected(stream: &Stream, asked: bool) -> Vec<u8> {
    if asked { stream.bytes() } else { stream.bytes_without_usage() }
}

/// Asserts on the usage lines of streams with two texts.
async fn assert_counted(bench: &Bench, requests: usize, streams: usize) {
    let lines = bench.assert_idle(requests).await;
    let lines: Vec<_> = lines.iter().filter(|l| l["endpoint"] == json!("/v1/chat/completions")).collect();
    assert_eq!(lines.len(), streams);
    for line in lines {
        assert_line(
            line,
            &[("outcome", json!("ok")), ("usage_source", json!("engine")), ("finish_reason", json!("stop"))],
        );
        assert_line(
            line,
            &[("prompt_tokens", json!(11)), ("cached_tokens", json!(3)), ("completion_tokens", json!(2))],
        );
        assert!(line["ttft_ms"].is_number(), "no TTFT in {line:#}");
    }
}

/// Every byte of the answer is once the last one before a pause: within its head, its chunk sizes, its characters. The
/// pause lasts until the gateway's only thread has been seen doing something else.
async fn cut_everywhere(asked: bool) {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "threads", 1), 1).await;
    let stream = Stream::chat(&["\u{6c49}", "\u{1f980}"]);
    let wire = stream.wire();
    let (mut client, mut bystander) = (bench.client().await, bench.client().await);
    for k in 1..wire.len() {
        let (sent, rest) = (Gate::new(), Gate::new());
        up.answer_with(vec![
            send(&wire[..k]),
            Step::Tell(sent.clone()),
            Step::Wait(rest.clone()),
            send(&wire[k..]),
        ]);
        client.send(&stream_request(asked)).await;
        sent.passed().await;
        for _ in 0..2 {
            assert_eq!(bystander.exchange(&get("/v1/models")).await.status(), 200);
        }
        rest.open();
        let answer = client.answer().await;
        assert_eq!(
            (answer.text().as_bytes(), answer.end),
            (&*expected(&stream, asked), End::Whole),
            "cut at {k}"
        );
    }
    let streams = wire.len() - 1;
    assert_counted(&bench, 3 * streams, streams).await;
}

#[tokio::test]
async fn a_13_a_stream_cut_at_every_byte_is_the_same_stream() {
    cut_everywhere(true).await;
}

#[tokio::test]
async fn a_13_the_hidden_usage_event_is_taken_out_at_every_cut() {
    cut_everywhere(false).await;
}

/// The same events in the spellings that the event-stream format allows.
fn spellings() -> Vec<(&'static str, Stream)> {
    let plain = Stream::chat(&["a \u{6c49}", "\u{1f980} data: {}"]);
    let of = |rewrite: &dyn Fn(usize, String) -> String| {
        let texts = plain.events.iter().map(|e| String::from_utf8(e.clone()).expect("text"));
        let events = texts.enumerate().map(|(i, e)| rewrite(i, e).into_bytes()).collect();
        Stream { events, usage_at: plain.usage_at }
    };
    let no_blank = |e: &str| e.replacen("data: ", "data:", 1);
    vec![
        ("LF", plain.clone()),
        ("CRLF", of(&|_, e| e.replace('\n', "\r\n"))),
        ("CR", of(&|_, e| e.replace('\n', "\r"))),
        ("no blank", of(&|_, e| no_blank(&e))),
        ("CRLF, no blank", of(&|_, e| no_blank(&e).replace('\n', "\r\n"))),
        (
            "mixed",
            of(&|i, e| match i % 3 {
                0 => e.replace('\n', "\r\n"),
                1 => no_blank(&e),
                _ => e,
            }),
        ),
        ("mixed within an event", of(&|_, e| e.replacen('\n', "\r\n", 1))),
        ("other fields", of(&|_, e| format!("id: 7\nevent: message\nretry: 10\n{e}"))),
    ]
}

#[tokio::test]
async fn a_14_every_spelling_of_events_passes_through_and_is_understood() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut sent = 0;
    for (name, stream) in spellings() {
        let bytewise = stream.wire().iter().map(|b| send([*b])).collect();
        for steps in [stream.one_write(), stream.steps(), bytewise] {
            up.answer_with(steps);
            for asked in ASKED {
                let answer = bench.ask(&stream_request(asked)).await;
                assert_eq!(
                    answer.text().as_bytes(),
                    &*expected(&stream, asked),
                    "{name}, asked for usage: {asked}"
                );
                assert_eq!(answer.end, End::Whole, "{name}");
                sent += 1;
            }
        }
    }
    assert_counted(&bench, sent, sent).await;
}

#[tokio::test]
async fn a_15_each_comment_reaches_the_client_at_once_and_as_it_is() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let comments = [": wait\n\n", ":\n\n", ": PROCESSING data: {}\n\n", ": wait\r\n\r\n"];
    // Also where the gateway looks for the usage that it asked for itself, and takes it out.
    for asked in ASKED {
        let feed = Feed::new();
        up.answer_with(vec![send(STREAM_HEAD), Step::Feed(feed.clone()), send(LAST_CHUNK)]);
        let mut client = bench.client().await;
        let before = up.counts().requests.get();
        client.send(&stream_request(asked)).await;
        up.counts().requests.reached(before + 1).await;
        for i in 0..20 {
            let comment = comments[i % comments.len()];
            feed.push(chunk(comment.as_bytes()));
            if i == 0 {
                assert_eq!(client.head().await.status(), 200);
            }
            // The next one is not sent before this one is here: nothing is held back.
            assert_eq!(client.event().await, comment.as_bytes());
        }
        let stream = Stream::chat(&["a", "b"]);
        for (at, event) in stream.events.iter().enumerate() {
            feed.push(chunk(event));
            if asked || stream.usage_at != Some(at) {
                assert_eq!(client.event().await, *event);
            }
        }
        feed.end();
        assert_eq!(client.rest().await, (Vec::new(), End::Whole));
    }
    assert_counted(&bench, ASKED.len(), ASKED.len()).await;
}

#[tokio::test]
async fn a_15_after_a_forwarded_comment_nothing_is_retried_and_no_first_token_is_booked() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
    let die = Gate::new();
    for up in &ups {
        up.answer_with(vec![
            send(STREAM_HEAD),
            send(chunk(b": wait\n\n")),
            Step::Wait(die.clone()),
            Step::Reset,
        ]);
    }
    let mut client = bench.client().await;
    client.send(&stream_request(true)).await;
    client.head().await;
    assert_eq!(client.event().await, b": wait\n\n");
    die.open();
    let (_, end) = client.rest().await;
    assert_ne!(end, End::Whole);
    let lines = bench.assert_idle(1).await;
    assert_line(
        &lines[0],
        &[("outcome", json!("upstream_aborted")), ("attempts", json!(1)), ("ttft_ms", json!(null))],
    );
    assert_line(&lines[0], &[("events", json!(0))]);
    assert_eq!(requests_at(&[&ups[0], &ups[1]]), 1);
}

fn tool_call(arguments: usize) -> Vec<u8> {
    let text = "x".repeat(arguments);
    delta_event(&format!(
        r#"{{"tool_calls":[{{"index":0,"function":{{"name":"f","arguments":"{text}"}}}}]}}"#
    ))
}

/// Also as the very first event, where the head is held back for it up to a limit.
#[tokio::test]
async fn a_16_events_of_megabytes_arrive_whole_and_in_order() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut sent = 0;
    for size in [(64 << 10) + 1, (1 << 20) + 1, 4 << 20] {
        for first in [false, true] {
            let mut events =
                vec![tool_call(size), finish_event("tool_calls"), usage_event(11, 2), DONE.to_vec()];
            if !first {
                events.insert(0, role_event());
            }
            let stream = Stream { usage_at: Some(events.len() - 2), events };
            let mut in_pieces = vec![send(STREAM_HEAD)];
            in_pieces.extend(stream.bytes().chunks(10_007).map(|p| send(chunk(p))));
            in_pieces.push(send(LAST_CHUNK));
            for (steps, asked) in
                [(stream.one_write(), true), (stream.one_write(), false), (in_pieces, false)]
            {
                up.answer_with(steps);
                let answer = bench.ask(&stream_request(asked)).await;
                assert!(
                    answer.body == expected(&stream, asked),
                    "{size} bytes, first: {first}, asked: {asked}"
                );
                assert_eq!(answer.end, End::Whole);
                sent += 1;
            }
        }
    }
    for line in bench.assert_idle(sent).await {
        assert_line(
            &line,
            &[
                ("outcome", json!("ok")),
                ("completion_tokens", json!(2)),
                ("finish_reason", json!("tool_calls")),
            ],
        );
    }
}

/// The next event is sent only when the one before has arrived, so an event that waits for company would hang.
async fn assert_nothing_waits(client: &mut RawClient, feed: &Feed, events: usize) {
    for i in 0..events {
        let event = text_event(&format!("token {i} {}", "y".repeat(100)));
        feed.push(chunk(&event));
        assert_eq!(client.event().await, event);
        assert!(client.nothing_came());
    }
}

#[tokio::test]
async fn a_17_no_event_waits_for_another() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let feed = Feed::new();
    let mut steps = open_stream(&[role_event()]);
    steps.extend([Step::Feed(feed.clone()), send(chunk(DONE)), send(LAST_CHUNK)]);
    up.answer_with(steps);
    let mut client = bench.client().await;
    client.send(&stream_request(false)).await;
    let head = client.head().await;
    assert_eq!(head.get("x-accel-buffering"), Some("no"));
    assert_eq!(head.get("cache-control"), Some("no-cache"));
    assert!(head.get("content-type").is_some_and(|t| t.starts_with("text/event-stream")), "{head:?}");
    assert_eq!(client.event().await, role_event());
    assert_nothing_waits(&mut client, &feed, 200).await;
    feed.end();
    assert_eq!(client.rest().await, (DONE.to_vec(), End::Whole));
    let lines = bench.assert_idle(1).await;
    assert_line(&lines[0], &[("outcome", json!("ok")), ("events", json!(201))]);
}

/// An engine's own words about caching are replaced, not doubled.
#[tokio::test]
async fn a_17_the_hints_against_buffering_are_there_once() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let fields = "Cache-Control: public, max-age=60\r\nX-Accel-Buffering: yes\r\n";
    let stream = Stream::chat(&["a"]);
    let head =
        String::from_utf8(STREAM_HEAD.to_vec()).expect("text").replacen("\r\n", &format!("\r\n{fields}"), 1);
    let body: Vec<u8> = stream.events.iter().flat_map(|e| chunk(e)).collect();
    up.answer_with(vec![send(head), send(body), send(LAST_CHUNK)]);
    let answer = bench.ask(&stream_request(true)).await;
    assert_eq!(answer.head.all("x-accel-buffering").collect::<Vec<_>>(), ["no"]);
    assert_eq!(answer.head.all("cache-control").collect::<Vec<_>>(), ["no-cache"]);
    assert_eq!(answer.body, stream.bytes());
    bench.assert_idle(1).await;
}
