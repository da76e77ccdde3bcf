//! The fallback target: nothing as long as a target can serve, and each cause for which it is asked.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{STREAM_HEAD, chat_answer, chunk, error_answer, json_answer, text_event};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Answer, Bench, Config, Gate, Health, Step, Upstream, send, until};

use crate::checks::{assert_line, requests_at};

/// The route `all`: to `ups`, and to `other` as a fallback.
fn config(ups: &[&Upstream], other: &Upstream, more: &str) -> Config {
    let route = format!(
        "targets = [{{ pool = \"pool\", upstream_model = \"own\" }}]\nfallback = {{ pool = \"other\", upstream_model = \
         \"theirs\"{more} }}"
    );
    Config::new(ups).pool("other", &[other]).whole_route("all", &route)
}

fn request() -> Vec<u8> {
    post(CHAT, &chat("all", ""))
}

fn told(answer: &Answer) -> Option<&str> {
    answer.head.get("x-sluicegate-fallback")
}

#[track_caller]
fn assert_by_fallback(answer: &Answer, line: &Value) {
    assert_eq!((answer.status(), told(answer)), (200, Some("other/theirs")), "{}", answer.text());
    assert_line(
        line,
        &[
            ("target", json!("other/theirs")),
            ("upstream_model", json!("theirs")),
            ("pool", json!("other")),
            ("reason", json!("fallback")),
            ("outcome", json!("ok")),
        ],
    );
}

#[track_caller]
fn assert_by_target(answer: &Answer, line: &Value, status: u16) {
    assert_eq!((answer.status(), told(answer)), (status, None), "{}", answer.text());
    assert_line(line, &[("pool", json!("pool")), ("target", json!("pool/own")), ("status", json!(status))]);
}

#[tokio::test]
async fn it_gets_nothing_while_a_target_serves() {
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    let bench = Bench::live(&config(&[&up], &other, ""), 2).await;
    for n in 1..=20 {
        let answer = bench.ask(&request()).await;
        let line = bench.assert_idle(n).await.pop().expect("a line");
        assert_by_target(&answer, &line, 200);
    }
    assert_eq!((requests_at(&[&up]), requests_at(&[&other])), (20, 0));
}

