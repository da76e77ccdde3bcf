//! Late binding through the whole gateway: requests wait for a replica with little enough before it, and go on by a first
//! byte, by time alone, by a full queue and by the end of their wait.

use std::sync::{Arc, Mutex};

use serde_json::json;
use sluicegate_testkit::answers::polite;
use sluicegate_testkit::requests::{CHAT, post};
use sluicegate_testkit::{Bench, Config, Gate, RawClient, Step, Upstream, until};

use crate::checks::assert_line;
use crate::slots_queue::sent;

/// Half a minute of prefill, before the gateway has learned better.
const HUGE: usize = 400_000;

/// None begins like another.
fn prompt(bytes: usize, members: &str) -> Vec<u8> {
    let text = format!("{bytes:7} ").repeat(bytes / 8);
    let body = format!(r#"{{"model":"m1","messages":[{{"role":"user","content":"{text}"}}]{members}}}"#);
    post(CHAT, body.as_bytes())
}

fn config(up: &Upstream) -> Config {
    Config::new(&[up]).set("routes", "mode", "predictive").set("routes", "hold", "100ms")
}

/// Answers nobody before the gate is open; which bodies came, by size.
fn gated(up: &Upstream) -> (Gate, Arc<Mutex<Vec<usize>>>) {
    let (gate, sizes) = (Gate::new(), Arc::new(Mutex::new(Vec::new())));
    let (door, seen) = (gate.clone(), Arc::clone(&sizes));
    up.on_request(move |request| {
        seen.lock().expect("no panic").push(request.body.len() / 1000);
        let mut steps = vec![Step::Wait(door.clone())];
        steps.extend(polite(request));
        steps
    });
    (gate, sizes)
}

async fn one(bench: &Bench, bytes: usize) -> RawClient {
    sent(bench, [prompt(bytes, r#","stream":true"#)]).await.remove(0)
}

async fn all_well(clients: &mut [RawClient]) {
    for client in clients {
        assert_eq!(client.answer().await.status(), 200);
    }
}

#[tokio::test]
async fn requests_wait_for_a_first_byte_and_the_shortest_goes_first() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&config(&up), 1).await;
    let (gate, sizes) = gated(&up);
    let mut clients = vec![one(&bench, HUGE).await];
    up.counts().requests.reached(1).await;
    for (n, bytes) in (1..).zip([40_000, 8000, 20_000]) {
        clients.push(one(&bench, bytes).await);
        until(|| bench.waiting() == n).await;
    }
    for series in ["waiting", "held"] {
        let series = format!(r#"sluicegate_queue_{series}{{pool="pool",route="m1"}}"#);
        assert_eq!(bench.metric(&series).await, 3.0, "{series}");
    }
    gate.open();
    all_well(&mut clients).await;
    assert_eq!(*sizes.lock().expect("no panic"), [400, 8, 20, 40]);
    let lines = bench.assert_idle(4).await;
    let waited = lines.iter().filter(|line| line["queue_ms"].as_f64().is_some_and(|ms| ms > 0.0)).count();
    assert_eq!(waited, 3, "{lines:#?}");
    assert!(lines.iter().all(|line| line["reason"] == "predicted"), "{lines:#?}");
}

#[tokio::test]
async fn what_runs_down_with_time_alone_lets_a_request_go_on() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&config(&up), 1).await;
    let (gate, _) = gated(&up);
    // Two seconds of prefill, of which nothing but time says that they are over.
    let mut clients = sent(&bench, [prompt(60_000, "")]).await;
    up.counts().requests.reached(1).await;
    clients.push(one(&bench, 8000).await);
    up.counts().requests.reached(2).await;
    gate.open();
    all_well(&mut clients).await;
    let lines = bench.assert_idle(2).await;
    assert!(lines.iter().any(|line| line["queue_ms"].as_f64().is_some_and(|ms| ms > 0.0)), "{lines:#?}");
}

#[tokio::test]
async fn a_client_that_leaves_while_its_request_is_held_back_leaves_nothing_behind() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&config(&up), 1).await;
    let (gate, sizes) = gated(&up);
    let mut stay = vec![one(&bench, HUGE).await];
    up.counts().requests.reached(1).await;
    let leaver = one(&bench, 8000).await;
    until(|| bench.waiting() == 1).await;
    stay.push(one(&bench, 40_000).await);
    until(|| bench.waiting() == 2).await;
    leaver.reset();
    until(|| bench.waiting() == 1).await;
    gate.open();
    all_well(&mut stay).await;
    assert_eq!(*sizes.lock().expect("no panic"), [400, 40]);
    let lines = bench.assert_idle(3).await;
    let left = lines.iter().find(|line| line["replica"].is_null()).expect("one was never sent");
    assert_line(left, &[("outcome", json!("client_gone_queued")), ("attempts", json!(0))]);
}

#[tokio::test]
async fn neither_a_full_queue_nor_the_end_of_a_wait_turns_away_who_is_only_held_back() {
    let up = Upstream::start("m1");
    let config = config(&up).set("routes.queue", "max_length", 1).set("routes.queue", "max_wait", "300ms");
    let bench = Bench::live(&config, 1).await;
    let (gate, _) = gated(&up);
    let mut clients = Vec::new();
    for (sent, bytes) in (1..).zip([HUGE, 40_000, 8000]) {
        clients.push(one(&bench, bytes).await);
        // The second waits; the third has somebody sent on, or the second's wait is over by then.
        up.counts().requests.reached(if sent == 1 { 1 } else { sent - 1 }).await;
    }
    up.counts().requests.reached(3).await;
    let series = r#"sluicegate_queue_sent_on_total{pool="pool"}"#;
    assert_eq!(bench.metric(series).await, 2.0);
    gate.open();
    all_well(&mut clients).await;
    bench.assert_idle(3).await;
}
