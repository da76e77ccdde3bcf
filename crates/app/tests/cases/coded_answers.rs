//! A-64: a replica that codes its answers. The client gets them byte for byte; usage, finish reason, errors and the end
//! of a stream are read all the same.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{
    LAST_CHUNK, Stream, answer, chat_json, chunk, error_json, event, json_answer, polite, usage_json,
};
use sluicegate_testkit::requests::{CHAT, chat, chat_stream, post, post_with};
use sluicegate_testkit::{Bench, End, Feed, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};
use crate::encoders::{CODINGS, encode, pieces};

const JSON: (&str, &str) = ("content-type", "application/json");

fn stream_head(coding: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n"
    )
}

/// A script: the head, each piece with a write of its own, the end.
fn coded_stream(coding: &str, pieces: &[Vec<u8>]) -> Vec<Step> {
    let mut steps = vec![send(stream_head(coding))];
    steps.extend(pieces.iter().filter(|p| !p.is_empty()).map(|p| send(chunk(p))));
    steps.push(send(LAST_CHUNK));
    steps
}

/// What a line says of a stream of two words, whose usage the engine has told.
fn told() -> [(&'static str, Value); 5] {
    [
        ("prompt_tokens", json!(11)),
        ("completion_tokens", json!(2)),
        ("usage_source", json!("engine")),
        ("finish_reason", json!("stop")),
        ("outcome", json!("ok")),
    ]
}

#[tokio::test]
async fn a_64_replicas_are_not_asked_for_codings() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    for body in [chat("m1", ""), chat_stream("m1")] {
        let answer = bench.ask(&post_with(CHAT, &[("Accept-Encoding", "gzip, br")], &body)).await;
        assert!(!answer.head.has("content-encoding"));
        assert!(!up.received().pop().expect("a request").head.has("accept-encoding"));
    }
    for line in bench.assert_idle(2).await {
        assert_line(&line, &[("prompt_tokens", json!(11)), ("usage_source", json!("engine"))]);
    }
}

#[tokio::test]
async fn a_64_a_coded_answer_passes_unchanged_and_its_usage_is_read() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let words: String = (0..9000).map(|i| format!("{:x} ", i * 7919 % 65_537)).collect();
    let mut sent = 0;
    for text in ["hi", &words] {
        let body = chat_json(text, 41, 17);
        for (coding, encoder) in CODINGS {
            let coded = encode(encoder, body.as_bytes());
            let fields = [JSON, ("content-encoding", coding)];
            let mut in_chunks = vec![send(format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {coding}\r\ntransfer-encoding: chunked\r\n\r\n"
            ))];
            in_chunks.extend(coded.chunks(coded.len() / 7 + 1).map(|piece| send(chunk(piece))));
            in_chunks.push(send(LAST_CHUNK));
            for steps in [vec![send(answer(200, &fields, &coded))], in_chunks] {
                up.answer_with(steps);
                let answer = bench.ask(&post(CHAT, &chat("m1", ""))).await;
                assert_eq!((answer.status(), answer.end), (200, End::Whole));
                assert_eq!(answer.head.get("content-encoding"), Some(coding));
                assert!(answer.body == coded, "{coding}: the coded bytes were changed");
                sent += 1;
            }
        }
    }
    for line in bench.assert_idle(sent).await {
        assert_line(&line, &[("prompt_tokens", json!(41)), ("completion_tokens", json!(17))]);
        assert_line(&line, &[("usage_source", json!("engine")), ("finish_reason", json!("stop"))]);
    }
}

