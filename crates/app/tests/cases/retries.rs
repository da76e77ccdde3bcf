//! A-30 to A-33: a second attempt is whole, goes elsewhere, and is made only where it can help.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use sluicegate_testkit::answers::{self, STREAM_HEAD, Stream, chunk, error_answer, json_answer, polite};
use sluicegate_testkit::requests::{CHAT, chat, post, post_as, post_with};
use sluicegate_testkit::{Bench, Config, Health, OnHead, Step, Upstream, send};

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};

/// Request after request on kept connections, each of which the replica ends in this way after one answer.
async fn nobody_notices(ending: &[Step], size: usize, rounds: u64) {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "threads", 1), 1).await;
    let mut script = vec![send(answers::chat_answer("a", 1, 1))];
    script.extend_from_slice(ending);
    up.answer_with(script);
    let body = chat("m1", &format!(r#","user":"{}""#, "u".repeat(size)));
    let request = post(CHAT, &body);
    let mut client = bench.client().await;
    for round in 0..rounds {
        let answer = client.exchange(&request).await;
        assert_eq!(answer.status(), 200, "round {round}: {}", answer.text());
        assert_eq!(up.counts().requests.get(), round + 1, "executed once each");
        assert!(up.only_request().body == body);
        up.forget_received();
    }
    let lines = bench.assert_idle(usize::try_from(rounds).expect("a small number")).await;
    assert!(lines.iter().all(|l| l["outcome"] == json!("ok") && l["attempts"] == json!(1)), "{lines:#?}");
    assert_nobody_blamed(&bench, &[&up]);
}

/// The close races the next request in every round; which of the two wins must not matter.
#[tokio::test]
async fn a_30_a_kept_connection_closed_by_the_replica_costs_nobody_anything() {
    for size in [1 << 10, 200 << 10] {
        nobody_notices(&[Step::Close], size, 250).await;
        nobody_notices(&[Step::Reset], size, 250).await;
    }
}

/// The worst moment: the next request is on its way already, so the gateway has written to a dead connection.
#[tokio::test]
async fn a_30_a_connection_that_dies_under_the_next_request_is_replaced() {
    for size in [1 << 10, 200 << 10] {
        nobody_notices(&[Step::NextBytes, Step::Reset], size, 100).await;
        nobody_notices(&[Step::NextBytes, Step::Close], size, 100).await;
    }
}

/// The failures of a first attempt after which a second one may be made.
fn first_failures() -> Vec<(&'static str, Vec<Step>)> {
    let half_event = chunk(b"data: {\"id\":");
    vec![
        ("reset before any byte", vec![Step::Reset]),
        ("FIN before any byte", vec![Step::Close]),
        ("half a head", vec![send(b"HTTP/1.1 200 OK\r\ncontent-ty"), Step::Close]),
        ("no HTTP", vec![send(b"\0\x01\x02 what\r\n\r\n"), Step::Close]),
        ("500 and nothing more", vec![send(b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n")]),
        ("500 with JSON", vec![send(answers::error_answer(500, "oops"))]),
        ("502 cut short", vec![send(b"HTTP/1.1 502 Oops\r\ncontent-length: 9\r\n\r\n{"), Step::Close]),
        ("503", vec![send(answers::error_answer(503, "busy"))]),
        ("504", vec![send(answers::error_answer(504, "late"))]),
        ("head, then reset", vec![send(STREAM_HEAD), Step::Reset]),
        ("head, then FIN", vec![send(STREAM_HEAD), Step::Close]),
        ("head and half an event", vec![send(STREAM_HEAD), send(half_event), Step::Reset]),
    ]
}

#[tokio::test]
async fn a_31_the_second_attempt_carries_the_whole_body() {
    for (name, failure) in first_failures() {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let tries = Arc::new(AtomicU64::new(0));
        for up in &ups {
            let (tries, failure) = (Arc::clone(&tries), failure.clone());
            up.on_request(move |request| match tries.fetch_add(1, Ordering::Relaxed) {
                0 => failure.clone(),
                _ => answers::polite(request),
            });
        }
        let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
        let body = chat(
            "m1",
            &format!(
                r#","stream":true,"stream_options":{{"include_usage":true}},"user":"{}""#,
                "u".repeat(200 << 10)
            ),
        );
        let answer = bench.ask(&post(CHAT, &body)).await;
        assert_eq!(answer.body, Stream::chat(&["hel", "lo"]).bytes(), "{name}");
        for up in &ups {
            assert!(up.only_request().body == body, "{name}: not the whole body");
        }
        let lines = bench.assert_idle(1).await;
        assert_line(&lines[0], &[("outcome", json!("ok")), ("attempts", json!(2)), ("status", json!(200))]);
        assert_nobody_blamed(&bench, &[&ups[0], &ups[1]]);
    }
}

/// A replica that breaks off while the body is still being sent.
#[tokio::test]
async fn a_31_a_body_half_sent_is_sent_again_from_its_start() {
    let (broken, good) = (Upstream::start("m1"), Upstream::start("m1"));
    broken.on_head(|_| OnHead::Play(vec![Step::Reset]));
    let bench = Bench::with_replicas(&[&broken, &good]).await;
    let body = chat("m1", &format!(r#","user":"{}""#, "u".repeat(4 << 20)));
    for _ in 0..2 {
        assert_eq!(bench.ask(&post(CHAT, &body)).await.status(), 200);
        assert!(good.received().pop().expect("a request").body == body);
    }
    assert!(broken.counts().heads.get() >= 1, "the broken replica was never chosen");
    assert_eq!(broken.counts().requests.get(), 0);
    bench.assert_idle(2).await;
}

#[tokio::test]
async fn a_32_the_retry_leaves_the_broken_replica_and_so_does_the_pin() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let config = Config::new(&[&ups[0], &ups[1]])
        .set("routes", "mode", "adaptive")
        .set("pools.health", "cooldown", "10m")
        .set("pools.health", "cooldown_max", "10m");
    let bench = Bench::live(&config, 2).await;
    let body = chat("m1", "");
    let request = post_with(CHAT, &[("x-session-id", "talk-1")], &body);
    for _ in 0..2 {
        assert_eq!(bench.ask(&request).await.status(), 200);
    }
    let owner = usize::from(ups[1].counts().requests.get() > 0);
    assert_eq!(ups[owner].counts().requests.get(), 2, "both requests of the session on one replica");
    let (broken, good) = (&ups[owner], &ups[1 - owner]);
    // It accepts and resets; its /health stays 200.
    broken.on_head(|_| OnHead::Play(vec![Step::Reset]));
    for i in 0..20 {
        assert_eq!(bench.ask(&request).await.status(), 200, "request {i}");
    }
    let lines = bench.assert_idle(22).await;
    let retried = lines.iter().filter(|l| l["attempts"] == json!(2)).count();
    assert!((1..=3).contains(&retried), "{retried} requests met the broken replica first");
    for line in &lines[2..] {
        assert_line(line, &[("outcome", json!("ok")), ("replica", json!(good.url()))]);
    }
    for line in &lines[lines.len() - 10..] {
        assert_line(line, &[("attempts", json!(1)), ("affinity", json!("session"))]);
    }
    assert_eq!(bench.replica(broken).health, Health::Ejected);
    assert_eq!(bench.replica(good).health, Health::Live);
}

#[tokio::test]
async fn a_33_a_deterministic_4xx_is_final_and_relayed_as_it_is() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    let bench = Bench::with_replicas(&both).await;
    let mut sent = 0;
    for status in [400, 401, 403, 404, 405, 409, 413, 415, 418, 422, 451] {
        // Both shapes of vLLM's errors, and one that is no JSON.
        let bodies = [
            r#"{"error":{"message":"context too long","type":"BadRequestError","param":null,"code":400}}"#,
            r#"{"object":"error","message":"context too long","type":"BadRequestError","param":null,"code":400}"#,
            "{\"detail\": \"no\" \n",
        ];
        for body in bodies {
            for up in both {
                up.answer_with(vec![send(json_answer(status, body))]);
            }
            for members in ["", r#","stream":true"#] {
                let answer = bench.ask(&post(CHAT, &chat("m1", members))).await;
                assert_eq!((answer.status(), answer.text().as_str()), (status, body));
                assert_eq!(answer.head.get("content-type"), Some("application/json"));
                sent += 1;
                assert_eq!(requests_at(&both), sent, "{status}: tried again");
            }
        }
    }
    for line in bench.assert_idle(usize::try_from(sent).expect("a small number")).await {
        assert_line(&line, &[("outcome", json!("client_error")), ("attempts", json!(1))]);
    }
    assert_nobody_blamed(&bench, &both);
}

/// The budget is the route's. Requests of one key that fail everywhere must not use up the others' second attempts.
#[tokio::test]
async fn a_key_whose_requests_fail_everywhere_leaves_second_attempts_to_the_others() {
    let (one, other) = (Upstream::start("m1"), Upstream::start("m1"));
    let config = Config::new(&[&one, &other]).key("ann").key("bob");
    let bench = Bench::live(&config.set("pools.health", "eject_after_5xx", 1_000_000), 2).await;
    let second = Arc::new(AtomicBool::new(true));
    for up in [&one, &other] {
        let second = Arc::clone(&second);
        up.on_request(move |request| match request.text().contains("storm") {
            false if second.fetch_xor(true, Ordering::SeqCst) => polite(request),
            _ => vec![send(error_answer(503, "busy"))],
        });
    }
    let asks = |key, user: &str| post_as(key, CHAT, &chat("m1", &format!(r#","user":"{user}""#)));
    assert_eq!(bench.ask(&asks("ann", "first")).await.status(), 200);
    for n in 0..30 {
        assert_eq!(bench.ask(&asks("bob", &format!("storm {n}"))).await.status(), 503);
    }
    // The first replica that is asked refuses it.
    assert_eq!(bench.ask(&asks("ann", "again")).await.status(), 200);
    let lines = bench.assert_idle(32).await;
    let of_ann = lines.iter().filter(|line| line["key"] == json!("ann"));
    assert_eq!(of_ann.filter(|line| line["attempts"] == json!(2)).count(), 1);
}