#[tokio::test]
async fn it_is_asked_when_no_replica_is_healthy_and_no_last_resort_is_tried() {
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    let config = config(&[&up], &other, "").set("pools.health", "cooldown", "1h").set(
        "pools.health",
        "cooldown_max",
        "1h",
    );
    let bench = Bench::live(&config, 2).await;
    up.stop();
    bench.wait_health(&up, Health::Ejected).await;
    let answer = bench.ask(&request()).await;
    let line = bench.assert_idle(1).await.pop().expect("a line");
    assert_by_fallback(&answer, &line);
    assert_line(&line, &[("attempts", json!(1))]);
    let model = other.only_request().text();
    assert!(model.contains(r#""model":"theirs""#), "{model}");
}

#[tokio::test]
async fn it_is_asked_when_every_attempt_has_failed() {
    for status in [500, 503] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let other = Upstream::start("m1");
        for up in &ups {
            up.answer_with(vec![send(error_answer(status, "broken"))]);
        }
        let bench = Bench::live(&config(&[&ups[0], &ups[1]], &other, ""), 3).await;
        let answer = bench.ask(&request()).await;
        let line = bench.assert_idle(1).await.pop().expect("a line");
        assert_by_fallback(&answer, &line);
        assert_line(&line, &[("attempts", json!(3))]);
    }
    // Without an answer at all: whatever `on` says.
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    up.answer_with(vec![Step::Reset]);
    let bench = Bench::live(&config(&[&up], &other, ", on = []"), 2).await;
    let answer = bench.ask(&request()).await;
    let line = bench.assert_idle(1).await.pop().expect("a line");
    assert_by_fallback(&answer, &line);
}

#[tokio::test]
async fn an_answer_s_class_counts_only_where_the_route_says_so() {
    for (on, status, falls) in [
        ("", 500, true),
        ("", 400, false),
        ("", 429, false),
        (", on = [\"4xx\"]", 400, true),
        (", on = [\"4xx\"]", 429, true),
        (", on = [\"4xx\"]", 500, false),
        (", on = [\"4xx\", \"5xx\"]", 500, true),
        (", on = []", 500, false),
    ] {
        let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
        up.answer_with(vec![send(error_answer(status, "no"))]);
        let bench = Bench::live(&config(&[&up], &other, on), 2).await;
        let answer = bench.ask(&request()).await;
        let line = bench.assert_idle(1).await.pop().expect("a line");
        match falls {
            true => assert_by_fallback(&answer, &line),
            false => assert_by_target(&answer, &line, status),
        }
    }
}

#[tokio::test]
async fn it_is_asked_when_the_queue_is_full_or_the_wait_is_too_long() {
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    for queue in ["max_length = 0", "max_wait = \"1ms\""] {
        let more = format!(" }}\nqueue = {{ {queue}");
        let config = config(&[&up], &other, &more).set("pools", "slots", 1);
        let bench = Bench::live(&config, 2).await;
        let before = requests_at(&[&up]);
        let mut first = bench.client().await;
        first.send(&request()).await;
        until(|| requests_at(&[&up]) > before).await;
        let answer = bench.ask(&request()).await;
        let line = bench.usage_lines(1).await.remove(0);
        assert_by_fallback(&answer, &line);
        assert_eq!(line["queue_ms"].is_null(), queue.starts_with("max_length"), "{queue}");
        drop(first);
        bench.assert_idle(2).await;
    }
}

#[tokio::test]
async fn where_it_cannot_serve_either_the_client_is_told_what_the_targets_said() {
    let (up, other) = (Upstream::start("m1"), Upstream::stopped("m1"));
    up.answer_with(vec![send(error_answer(500, "the target's own words"))]);
    let bench = Bench::live(&config(&[&up], &other, ""), 1).await;
    let answer = bench.ask(&request()).await;
    assert!(answer.text().contains("the target's own words"), "{}", answer.text());
    let line = bench.assert_idle(1).await.pop().expect("a line");
    assert_by_target(&answer, &line, 500);
}

#[tokio::test]
async fn its_own_failure_is_shown_as_its_own() {
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    up.answer_with(vec![send(error_answer(500, "ours"))]);
    other.answer_with(vec![send(error_answer(502, "theirs"))]);
    let bench = Bench::live(&config(&[&up], &other, ""), 2).await;
    let answer = bench.ask(&request()).await;
    assert_eq!((answer.status(), told(&answer)), (502, Some("other/theirs")));
    assert!(answer.text().contains("theirs"), "{}", answer.text());
    let line = bench.assert_idle(1).await.pop().expect("a line");
    assert_line(&line, &[("reason", json!("fallback")), ("outcome", json!("upstream_error"))]);
}

#[tokio::test]
async fn a_stream_that_has_begun_falls_nowhere() {
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    up.answer_with(vec![send(STREAM_HEAD), send(chunk(&text_event("a"))), Step::Reset]);
    let bench = Bench::live(&config(&[&up], &other, ""), 2).await;
    let mut client = bench.client().await;
    client.send(&post(CHAT, &chat("all", r#","stream":true"#))).await;
    assert_eq!(client.head().await.status(), 200);
    client.rest().await;
    let line = bench.assert_idle(1).await.pop().expect("a line");
    assert_line(&line, &[("outcome", json!("upstream_aborted")), ("pool", json!("pool"))]);
    assert_eq!(requests_at(&[&other]), 0);
}

#[tokio::test]
async fn a_request_that_failed_two_replicas_goes_to_it_alone_and_then_nowhere() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let other = Upstream::start("m1");
    let all = [&ups[0], &ups[1], &ups[2]];
    for up in all {
        up.answer_with(vec![send(error_answer(500, "poison"))]);
    }
    let bench = Bench::live(&config(&all, &other, ""), 4).await;
    for n in 1..=2 {
        let answer = bench.ask(&request()).await;
        let line = bench.assert_idle(n).await.pop().expect("a line");
        assert_by_fallback(&answer, &line);
        assert_eq!((requests_at(&all), requests_at(&[&other])), (2, n as u64), "two replicas saw it, once");
    }
    other.answer_with(vec![send(error_answer(500, "poison"))]);
    assert_eq!(bench.ask(&request()).await.status(), 500);
    let refused = bench.ask(&request()).await;
    assert!(refused.text().contains("suspected"), "{}", refused.text());
    assert_eq!((requests_at(&all), requests_at(&[&other])), (2, 3), "nobody else sees it");
    bench.assert_idle(4).await;
}

#[tokio::test]
async fn what_follows_on_a_stored_response_falls_nowhere() {
    let (up, other) = (Upstream::start("m1"), Upstream::start("m1"));
    let ask = |members: &str| {
        let body = format!(r#"{{"model":"all","input":"hi"{members}}}"#);
        post("/v1/responses", body.as_bytes())
    };
    let response = r#"{"id":"resp_1","object":"response","status":"completed","model":"m1","output":[]}"#;
    up.answer_with(vec![send(json_answer(200, response))]);
    let bench = Bench::live(&config(&[&up], &other, ""), 2).await;
    assert_eq!(bench.ask(&ask("")).await.status(), 200);
    up.answer_with(vec![send(error_answer(500, "broken"))]);
    let answer = bench.ask(&ask(r#","previous_response_id":"resp_1""#)).await;
    assert_eq!((answer.status(), told(&answer)), (500, None));
    assert_eq!(requests_at(&[&other]), 0);
    bench.assert_idle(2).await;
}