#[tokio::test]
async fn a_64_what_cannot_be_decoded_passes_unread() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let body = chat_json("hi", 41, 17).into_bytes();
    let cases = [
        ("compress", body.clone()),
        ("gzip, gzip", encode("gzip", &encode("gzip", &body))),
        ("gzip", body.clone()),
        ("br", b"\xff\xff\xff\xff".to_vec()),
    ];
    for (coding, bytes) in &cases {
        up.answer_with(vec![send(answer(200, &[JSON, ("content-encoding", coding)], bytes))]);
        let answer = bench.ask(&post(CHAT, &chat("m1", ""))).await;
        assert_eq!((answer.status(), answer.end, &answer.body), (200, End::Whole, bytes), "{coding}");
        assert_eq!(answer.head.get("content-encoding"), Some(*coding));
    }
    // A stream that turns bad goes on, and is no cut: nobody knows its end.
    let stream = Stream::chat(&["hel", "lo"]);
    for (coding, encoder) in CODINGS {
        let mut bad = pieces(encoder, &stream.events);
        bad.truncate(3);
        bad.push(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff".to_vec());
        up.answer_with(coded_stream(coding, &bad));
        let answer = bench.ask(&post(CHAT, &chat_stream("m1"))).await;
        assert_eq!((answer.end, &answer.body), (End::Whole, &bad.concat()), "{encoder}");
    }
    for line in bench.assert_idle(cases.len() + CODINGS.len()).await {
        assert_ne!(line["usage_source"], json!("engine"), "{line}");
        assert_line(&line, &[("outcome", json!("ok")), ("events", json!(null))]);
    }
    assert_nobody_blamed(&bench, &[&up]);
}

#[tokio::test]
async fn a_64_a_coded_stream_flows_event_by_event_and_is_read() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let stream = Stream::chat(&["hel", "lo"]);
    for (coding, encoder) in CODINGS {
        let feed = Feed::new();
        up.answer_with(vec![send(stream_head(coding)), Step::Feed(feed.clone())]);
        let mut client = bench.client().await;
        // The client did not ask for usage and gets the event all the same: it cannot be cut out of coded bytes.
        client.send(&post(CHAT, &chat("m1", r#","stream":true"#))).await;
        for (i, piece) in pieces(encoder, &stream.events).iter().enumerate().filter(|(_, p)| !p.is_empty()) {
            feed.push(chunk(piece));
            if i == 0 {
                let head = client.head().await;
                assert_eq!((head.status(), head.get("content-encoding")), (200, Some(coding)));
            }
            assert_eq!(&client.at_least(piece.len()).await, piece, "{encoder}: event {i}");
        }
        feed.push(LAST_CHUNK);
        feed.end();
        assert_eq!(client.rest().await, (Vec::new(), End::Whole));
    }
    for line in bench.assert_idle(CODINGS.len()).await {
        assert_line(&line, &told());
        assert_line(&line, &[("events", json!(5)), ("stream", json!(true))]);
        assert!(line["ttft_ms"].is_number(), "{line}");
    }
}

#[tokio::test]
async fn a_64_a_coded_stream_is_read_in_any_split() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let stream = Stream::chat(&["hel", "lo"]);
    for (coding, encoder) in CODINGS {
        let whole = encode(encoder, &stream.bytes());
        for size in [1, 7, whole.len()] {
            let parts: Vec<Vec<u8>> = whole.chunks(size).map(<[u8]>::to_vec).collect();
            up.answer_with(coded_stream(coding, &parts));
            let answer = bench.ask(&post(CHAT, &chat_stream("m1"))).await;
            assert_eq!((answer.end, &answer.body), (End::Whole, &whole), "{encoder} in parts of {size}");
        }
    }
    for line in bench.assert_idle(3 * CODINGS.len()).await {
        assert_line(&line, &told());
    }
}

#[tokio::test]
async fn a_64_a_coded_stream_without_its_end_is_cut_and_nothing_is_put_into_it() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let stream = Stream::chat(&["hel", "lo"]);
    for (coding, encoder) in CODINGS {
        let pieces = pieces(encoder, &stream.events[..3]);
        let (first, rest) = pieces.split_first().expect("three events");
        // Once with the coding's own end, once without.
        for rest in [rest, &rest[..2]] {
            let feed = Feed::new();
            up.answer_with(vec![send(stream_head(coding)), Step::Feed(feed.clone())]);
            let mut client = bench.client().await;
            client.send(&post(CHAT, &chat_stream("m1"))).await;
            feed.push(chunk(first));
            assert_eq!(client.head().await.status(), 200);
            rest.iter().filter(|piece| !piece.is_empty()).for_each(|piece| feed.push(chunk(piece)));
            feed.push(LAST_CHUNK);
            feed.end();
            let expected = [first.as_slice(), &rest.concat()].concat();
            assert_eq!(client.rest().await, (expected, End::Cut), "{encoder}");
        }
    }
    for line in bench.assert_idle(2 * CODINGS.len()).await {
        assert_line(&line, &[("outcome", json!("upstream_aborted")), ("completion_tokens", json!(2))]);
        assert_line(&line, &[("usage_source", json!("estimated"))]);
    }
}

