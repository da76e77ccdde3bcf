//! A-38 at its edges: what counts as an engine's silence, and what does not.

use std::time::{Duration, Instant};

use serde_json::json;
use sluicegate_testkit::answers::{error_answer, json_answer};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, Health, Load, OnHead, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error};

/// Three at once, as many as make a row; each is answered 504.
async fn three_time_out(bench: &Bench, request: &[u8]) {
    let answers = tokio::join!(bench.ask(request), bench.ask(request), bench.ask(request));
    for answer in [answers.0, answers.1, answers.2] {
        assert_own_error(&answer, 504);
    }
}

#[tokio::test]
async fn a_38_a_limit_that_runs_out_during_the_upload_is_no_silence() {
    let up = Upstream::start("m1");
    // More than the sockets between gateway and replica can hold.
    let huge = post(CHAT, &chat("m1", &format!(r#","user":"{}""#, "u".repeat(12 << 20))));
    // The limit must leave time to reach the replica, on a busy box as well: several times what that takes now.
    let begun = Instant::now();
    let unlimited = Bench::live(&Config::new(&[&up]), 1).await;
    assert_eq!(unlimited.ask(&huge).await.status(), 200);
    let total = (begun.elapsed() * 10).max(Duration::from_secs(4));
    let total = format!("{}ms", total.as_millis());
    let bench = Bench::live(&Config::new(&[&up]).set("routes.timeouts", "total", &*total), 1).await;
    let heads = up.counts().heads.get();
    up.on_head(|_| OnHead::Play(vec![Step::Deaf(Gate::new())]));
    three_time_out(&bench, &huge).await;
    assert_eq!(up.counts().heads.get() - heads, 3);
    assert_nobody_blamed(&bench, &[&up]);
    // The same replica, once it takes requests whole and says nothing.
    up.on_head(|_| OnHead::ReadBody);
    up.answer_with(vec![Step::Hang]);
    three_time_out(&bench, &post(CHAT, &chat("m1", ""))).await;
    assert_eq!(bench.replica(&up).ejections, 1);
    for line in bench.assert_idle(6).await {
        assert_line(&line, &[("outcome", json!("timeout_total")), ("attempts", json!(1))]);
    }
}

/// The first replica uses up most of the time with a failure that does not end; the second one gets what is left.
#[tokio::test]
async fn a_38_a_replica_that_got_the_request_late_has_not_been_silent() {
    let (failing, late) = (Upstream::start("m1"), Upstream::start("m1"));
    late.set_load(Load { running: 50, ..Load::default() });
    let config = Config::new(&[&failing, &late]).set("routes.timeouts", "total", "2600ms").set(
        "pools.health",
        "eject_after_5xx",
        1_000_000,
    );
    let bench = Bench::live(&config, 2).await;
    until(|| bench.replica(&late).scraped.is_some_and(|load| load.running == 50)).await;
    failing.answer_with(vec![send(b"HTTP/1.1 503 Busy\r\ncontent-length: 9\r\n\r\n{"), Step::Hang]);
    late.answer_with(vec![Step::Hang]);
    let request = post(CHAT, &chat("m1", ""));
    let mut sent = 0;
    while late.counts().requests.get() < 3 {
        let answers = tokio::join!(bench.ask(&request), bench.ask(&request), bench.ask(&request));
        for answer in [answers.0, answers.1, answers.2] {
            assert!([503, 504].contains(&answer.status()), "{}", answer.text());
        }
        sent += 3;
    }
    assert_nobody_blamed(&bench, &[&failing, &late]);
    bench.assert_idle(sent).await;
}

/// Answers that the front process of an engine gives without it.
fn answers_of_the_front() -> Vec<(&'static str, Vec<u8>, u16, Vec<Step>)> {
    let tokens = json_answer(200, r#"{"count":1,"max_model_len":2048,"tokens":[1]}"#);
    vec![
        (
            "400",
            post(CHAT, &chat("m1", r#","user":"front""#)),
            400,
            vec![send(error_answer(400, "too long"))],
        ),
        ("tokenizer", post("/tokenize", br#"{"model":"m1","prompt":"front"}"#), 200, vec![send(tokens)]),
    ]
}

#[tokio::test]
async fn a_38_a_frozen_engine_whose_front_goes_on_answering_is_found_out() {
    for (name, request, status, steps) in answers_of_the_front() {
        let up = Upstream::start("m1");
        let bench = Bench::live(&Config::new(&[&up]).set("routes.timeouts", "total", "600ms"), 1).await;
        up.on_request(move |r| if r.text().contains("front") { steps.clone() } else { vec![Step::Hang] });
        for round in 0..3 {
            assert_eq!(bench.replica(&up).health, Health::Live, "{name}: {round}");
            assert_eq!(bench.ask(&request).await.status(), status, "{name}");
            assert_own_error(&bench.ask(&post(CHAT, &chat("m1", ""))).await, 504);
        }
        assert_eq!(bench.replica(&up).ejections, 1, "{name}");
        bench.assert_idle(6).await;
    }
}
