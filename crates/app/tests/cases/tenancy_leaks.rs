//! G13 with keys, limits and slots: whatever way a request ends, its key, its slot and its place in the queue are free,
//! and the key has paid what the usage lines say.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send, until};

use crate::key_limits::ask_as;
use crate::leaks::{Traffic, script};
use crate::slots_queue::sent;

/// Requests of one run: with those of `leaks` ten thousand.
const REQUESTS: u64 = 2000;
/// Requests under way at once: more than there are slots and places in the queue.
const AT_ONCE: usize = 24;

/// Keys of several kinds; `nobody` is none.
const KEYS: [&str; 5] = ["free", "narrow", "paid", "urgent", "nobody"];

fn config(replicas: &[&Upstream]) -> Config {
    Config::new(replicas)
        .set("pools", "slots", 2)
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.timeouts", "stream_silence", "300ms")
        .set("routes.queue", "max_length", 6)
        .set("routes.queue", "max_wait", "40ms")
        .set("routes.price", "prompt", 3.0)
        .set("routes.price", "cached", 0.5)
        .set("routes.price", "completion", 15.0)
        .key("free")
        .key("narrow")
        .key_set("max_concurrent", 2)
        .key("paid")
        .key_set("tokens_per_minute", 60_000)
        .key_set("cost_per_day", 1000.0)
        .key("urgent")
        .key_set("priority", 5)
        .key_set("requests_per_minute", 60)
}

/// Sums of the usage lines of a key: tokens, and money in millionths.
fn paid(lines: &[Value], key: &str) -> (u64, u64) {
    let of_key = lines.iter().filter(|l| l["key"] == json!(key));
    of_key.fold((0, 0), |(tokens, cost), line| {
        let count = |name: &str| line[name].as_u64().unwrap_or(0);
        let micros = (line["cost"].as_f64().unwrap_or(0.0) * 1e6).round() as u64;
        (tokens + count("prompt_tokens") + count("completion_tokens"), cost + micros)
    })
}

async fn run(seed: u64) -> BTreeSet<String> {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let all = [&ups[0], &ups[1], &ups[2]];
    let bench = Arc::new(Bench::live(&config(&all), 3).await);
    for up in all {
        up.on_request(script);
    }
    let mut traffic = Traffic::new(&bench, seed, AT_ONCE);
    for _ in 0..REQUESTS {
        let dice = &mut traffic.dice;
        let (kind, detail, key) = (dice.roll(12), dice.roll(1 << 20), dice.roll(KEYS.len() as u64));
        // Both of two pipelined requests are answered only where neither is refused with a close.
        let kind = if kind == 7 { 8 } else { kind };
        traffic.start(KEYS[usize::try_from(key).unwrap_or(0)], kind, detail).await;
    }
    let expected = traffic.end().await;
    until(|| bench.open_connections() == 0).await;
    let lines = bench.assert_idle(expected).await;
    for key in &KEYS[..4] {
        let usage = bench.key_usage(key);
        let (tokens, cost) = paid(&lines, key);
        assert_eq!(
            (usage.concurrent, usage.month.tokens, usage.month.cost.0),
            (0, tokens, cost),
            "seed {seed}: {key}"
        );
    }
    // Every slot is there, and no more than that.
    let gate = Gate::new();
    let before: u64 = all.iter().map(|up| up.counts().requests.get()).sum();
    for up in all {
        up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    }
    let mut clients = sent(&bench, (0..6).map(|_| ask_as("free", "u", ""))).await;
    until(|| all.iter().map(|up| up.counts().requests.get()).sum::<u64>() == before + 6).await;
    assert_eq!(bench.ask(&ask_as("free", "u", "")).await.status(), 503, "a seventh slot");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(expected + 7).await;
    lines.iter().filter_map(|l| l["outcome"].as_str().map(str::to_owned)).collect()
}

#[tokio::test]
async fn g13_no_end_leaves_a_key_a_slot_or_a_place_in_the_queue_taken() {
    let mut outcomes = BTreeSet::new();
    for seed in [3, 4, 5] {
        outcomes.extend(run(seed).await);
    }
    for outcome in [
        "ok",
        "client_error",
        "rejected_auth",
        "rejected_limit",
        "rejected_queue",
        "upstream_error",
        "upstream_aborted",
        "client_gone",
        "client_gone_queued",
        "timeout_silence",
    ] {
        assert!(outcomes.contains(outcome), "no request ended as {outcome}: {outcomes:?}");
    }
}
