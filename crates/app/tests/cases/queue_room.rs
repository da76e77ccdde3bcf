//! A full queue: who gives way to whom, and what that costs a key.

use serde_json::json;
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::{Bench, Config, Gate, RawClient, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_own_error};
use crate::key_limits::ask_as;
use crate::slots_queue::sent;

/// One slot, which `flood` has, and a queue of four that it fills.
async fn flooded(keys: impl FnOnce(Config) -> Config) -> (Upstream, Gate, Bench, Vec<RawClient>) {
    let (up, gate) = (Upstream::start("m1"), Gate::new());
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let config = Config::new(&[&up]).set("pools", "slots", 1).set("routes.queue", "max_length", 4);
    let bench = Bench::live(&keys(config), 1).await;
    let mut clients = sent(&bench, [ask_as("flood", "u", "")]).await;
    up.counts().requests.reached(1).await;
    for n in 1..=4 {
        clients.extend(sent(&bench, [ask_as("flood", "u", "")]).await);
        until(|| bench.waiting() == n).await;
    }
    (up, gate, bench, clients)
}

#[tokio::test]
async fn a_key_that_fills_the_queue_gives_way_to_another_and_to_a_higher_class() {
    for priority in [0, 5] {
        let keys = |config: Config| config.key("flood").key("rare").key_set("priority", priority);
        let (_up, gate, bench, mut flood) = flooded(keys).await;
        let mut rare = sent(&bench, [ask_as("rare", "u", "")]).await.remove(0);
        // The newest of those that wait, and at once.
        let answer = flood.pop().expect("the newest").answer().await;
        assert_eq!(assert_own_error(&answer, 429)["code"], json!("queue_full"));
        assert!(answer.head.has("retry-after"));
        assert_eq!((bench.waiting(), bench.key_usage("flood").concurrent), (4, 4));
        gate.open();
        for client in flood.iter_mut().chain([&mut rare]) {
            assert_eq!(client.answer().await.status(), 200);
        }
        let lines = bench.assert_idle(6).await;
        let turned_away = [
            ("outcome", json!("rejected_queue")),
            ("error_type", json!("queue_full")),
            ("key", json!("flood")),
            ("attempts", json!(0)),
        ];
        let refused: Vec<_> = lines.iter().filter(|line| line["status"] == 429).collect();
        assert_eq!(refused.len(), 1, "{lines:#?}");
        assert_line(refused[0], &turned_away);
        assert!(refused[0]["queue_ms"].is_number(), "it has waited: {}", refused[0]);
    }
}

/// 'A refusal by one uses up none of the others.'
#[tokio::test]
async fn a_request_that_is_turned_away_has_used_up_none_of_its_keys_limits() {
    let keys = |config: Config| config.key("flood").key_set("requests_per_minute", 7).key("rare");
    let (_up, gate, bench, mut flood) = flooded(keys).await;
    for _ in 0..5 {
        let answer = bench.ask(&ask_as("flood", "u", "")).await;
        assert_eq!(assert_own_error(&answer, 429)["code"], json!("queue_full"));
        assert_eq!(answer.head.get("x-ratelimit-remaining-requests"), Some("2"));
    }
    let mut rare = sent(&bench, [ask_as("rare", "u", "")]).await.remove(0);
    let answer = flood.pop().expect("the newest").answer().await;
    assert_eq!(answer.head.get("x-ratelimit-remaining-requests"), Some("3"), "nor has one that gave way");
    assert_eq!(bench.key_usage("flood").requests_minute, 4);
    gate.open();
    for client in flood.iter_mut().chain([&mut rare]) {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(5 + 6).await;
    // Without a replica nothing is used up either.
    let config = Config::new(&[&Upstream::stopped("m1")]).key("ann").key_set("requests_per_minute", 2);
    let bench = Bench::start(&config.text());
    for _ in 0..3 {
        let answer = bench.ask(&ask_as("ann", "u", "")).await;
        assert_eq!(assert_own_error(&answer, 503)["code"], json!("no_healthy_instances"));
        assert_eq!(answer.head.get("x-ratelimit-remaining-requests"), Some("2"));
    }
    assert_eq!(bench.key_usage("ann").requests_minute, 0);
    bench.assert_idle(3).await;
}