#[tokio::test]
async fn a_64_a_refusal_inside_a_coded_stream_is_retried_or_becomes_an_answer() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let all = [&ups[0], &ups[1]];
    let bench = Bench::with_replicas(&all).await;
    let mut sent = 0;
    for (code, kept) in [(503, false), (400, true)] {
        let refusal = [event(&error_json(code, "no room, \u{6c49}")), b"data: [DONE]\n\n".to_vec()];
        for (coding, encoder) in CODINGS {
            let refused = coded_stream(coding, &pieces(encoder, &refusal));
            for up in all {
                let (refused, before) = (refused.clone(), requests_at(&all));
                let others = [ups[0].counts().requests.clone(), ups[1].counts().requests.clone()];
                up.on_request(move |request| {
                    // The first of all replicas to be asked refuses, the second answers.
                    let first = others.iter().map(|c| c.get()).sum::<u64>() == before + 1;
                    if first { refused.clone() } else { polite(request) }
                });
            }
            let answer = bench.ask(&post(CHAT, &chat_stream("m1"))).await;
            if kept {
                assert_eq!((answer.status(), answer.text()), (400, error_json(code, "no room, \u{6c49}")));
                assert!(!answer.head.has("content-encoding"));
            } else {
                assert_eq!((answer.status(), answer.body), (200, Stream::chat(&["hel", "lo"]).bytes()));
            }
            sent += 1;
        }
    }
    assert_eq!(requests_at(&all), sent + sent / 2);
    bench.assert_idle(usize::try_from(sent).expect("a few")).await;
}

#[tokio::test]
async fn a_64_a_coded_error_is_relayed_byte_for_byte_and_its_type_read() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let mut sent = 0;
    for status in [400, 500] {
        let plain = error_json(status, "why");
        for (coding, encoder) in CODINGS {
            let coded = encode(encoder, plain.as_bytes());
            up.answer_with(vec![send(answer(status, &[JSON, ("content-encoding", coding)], &coded))]);
            let answer = bench.ask(&post(CHAT, &chat("m1", &format!(r#","user":"{encoder}""#)))).await;
            assert_eq!((answer.status(), &answer.body), (status, &coded), "{encoder}");
            assert_eq!(answer.head.get("content-encoding"), Some(coding));
            sent += 1;
        }
    }
    // A coded page that is no JSON is not shown.
    let page = encode("gzip", b"<html>502</html>");
    up.answer_with(vec![send(answer(
        500,
        &[("content-type", "text/html"), ("content-encoding", "gzip")],
        &page,
    ))]);
    let answer = bench.ask(&post(CHAT, &chat("m1", r#","user":"page""#))).await;
    assert!(answer.status() == 500 && answer.json()["error"]["code"] == json!("upstream_error"));
    assert!(!answer.head.has("content-encoding"));
    for line in &bench.assert_idle(sent + 1).await[..sent] {
        assert_line(line, &[("error_type", json!("InternalServerError"))]);
    }
}

/// Running totals in every event of a coded stream: the last one counts.
#[tokio::test]
async fn a_64_the_last_usage_of_a_coded_stream_counts() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let events: Vec<Vec<u8>> = (1..=40)
        .map(|n| {
            let usage = usage_json(11, n);
            event(&format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"x"}}}}],"usage":{usage}}}"#))
        })
        .chain([b"data: [DONE]\n\n".to_vec()])
        .collect();
    up.answer_with(coded_stream("zstd", &pieces("zstd", &events)));
    assert_eq!(bench.ask(&post(CHAT, &chat_stream("m1"))).await.end, End::Whole);
    up.answer_with(vec![send(json_answer(200, &chat_json("plain again", 5, 6)))]);
    bench.ask(&post(CHAT, &chat("m1", ""))).await;
    let lines = bench.assert_idle(2).await;
    assert_line(&lines[0], &[("completion_tokens", json!(40)), ("events", json!(40))]);
    assert_line(&lines[1], &[("completion_tokens", json!(6))]);
}
