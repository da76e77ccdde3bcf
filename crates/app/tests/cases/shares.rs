//! A-52 and G18: a weight is a target's share, whatever its number of replicas; a failed request stays in its target
//! as long as there is somebody to try.

use serde_json::json;
use sluicegate_testkit::answers::{answer, chat_answer, error_answer};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send};

use crate::checks::{assert_line, requests_at};

/// Pools `a` and `b` of these replicas, and the route `all` with targets in both.
fn config(a: &[&Upstream], b: &[&Upstream], weights: [u32; 2]) -> Config {
    let [x, y] = weights;
    let targets = format!(
        "targets = [{{ pool = \"pool\", upstream_model = \"big\", weight = {x} }}, {{ pool = \"b\", upstream_model = \
         \"small\", weight = {y} }}]"
    );
    Config::new(a).pool("b", b).whole_route("all", &targets)
}

async fn ask(bench: &Bench, n: usize) {
    let request = post(CHAT, &chat("all", ""));
    let mut client = bench.client().await;
    for _ in 0..n {
        assert_eq!(client.exchange(&request).await.status(), 200);
    }
}

#[tokio::test]
async fn a_52_g18_shares_belong_to_targets_and_not_to_their_replicas() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let [w, x, y, z] = [&ups[0], &ups[1], &ups[2], &ups[3]];
    let rows: [(&[&Upstream], &[&Upstream], [u32; 2]); 4] = [
        (&[w], &[x, y, z], [100, 300]),
        (&[w, x], &[y, z], [100, 300]),
        (&[w], &[x, y], [100, 100]),
        (&[w, x], &[y, z], [0, 7]),
    ];
    for (a, b, weights) in rows {
        let bench = Bench::live(&config(a, b, weights), a.len() + b.len()).await;
        let before: Vec<u64> = ups.iter().map(|up| up.counts().requests.get()).collect();
        ask(&bench, 1000).await;
        let sum = f64::from(weights[0] + weights[1]);
        let mut rest = before.iter();
        for (part, weight) in [a, b].into_iter().zip(weights) {
            let got: Vec<u64> =
                part.iter().zip(&mut rest).map(|(up, before)| up.counts().requests.get() - before).collect();
            let share = 1000.0 * f64::from(weight) / sum;
            let all = got.iter().sum::<u64>() as f64;
            assert!((all - share).abs() <= 10.0, "{weights:?}: {got:?} of {share}");
            let even = share / part.len() as f64;
            assert!(
                got.iter().all(|n| (*n as f64 - even).abs() <= 1.0 + even * 0.05),
                "{weights:?}: {got:?}"
            );
        }
        let lines = bench.assert_idle(1000).await;
        let small =
            json!({ "target": "b/small", "pool": "b", "upstream_model": "small", "reason": "weighted" });
        let line = lines.iter().find(|line| line["pool"] == "b").expect("the second target has a share");
        for (name, value) in small.as_object().expect("an object") {
            assert_line(line, &[(name, value.clone())]);
        }
    }
    let small = ups[3].received().last().expect("a request").text();
    assert!(small.contains(r#""model":"small""#), "each target is asked for its own model: {small}");
}

#[tokio::test]
async fn a_52_a_target_whose_weight_is_zero_lets_streams_end() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let gate = Gate::new();
    ups[0].answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let bench = Bench::live(&config(&[&ups[0]], &[&ups[1]], [1, 1]), 2).await;
    let mut waiting = bench.client().await;
    waiting.send(&post(CHAT, &chat("m1", ""))).await;
    ups[0].counts().requests.reached(1).await;
    let none = Bench::live(&config(&[&ups[0]], &[&ups[1]], [0, 1]), 2).await;
    ask(&none, 20).await;
    assert_eq!(requests_at(&[&ups[0]]), 1, "nothing new");
    gate.open();
    assert_eq!(waiting.answer().await.status(), 200, "what runs there ends");
    bench.assert_idle(1).await;
    none.assert_idle(20).await;
}

#[tokio::test]
async fn a_failed_request_stays_in_its_target_and_then_takes_the_next_with_its_model() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let [w, x, y, z] = [&ups[0], &ups[1], &ups[2], &ups[3]];
    // 503 is retried and says nothing of the request; both replicas of the first target give it.
    for up in [w, x] {
        up.answer_with(vec![send(error_answer(503, "busy"))]);
    }
    let config = config(&[w, x], &[y, z], [1, 1]).set("pools.health", "eject_after_5xx", 100);
    let bench = Bench::live(&config, 4).await;
    // As many retries as may be within a second.
    ask(&bench, 10).await;
    let lines = bench.assert_idle(10).await;
    let attempts = |line: &serde_json::Value| line["attempts"].as_u64().expect("a number");
    assert_eq!(lines.iter().filter(|line| attempts(line) == 1).count(), 5, "the second target's share");
    assert_eq!(
        lines.iter().filter(|line| attempts(line) == 3).count(),
        5,
        "twice in the first, then the second"
    );
    for line in &lines {
        assert_line(line, &[("target", json!("b/small")), ("pool", json!("b")), ("status", json!(200))]);
    }
    for (replicas, model) in [([w, x], "big"), ([y, z], "small")] {
        for request in replicas.iter().flat_map(|up| up.received()) {
            assert!(request.text().contains(&format!(r#""model":"{model}""#)), "{}", request.text());
        }
    }
}

#[tokio::test]
async fn a_dead_target_s_share_goes_to_the_others() {
    let (gone, up) = (Upstream::stopped("m1"), Upstream::start("m1"));
    let bench = Bench::live(&config(&[&gone], &[&up], [9, 1]), 1).await;
    ask(&bench, 20).await;
    for line in bench.assert_idle(20).await {
        assert_line(&line, &[("attempts", json!(1)), ("target", json!("b/small"))]);
    }
}

#[tokio::test]
async fn two_models_of_one_pool_are_asked_for_by_their_names() {
    let up = Upstream::start("m1");
    up.on_request(|request| {
        let name = if request.text().contains(r#""model":"lora-b""#) { "b" } else { "a" };
        vec![send(answer(
            200,
            &[("content-type", "application/json")],
            format!("{{\"who\":\"{name}\"}}").as_bytes(),
        ))]
    });
    let targets = "targets = [{ pool = \"pool\", upstream_model = \"lora-a\", weight = 1 }, { pool = \"pool\", \
                   upstream_model = \"lora-b\", weight = 3 }]";
    let bench = Bench::live(&Config::new(&[&up]).whole_route("all", targets), 1).await;
    let mut client = bench.client().await;
    let mut seen = [0, 0];
    for _ in 0..40 {
        let answer = client.exchange(&post(CHAT, &chat("all", ""))).await;
        seen[usize::from(answer.text().contains("\"b\""))] += 1;
    }
    assert_eq!(seen, [10, 30]);
    let lines = bench.assert_idle(40).await;
    let with = |target: &str| lines.iter().filter(|line| line["target"] == target).count();
    assert_eq!([with("pool/lora-a"), with("pool/lora-b")], [10, 30]);
}
