//! an error event is found whatever else came with it, as long as nothing was generated.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, Stream, chunk, error_json, event, finish_event, role_event,
};
use sluicegate_testkit::requests::{CHAT, chat_stream, post};
use sluicegate_testkit::{Bench, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};

fn boom() -> Vec<u8> {
    event(&error_json(500, "boom"))
}

/// Streams that come with one write, and so with one read.
fn refusals() -> Vec<(&'static str, Vec<Step>)> {
    let one_write = |events: &[Vec<u8>]| {
        let chunks: Vec<u8> = events.iter().flat_map(|e| chunk(e)).collect();
        vec![send([STREAM_HEAD, &chunks, LAST_CHUNK].concat())]
    };
    vec![
        ("error alone", one_write(&[boom()])),
        ("role, error", one_write(&[role_event(), boom()])),
        ("role, error, [DONE]", one_write(&[role_event(), boom(), DONE.to_vec()])),
        ("error, [DONE]", one_write(&[boom(), DONE.to_vec()])),
        ("error, role, [DONE]", one_write(&[boom(), role_event(), DONE.to_vec()])),
        ("role, error, finish", one_write(&[role_event(), boom(), finish_event("error"), DONE.to_vec()])),
        (
            "one chunk",
            vec![send([STREAM_HEAD, &chunk(&[role_event(), boom()].concat()), LAST_CHUNK].concat())],
        ),
    ]
}

#[tokio::test]
async fn a_19_an_error_beside_other_events_of_the_first_read_is_retried() {
    for (name, refusal) in refusals() {
        let (bad, good) = (Upstream::start("m1"), Upstream::start("m1"));
        bad.answer_with(refusal);
        let bench = Bench::with_replicas(&[&bad, &good]).await;
        for _ in 0..2 {
            let answer = bench.ask(&post(CHAT, &chat_stream("m1"))).await;
            assert_eq!(answer.body, Stream::chat(&["hel", "lo"]).bytes(), "{name}: {}", answer.text());
        }
        assert!(bad.counts().requests.get() >= 1, "{name}: the bad replica was never chosen");
        let lines = bench.assert_idle(2).await;
        assert!(lines.iter().all(|l| l["outcome"] == json!("ok")), "{name}: {lines:#?}");
        assert_nobody_blamed(&bench, &[&bad, &good]);
    }
}

#[tokio::test]
async fn a_19_the_error_and_nothing_beside_it_becomes_the_answer() {
    for (name, refusal) in refusals() {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        for up in &ups {
            up.answer_with(refusal.clone());
        }
        let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
        let answer = bench.ask(&post(CHAT, &chat_stream("m1"))).await;
        assert_eq!((answer.status(), answer.text()), (500, error_json(500, "boom")), "{name}");
        assert_eq!(requests_at(&[&ups[0], &ups[1]]), 2, "{name}");
        let lines = bench.assert_idle(1).await;
        assert_line(&lines[0], &[("outcome", json!("upstream_error")), ("status", json!(500))]);
    }
}
