//! Requests sent before their predecessors are answered, more of them than the gateway takes in ahead.

use serde_json::json;
use sluicegate_testkit::answers::{chat_answer, open_stream, role_event, text_event};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Gate, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed};

/// Requests in one pipeline: together several times what is taken in ahead (16 KiB).
const REQUESTS: usize = 100;

fn request(number: usize, stream: bool) -> Vec<u8> {
    let padding = "p".repeat(400);
    post(
        CHAT,
        &chat("m1", &format!(r#","stream":{stream},"user":"{number}","metadata":{{"p":"{padding}"}}"#)),
    )
}

fn pipeline() -> Vec<u8> {
    (1..REQUESTS).flat_map(|number| request(number, false)).collect()
}

#[tokio::test]
async fn a_pipeline_beyond_what_is_taken_in_ahead_is_answered_in_order() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let gate = Gate::new();
    let first = gate.clone();
    up.on_request(move |r| {
        let user = r.json()["user"].as_str().unwrap_or_default().to_owned();
        vec![Step::Wait(first.clone()), send(chat_answer(&user, 1, 1))]
    });
    let mut client = bench.client().await;
    client.send(&request(0, false)).await;
    up.counts().requests.reached(1).await;
    client.send(&pipeline()).await;
    assert!(client.nothing_came());
    gate.open();
    for number in 0..REQUESTS {
        let answer = client.answer().await;
        assert_eq!(answer.status(), 200, "{number}: {}", answer.text());
        assert_eq!(answer.json()["choices"][0]["message"]["content"], json!(number.to_string()));
    }
    assert_eq!(up.counts().requests.get(), REQUESTS as u64);
    bench.assert_idle(REQUESTS).await;
}

/// What it has sent ahead stands between the gateway and the news of its leaving.
#[tokio::test]
async fn a_21_a_client_that_leaves_behind_a_full_pipeline_is_noticed() {
    let mut running = open_stream(&[role_event(), text_event("a")]);
    running.push(Step::Hang);
    for (name, script, events) in [("no answer yet", vec![Step::Hang], 0), ("in a stream", running, 2)] {
        for reset in [false, true] {
            let up = Upstream::start("m1");
            let bench = Bench::with_replicas(&[&up]).await;
            up.answer_with(script.clone());
            let mut client = bench.client().await;
            client.send(&request(0, true)).await;
            up.counts().requests.reached(1).await;
            if events > 0 {
                client.head().await;
            }
            for _ in 0..events {
                client.event().await;
            }
            client.send(&pipeline()).await;
            if reset {
                client.reset();
            } else {
                client.close().await;
            }
            up.counts().gone.reached(1).await;
            let lines = bench.assert_idle(1).await;
            assert_line(&lines[0], &[("outcome", json!("client_gone")), ("attempts", json!(1))]);
            assert_eq!(up.counts().heads.get(), 1, "{name}: one of those behind it was served");
            assert_nobody_blamed(&bench, &[&up]);
        }
    }
}
