//! A-34 and A-51: a full replica is left for one with room, a failing one does not become the favourite.

use serde_json::json;
use sluicegate_testkit::answers::{
    LAST_CHUNK, STREAM_HEAD, answer, chunk, error_answer, error_json, event, polite,
};
use sluicegate_testkit::requests::{CHAT, chat, post, post_with};
use sluicegate_testkit::{Answer, Bench, Config, Health, Load, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};
use crate::slots_queue::sent;

const FULL: &str =
    r#"{"error":{"message":"too many requests","type":"TooManyRequests","param":null,"code":429}}"#;

/// `429` with `Retry-After: 7` and a JSON error.
fn full() -> Vec<Step> {
    let fields = [("content-type", "application/json"), ("Retry-After", "7")];
    vec![send(answer(429, &fields, FULL.as_bytes()))]
}

#[track_caller]
fn assert_relayed(answer: &Answer) {
    assert_eq!((answer.status(), answer.text().as_str()), (429, FULL));
    assert_eq!(answer.head.get("retry-after"), Some("7"));
    assert_eq!(answer.head.get("content-type"), Some("application/json"));
}

#[tokio::test]
async fn a_34_a_429_is_relayed_with_its_hint_where_nobody_else_has_room() {
    let ups = [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")];
    // Alone; with two that are as full; with one that has requests waiting.
    for (count, tries) in [(1, 1), (3, 2)] {
        let some: Vec<&Upstream> = ups.iter().take(count).collect();
        let bench = Bench::live(&Config::new(&some), count).await;
        for up in &some {
            up.answer_with(full());
        }
        for (n, members) in (1..).zip(["", r#","stream":true"#]) {
            let before = requests_at(&some);
            assert_relayed(&bench.ask(&post(CHAT, &chat("m1", members))).await);
            assert_eq!(requests_at(&some) - before, tries, "spilled once");
            let line = bench.assert_idle(n).await.pop().expect("a line");
            assert_line(&line, &[("status", json!(429)), ("attempts", json!(tries))]);
            assert_line(
                &line,
                &[("outcome", json!("upstream_error")), ("error_type", json!("TooManyRequests"))],
            );
        }
        assert_nobody_blamed(&bench, &some);
    }
}

/// A session keeps the full replica first in line.
async fn pinned(config: &Config, ups: [&Upstream; 2]) -> (Bench, usize, Vec<u8>) {
    let bench = Bench::live(config, 2).await;
    let request = post_with(CHAT, &[("x-session-id", "s")], &chat("m1", ""));
    let before = ups[1].counts().requests.get();
    assert_eq!(bench.ask(&request).await.status(), 200);
    let owner = usize::from(ups[1].counts().requests.get() > before);
    (bench, owner, request)
}

#[tokio::test]
async fn a_34_a_429_is_spilled_to_a_replica_with_room() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    let in_a_200 = vec![send(STREAM_HEAD), send(chunk(&event(&error_json(429, "full")))), send(LAST_CHUNK)];
    let mut spills = 0;
    for script in [full(), vec![send(error_answer(429, "full"))], in_a_200] {
        for up in both {
            up.on_request(polite);
        }
        let (bench, owner, request) = pinned(&Config::new(&both), both).await;
        both[owner].answer_with(script);
        for n in 2..12 {
            assert_eq!(bench.ask(&request).await.status(), 200);
            let line = bench.assert_idle(n).await.pop().expect("a line");
            assert_line(&line, &[("outcome", json!("ok")), ("replica", json!(both[1 - owner].url()))]);
            spills += line["attempts"].as_u64().expect("a number") - 1;
        }
        assert_nobody_blamed(&bench, &both);
    }
    assert!(spills >= 3, "the full replica was hardly ever asked: {spills}");
}

#[tokio::test]
async fn a_34_a_429_is_not_spilled_to_where_requests_wait_or_where_it_must_not() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    for (spill, waiting) in [(true, 5), (false, 0)] {
        for up in both {
            up.on_request(polite);
            up.set_load(Load::default());
        }
        let (bench, owner, request) =
            pinned(&Config::new(&both).set("routes.retry", "spill_429", spill), both).await;
        both[owner].answer_with(full());
        let other = both[1 - owner];
        other.set_load(Load { running: waiting, waiting, ..Load::default() });
        until(|| bench.replica(other).scraped.is_some_and(|load| load.waiting == waiting)).await;
        let before = other.counts().requests.get();
        assert_relayed(&bench.ask(&request).await);
        assert_eq!(other.counts().requests.get(), before, "spill_429 = {spill}, {waiting} waiting there");
        bench.assert_idle(2).await;
        assert_nobody_blamed(&bench, &both);
    }
}

#[tokio::test]
async fn a_51_a_replica_that_fails_fast_does_not_become_the_favourite() {
    for status in [503, 500] {
        let ups = [Upstream::start("m1"), Upstream::start("m1")];
        let (good, bad) = (&ups[0], &ups[1]);
        let config = Config::new(&[good, bad]).set("pools.health", "cooldown", "10m").set(
            "pools.health",
            "cooldown_max",
            "10m",
        );
        let bench = Bench::live(&config, 2).await;
        bad.answer_with(vec![send(error_answer(status, "at once"))]);
        let mut served = 0;
        for n in 0..10 {
            // Distinct bodies, so that none is refused as a repeated one.
            let body = |i| chat("m1", &format!(r#","seed":{n}{i}"#));
            for mut client in sent(&bench, (0..10).map(|i| post(CHAT, &body(i)))).await {
                served += usize::from(client.answer().await.status() == 200);
            }
        }
        assert!(served >= 95, "{served} of 100 were served");
        until(|| bench.replica(bad).health == Health::Ejected).await;
        // Three failures in a row put it out, with at most its part of the first ten under way; then nothing reaches it.
        let seen = bad.counts().requests.get();
        assert!((1..=10).contains(&seen), "{seen} first attempts at the failing replica");
        for n in 0..20 {
            assert_eq!(
                bench.ask(&post(CHAT, &chat("m1", &format!(r#","seed":{}"#, 1000 + n)))).await.status(),
                200
            );
        }
        assert_eq!(bad.counts().requests.get(), seen);
        bench.assert_idle(120).await;
        assert_eq!(bench.replica(good).health, Health::Live);
    }
}
