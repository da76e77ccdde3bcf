//! A-47 to A-50: who gets the next request.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::json;
use sluicegate_testkit::answers::{answer, chat_answer};
use sluicegate_testkit::requests::{CHAT, chat, post, post_with};
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send, until};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};

#[tokio::test]
async fn a_47_requests_between_two_scrapes_are_spread_by_reservation() {
    for members in ["", r#","stream":true"#] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let both = [&ups[0], &ups[1]];
        let bench = Bench::live(&Config::new(&both).set("pools.health", "scrape_interval", "3s"), 2).await;
        let mut sent = 0;
        for burst in [2, 10, 50] {
            let gate = Gate::new();
            for up in both {
                up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
            }
            let before = both.map(|u| u.counts().requests.get());
            let barrier = Arc::new(Barrier::new(burst));
            let mut clients = JoinSet::new();
            for _ in 0..burst {
                let (mut client, barrier) = (bench.client().await, Arc::clone(&barrier));
                let request = post(CHAT, &chat("m1", members));
                clients.spawn(async move {
                    barrier.wait().await;
                    client.exchange(&request).await.status()
                });
            }
            until(|| requests_at(&both) == before.iter().sum::<u64>() + burst as u64).await;
            let shares = [0, 1].map(|i| both[i].counts().requests.get() - before[i]);
            assert!(shares[0].abs_diff(shares[1]) <= 2, "{burst} requests split {shares:?}");
            gate.open();
            assert!(clients.join_all().await.iter().all(|status| *status == 200));
            sent += burst;
            bench.assert_idle(sent).await;
        }
    }
}

/// One series per data-parallel engine, in any order, beside series whose names only look alike.
fn page(running: &[u32], waiting: &[u32]) -> Vec<Step> {
    let series = |name: &str, values: &[u32]| {
        let lines = values
            .iter()
            .enumerate()
            .map(|(i, v)| format!("vllm:{name}{{engine=\"{i}\",model_name=\"m1\"}} {v}.0\n"));
        lines.collect::<String>()
    };
    let text = format!(
        "# TYPE vllm:num_requests_running gauge\n{}# TYPE vllm:num_requests_waiting gauge\n{}{}{}",
        series("num_requests_running", running),
        series("num_requests_waiting", waiting),
        series("num_requests_waiting_by_reason", &[70, 70]),
        series("num_requests_running_max", &[0, 0]),
    );
    vec![send(answer(200, &[("content-type", "text/plain")], text.as_bytes()))]
}

#[tokio::test]
async fn a_48_the_series_of_all_engines_count() {
    let (loaded, idle) = (Upstream::start("m1"), Upstream::start("m1"));
    let bench = Bench::with_replicas(&[&loaded, &idle]).await;
    let rows: [(&[u32], &[u32], &[u32]); 4] = [
        (&[9, 0], &[4, 0], &[3]),
        (&[0, 9], &[0, 0], &[3]),
        (&[2, 2, 2, 2], &[0, 0, 0, 0], &[0, 7]),
        (&[9, 0], &[0, 4], &[0, 0]),
    ];
    let mut sent = 0;
    for (running, waiting, other) in rows {
        loaded.set_metrics(page(running, waiting));
        idle.set_metrics(page(other, &[0]));
        let sums = (running.iter().sum::<u32>(), waiting.iter().sum::<u32>());
        until(|| {
            let shown =
                [&loaded, &idle].map(|u| bench.replica(u).scraped.map_or((0, 0), |l| (l.running, l.waiting)));
            shown == [sums, (other.iter().sum(), 0)]
        })
        .await;
        for _ in 0..3 {
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
            sent += 1;
            bench.assert_idle(sent).await;
        }
    }
    assert_eq!((requests_at(&[&loaded]), requests_at(&[&idle])), (0, 12));
}

/// The largest share that one replica may have of any stretch of the traffic.
const LARGEST_SHARE: f64 = 0.4;

