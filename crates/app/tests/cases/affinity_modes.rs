//! The affinity cases through the whole gateway, in every way of choosing that a configuration can ask for.

use std::collections::VecDeque;

use serde_json::{Value, json};
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, post_with};
use sluicegate_testkit::{Bench, Config, Gate, Health, OnHead, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};

/// What the configuration says: the pool's affinity, and below the route's model what makes the mode.
const WAYS: [(&str, &str, &str); 7] = [
    ("adaptive", "pins", "mode = \"adaptive\""),
    ("consistent", "consistent", ""),
    ("weighted", "pins", "weight = 1"),
    ("weighted, consistent", "consistent", "weight = 1"),
    ("the default", "pins", ""),
    ("predictive", "off", "mode = \"predictive\""),
    ("policy", "off", "policies = [{ kind = \"session_affinity\" }, { kind = \"least_inflight\" }]"),
];

/// The route `all` before these replicas.
fn config(way: (&str, &str, &str), replicas: &[&Upstream]) -> Config {
    let (_, affinity, more) = way;
    let (weight, more) =
        if more.starts_with("weight") { (format!(", {more}"), "") } else { (String::new(), more) };
    let route = format!(
        "{more}\nsession_keys = [\"header:x-session-id\", \"body:conversation_id\"]\ntargets = [{{ pool = \"pool\", \
         upstream_model = \"m1\"{weight} }}]\n"
    );
    Config::new(replicas).set("pools.affinity", "mode", affinity).whole_route("all", &route)
}

