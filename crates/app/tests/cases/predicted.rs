//! Mode `predictive`, which a route has by itself, and the policies that go by the same predictions, through the whole gateway: prompts are hashed,
//! first bytes and usage come to the pool.

use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, post};
use sluicegate_testkit::{Bench, Config, Upstream, send};

/// Some 40 KB of turns, the next one with all of them before it.
fn talk(model: &str, name: &str, turns: usize) -> Vec<u8> {
    let turn = |n: usize| {
        let text = format!("{name}, turn {n}: ").repeat(500);
        format!(r#"{{"role":"user","content":"{text}"}},{{"role":"assistant","content":"{n}"}}"#)
    };
    let turns: Vec<String> = (0..turns).map(turn).collect();
    format!(r#"{{"model":"{model}","messages":[{}]}}"#, turns.join(",")).into_bytes()
}

#[tokio::test]
async fn a_talk_goes_where_its_prompt_is_known_and_new_ones_elsewhere() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    both.iter().for_each(|up| up.answer_with(vec![send(chat_answer("a", 10_000, 5))]));
    let bench = Bench::live(&Config::new(&both), 2).await;
    let served = || both.map(|up| up.counts().requests.get());
    let mut homes = Vec::new();
    for name in ["a", "b"] {
        let before = served();
        assert_eq!(bench.ask(&post(CHAT, &talk("m1", name, 3))).await.status(), 200);
        homes.push(usize::from(served()[1] > before[1]));
    }
    for turns in 4..8 {
        for (name, home) in ["a", "b"].iter().zip(&homes) {
            let before = served();
            assert_eq!(bench.ask(&post(CHAT, &talk("m1", name, turns))).await.status(), 200);
            let after = served();
            assert_eq!(after[*home], before[*home] + 1, "turn {turns} of {name}");
        }
    }
    let lines = bench.assert_idle(10).await;
    assert!(lines.iter().all(|line| line["reason"] == "predicted"), "{lines:?}");
}

#[tokio::test]
async fn a_policy_of_predictions_keeps_a_talk_where_its_prompt_is_known() {
    for kind in ["prefix_cache", "predicted_ttft"] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let both = [&ups[0], &ups[1]];
        both.iter().for_each(|up| up.answer_with(vec![send(chat_answer("a", 10_000, 5))]));
        let route = format!(
            "targets = [{{ pool = \"pool\", upstream_model = \"m1\" }}]\npolicies = [{{ kind = \"{kind}\" }}]\n"
        );
        let bench = Bench::live(&Config::new(&both).whole_route("talks", &route), 2).await;
        for turns in 3..8 {
            assert_eq!(bench.ask(&post(CHAT, &talk("talks", "a", turns))).await.status(), 200);
        }
        let lines = bench.assert_idle(5).await;
        assert!(lines.iter().all(|line| line["replica"] == lines[0]["replica"]), "{kind}: {lines:?}");
        assert!(lines[1..].iter().all(|line| line["reason"] == "policy"), "{kind}: {lines:?}");
    }
}