/// 24 requests run at any time over 4 replicas: the oldest ends when a new one has arrived.
#[tokio::test]
async fn a_49_a_shared_system_prompt_does_not_end_up_on_one_replica() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let all = [&ups[0], &ups[1], &ups[2], &ups[3]];
    for with_ids in [false, true] {
        let bench = Bench::with_replicas(&all).await;
        let mut running = VecDeque::new();
        let mut arrivals = Vec::new();
        for i in 0..2000_usize {
            let gate = Gate::new();
            for up in all {
                up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
            }
            let before = all.map(|u| u.counts().requests.get());
            let mut client = bench.client().await;
            client.send(&turn(i % 200, i / 200, with_ids)).await;
            until(|| requests_at(&all) > before.iter().sum()).await;
            arrivals.push(
                all.iter().zip(before).position(|(u, b)| u.counts().requests.get() > b).expect("a replica"),
            );
            running.push_back((client, gate));
            if running.len() > 24 {
                let (mut client, gate) = running.pop_front().expect("a running request");
                gate.open();
                assert_eq!(client.answer().await.status(), 200);
            }
        }
        for (mut client, gate) in running {
            gate.open();
            assert_eq!(client.answer().await.status(), 200);
        }
        for window in arrivals.windows(500) {
            for replica in 0..4 {
                let share = window.iter().filter(|r| **r == replica).count() as f64 / 500.0;
                assert!(share <= LARGEST_SHARE, "replica {replica} had {share} of 500 requests in a row");
            }
        }
        bench.assert_idle(2000).await;
        assert_nobody_blamed(&bench, &all);
    }
}

/// A turn of one of 200 talks that all begin with the same 4 KiB of system prompt.
fn turn(session: usize, turn: usize, with_id: bool) -> Vec<u8> {
    let system = "You are a careful agent of this project. ".repeat(100);
    let mut messages =
        format!(r#"{{"role":"system","content":"{system}"}},{{"role":"user","content":"talk {session}"}}"#);
    for i in 0..turn {
        messages.push_str(&format!(
            r#",{{"role":"assistant","content":"{i}"}},{{"role":"user","content":"go on"}}"#
        ));
    }
    let body = format!(r#"{{"model":"m1","messages":[{messages}]}}"#);
    let id = format!("talk-{session}");
    let fields = [("x-session-id", id.as_str())];
    post_with(CHAT, if with_id { &fields } else { &[] }, body.as_bytes())
}

#[tokio::test]
async fn a_50_an_empty_session_id_is_no_session() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    let all = [&ups[0], &ups[1], &ups[2]];
    let keys = [
        "header:x-session-id",
        "header:session-id",
        "body:prompt_cache_key",
        "body:conversation_id",
        "body:thread_id",
    ];
    let with_talks = [&keys[..], &["auto:conversation"]].concat();
    let empty: [(&[(&str, &str)], &str); 10] = [
        (&[], ""),
        (&[("x-session-id", "")], ""),
        (&[("x-session-id", "  \t ")], ""),
        (&[("session-id", "")], r#","conversation_id":"""#),
        (&[], r#","conversation_id":null"#),
        (&[], r#","conversation_id":0"#),
        (&[], r#","conversation_id":" \t""#),
        (&[], r#","thread_id":{},"prompt_cache_key":[]"#),
        (&[], r#","metadata":{"conversation_id":"c"}"#),
        (&[], r#","conversation_id":false"#),
    ];
    for keys in [&keys[..], &with_talks] {
        let bench = Bench::live(&Config::new(&all).set("routes", "session_keys", keys), 3).await;
        let before = all.map(|u| u.counts().requests.get());
        for i in 0..300 {
            let (fields, members) = empty[i % empty.len()];
            let body = format!(r#"{{"model":"m1","messages":[]{members}}}"#);
            assert_eq!(bench.ask(&post_with(CHAT, fields, body.as_bytes())).await.status(), 200);
        }
        let shares = [0, 1, 2].map(|i| all[i].counts().requests.get() - before[i]);
        assert!(shares.iter().all(|n| (80..=120).contains(n)), "{shares:?}");
        for line in bench.assert_idle(300).await {
            assert_line(&line, &[("affinity", json!(null)), ("spilled", json!(false))]);
        }
        assert_eq!((bench.pools()[0].session_pins, bench.pools()[0].prefix_pins), (0, 0));
        // A real id does make a pin, so the zero above means something.
        let real = post_with(CHAT, &[("x-session-id", ""), ("session-id", "s-1")], &chat("m1", ""));
        assert_eq!(bench.ask(&real).await.status(), 200);
        bench.assert_idle(301).await;
        assert_eq!(bench.pools()[0].session_pins, 1);
    }
}