/// A turn of a talk whose prompt begins with the same 4 KiB as all others'.
fn turn(talk: usize, turns: usize) -> Vec<u8> {
    let system = "You are a careful agent of this project. ".repeat(100);
    let own = format!("talk {talk}, all of it. ").repeat(400);
    let mut messages =
        format!(r#"{{"role":"system","content":"{system}"}},{{"role":"user","content":"{own}"}}"#);
    for n in 0..turns {
        messages +=
            &format!(r#",{{"role":"assistant","content":"{n}"}},{{"role":"user","content":"go on"}}"#);
    }
    let id = format!("talk-{talk}");
    let body = format!(r#"{{"model":"all","messages":[{messages}]}}"#);
    post_with(CHAT, &[("x-session-id", id.as_str())], body.as_bytes())
}

#[tokio::test]
async fn a_32_a_talk_leaves_its_broken_replica_in_every_mode() {
    for way in WAYS {
        let name = way.0;
        let ups = ["m1"; 2].map(Upstream::start);
        let config = config(way, &[&ups[0], &ups[1]]).set("pools.health", "cooldown", "10m").set(
            "pools.health",
            "cooldown_max",
            "10m",
        );
        let bench = Bench::live(&config, 2).await;
        for _ in 0..2 {
            assert_eq!(bench.ask(&turn(1, 1)).await.status(), 200, "{name}");
        }
        let owner = usize::from(ups[1].counts().requests.get() > 0);
        assert_eq!(ups[owner].counts().requests.get(), 2, "{name}: both on one replica");
        let (broken, good) = (&ups[owner], &ups[1 - owner]);
        // It accepts and resets; its /health stays 200.
        broken.on_head(|_| OnHead::Play(vec![Step::Reset]));
        for n in 0..20 {
            assert_eq!(bench.ask(&turn(1, 1)).await.status(), 200, "{name}, request {n}");
        }
        let lines = bench.assert_idle(22).await;
        let retried = lines.iter().filter(|line| line["attempts"] == json!(2)).count();
        assert!((1..=3).contains(&retried), "{name}: {retried} met the broken replica first");
        for line in &lines[2..] {
            assert_line(line, &[("outcome", json!("ok")), ("replica", json!(good.url()))]);
        }
        assert!(lines[12..].iter().all(|line| line["attempts"] == json!(1)), "{name}");
        assert_eq!(bench.replica(good).health, Health::Live, "{name}");
    }
}

/// 12 requests run at any time over 4 replicas: the oldest ends when a new one has arrived.
#[tokio::test]
async fn a_49_a_shared_system_prompt_does_not_end_up_on_one_replica_in_any_mode() {
    for way in WAYS {
        let ups = ["m1"; 4].map(Upstream::start);
        let all = [&ups[0], &ups[1], &ups[2], &ups[3]];
        let bench = Bench::live(&config(way, &all), 4).await;
        let mut running = VecDeque::new();
        for n in 0..400_usize {
            let gate = Gate::new();
            for up in all {
                up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
            }
            let before = requests_at(&all);
            let mut client = bench.client().await;
            client.send(&turn(n % 80, n / 80)).await;
            until(|| requests_at(&all) > before).await;
            running.push_back((client, gate));
            if running.len() > 12 {
                let (mut client, gate) = running.pop_front().expect("a running request");
                gate.open();
                assert_eq!(client.answer().await.status(), 200, "{}", way.0);
            }
        }
        for (mut client, gate) in running {
            gate.open();
            assert_eq!(client.answer().await.status(), 200, "{}", way.0);
        }
        let shares = all.map(|up| up.counts().requests.get());
        assert!(shares.iter().all(|n| *n <= 160), "{}: {shares:?} of 400", way.0);
        bench.assert_idle(400).await;
        assert_nobody_blamed(&bench, &all);
    }
}

#[tokio::test]
async fn a_50_an_empty_session_id_is_no_session_in_any_mode() {
    let empty: [(&[(&str, &str)], &str); 6] = [
        (&[], ""),
        (&[("x-session-id", "")], ""),
        (&[("x-session-id", "  \t ")], ""),
        (&[], r#","conversation_id":"""#),
        (&[], r#","conversation_id":null"#),
        (&[], r#","conversation_id":0"#),
    ];
    for way in WAYS {
        let ups = ["m1"; 3].map(Upstream::start);
        let all = [&ups[0], &ups[1], &ups[2]];
        let bench = Bench::live(&config(way, &all), 3).await;
        for n in 0..300 {
            let (fields, members) = empty[n % empty.len()];
            let body = format!(r#"{{"model":"all","messages":[]{members}}}"#);
            assert_eq!(bench.ask(&post_with(CHAT, fields, body.as_bytes())).await.status(), 200);
        }
        let shares = all.map(|up| up.counts().requests.get());
        // By scores alone equal ones are a matter of chance.
        let even = if way.0 == "policy" { 60..=140 } else { 80..=120 };
        assert!(shares.iter().all(|n| even.contains(n)), "{}: {shares:?}", way.0);
        for line in bench.assert_idle(300).await {
            assert_line(&line, &[("affinity", json!(null)), ("spilled", json!(false))]);
        }
        assert_eq!((bench.pools()[0].session_pins, bench.pools()[0].prefix_pins), (0, 0), "{}", way.0);
    }
}

/// Where the replicas' number or a few busy sessions could pull a target's share: 100 to 300 all the same.
#[tokio::test]
async fn a_52_a_target_has_its_share_whatever_sessions_ask_and_whichever_affinity_rules_inside_it() {
    let ups = ["m1"; 4].map(Upstream::start);
    let [w, x, y, z] = [&ups[0], &ups[1], &ups[2], &ups[3]];
    let splits: [(&[&Upstream], &[&Upstream]); 2] = [(&[w], &[x, y, z]), (&[w, x], &[y, z])];
    for affinity in ["pins", "consistent", "off"] {
        for (a, b) in splits {
            let targets = "session_keys = [\"header:x-session-id\"]\ntargets = [{ pool = \"pool\", upstream_model = \
                           \"big\", weight = 100 }, { pool = \"b\", upstream_model = \"small\", weight = 300 }]";
            let config = Config::new(a).pool("b", b).set("pools.affinity", "mode", affinity);
            let bench = Bench::live(&config.whole_route("all", targets), 4).await;
            for n in 0..400_usize {
                // Two talks of five ask for most.
                let talk = if n.is_multiple_of(10) { 2 + n % 3 } else { n % 2 };
                assert_eq!(bench.ask(&turn(talk, 1)).await.status(), 200);
            }
            let lines = bench.assert_idle(400).await;
            let at = |pool: &str| lines.iter().filter(|line: &&Value| line["pool"] == json!(pool)).count();
            let due = |n: usize, share: usize| n.abs_diff(share) <= 4;
            assert!(due(at("pool"), 100) && due(at("b"), 300), "{affinity}: {} of 400", at("pool"));
        }
    }
}
