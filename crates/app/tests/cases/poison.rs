//! A-41 and G15: a request that fails every replica is the request's fault, and is refused before it fails a third.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use sluicegate_testkit::answers::{
    LAST_CHUNK, STREAM_HEAD, chat_answer, chunk, error_answer, error_json, event, polite,
};
use sluicegate_testkit::requests::{CHAT, chat, post, post_as};
use sluicegate_testkit::{
    Answer, Bench, Config, Gate, Health, Received, Step, Upstream, patiently, send, until,
};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error, requests_at};

fn three() -> [Upstream; 3] {
    [Upstream::start("m1"), Upstream::start("m1"), Upstream::start("m1")]
}

fn is_poison(request: &Received) -> bool {
    request.text().contains(r#""echo":true"#)
}

fn poison(n: usize) -> Vec<u8> {
    post(CHAT, &chat("m1", &format!(r#","echo":true,"seed":{n}"#)))
}

#[track_caller]
fn assert_refused(answer: &Answer) {
    let error = assert_own_error(answer, 422);
    assert_eq!(error["code"], json!("suspected_poison"));
    let after: u32 =
        answer.head.get("retry-after").and_then(|s| s.parse().ok()).expect("Retry-After in seconds");
    assert!((1..=60).contains(&after), "{after}");
}

#[tokio::test]
async fn a_41_a_poison_request_ejects_nobody() {
    for distinct in [false, true] {
        let ups = three();
        let all = [&ups[0], &ups[1], &ups[2]];
        let bench = Bench::live(&Config::new(&all).set("pools.health", "eject_after_5xx", 3), 3).await;
        for up in all {
            up.on_request(|request| match is_poison(request) {
                true => {
                    vec![send(error_answer(500, "Out of range float values are not JSON compliant: -inf"))]
                }
                false => polite(request),
            });
        }
        let good = post(CHAT, &chat("m1", ""));
        let mut refused = 0;
        for n in 0..10 {
            let before = requests_at(&all);
            let answer = bench.ask(&poison(if distinct { n } else { 0 })).await;
            if n == 0 || distinct {
                assert_eq!(answer.status(), 500, "{}", answer.text());
                assert_eq!(
                    answer.text(),
                    error_json(500, "Out of range float values are not JSON compliant: -inf")
                );
                assert_eq!(requests_at(&all) - before, 2, "replayed once");
            } else {
                assert_refused(&answer);
                assert_eq!(requests_at(&all), before);
                refused += 1;
            }
            for _ in 0..10 {
                assert_eq!(bench.ask(&good).await.status(), 200);
            }
        }
        assert_eq!(refused, if distinct { 0 } else { 9 });
        let lines = bench.assert_idle(110).await;
        for line in &lines {
            match line["status"].as_u64() {
                Some(500) => {
                    assert_line(line, &[("outcome", json!("upstream_error")), ("attempts", json!(2))])
                }
                Some(422) => assert_line(
                    line,
                    &[
                        ("outcome", json!("rejected_poison")),
                        ("error_type", json!("suspected_poison")),
                        ("attempts", json!(0)),
                        ("replica", json!(null)),
                        ("route", json!("m1")),
                    ],
                ),
                _ => assert_line(line, &[("outcome", json!("ok")), ("attempts", json!(1))]),
            }
        }
        assert_nobody_blamed(&bench, &all);
    }
}

/// Failures after a complete send, of which nobody can say whose they are.
fn doubtful() -> Vec<(&'static str, Vec<Step>, u16)> {
    vec![
        ("reset", vec![Step::Reset], 502),
        ("close", vec![Step::Close], 502),
        ("half a head", vec![send(b"HTTP/1.1 200 OK\r\ncont"), Step::Close], 502),
        ("a head and no more", vec![send(STREAM_HEAD), Step::Reset], 502),
        ("500", vec![send(error_answer(500, "boom"))], 500),
        ("502", vec![send(error_answer(502, "boom"))], 502),
        ("504", vec![send(error_answer(504, "boom"))], 504),
        (
            "500 in a 200",
            vec![send(STREAM_HEAD), send(chunk(&event(&error_json(500, "boom")))), send(LAST_CHUNK)],
            500,
        ),
    ]
}

#[tokio::test]
async fn g15_at_most_two_replicas_see_a_poison_request() {
    for (name, script, status) in doubtful() {
        let ups = three();
        let all = [&ups[0], &ups[1], &ups[2]];
        // One failure booked for it would eject.
        let bench = Bench::live(&Config::new(&all).set("pools.health", "eject_after_5xx", 1), 3).await;
        for up in all {
            let script = script.clone();
            up.on_request(move |request| if is_poison(request) { script.clone() } else { polite(request) });
        }
        let answer = bench.ask(&poison(1)).await;
        assert_eq!(answer.status(), status, "{name}: {}", answer.text());
        assert_eq!(requests_at(&all), 2, "{name}");
        for _ in 0..3 {
            assert_refused(&bench.ask(&poison(1)).await);
        }
        assert_eq!(requests_at(&all), 2, "{name}: a third replica saw it");
        // Another body, and the same in other words, is another request.
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", r#","echo":false"#))).await.status(), 200);
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", r#", "echo" : true"#))).await.status(), 200);
        bench.assert_idle(6).await;
        assert_nobody_blamed(&bench, &all);
    }
}

/// Nobody can have another key's requests refused, nor those of an endpoint where they do no harm.
#[tokio::test]
async fn g15_a_suspicion_is_of_one_key_at_one_endpoint() {
    const COMPLETIONS: &str = "/v1/completions";
    let ups = three();
    let all = [&ups[0], &ups[1], &ups[2]];
    let bench = Bench::live(&Config::new(&all).key("ann").key("bob"), 3).await;
    for up in all {
        up.on_request(|request| match request.head.target() == COMPLETIONS {
            true => vec![send(error_answer(500, "boom"))],
            false => polite(request),
        });
    }
    let body = chat("m1", "");
    assert_eq!(bench.ask(&post_as("ann", COMPLETIONS, &body)).await.status(), 500);
    assert_refused(&bench.ask(&post_as("ann", COMPLETIONS, &body)).await);
    assert_eq!(requests_at(&all), 2);
    assert_eq!(bench.ask(&post_as("ann", CHAT, &body)).await.status(), 200, "another endpoint");
    assert_eq!(bench.ask(&post_as("bob", COMPLETIONS, &body)).await.status(), 500, "another key");
    assert_refused(&bench.ask(&post_as("bob", COMPLETIONS, &body)).await);
    assert_refused(&bench.ask(&post_as("ann", COMPLETIONS, &body)).await);
    bench.assert_idle(6).await;
    assert_nobody_blamed(&bench, &all);
}

/// The real thing: each engine that reads it is gone, with every connection that it had.
#[tokio::test]
async fn g15_a_request_that_crashes_its_engine_takes_no_third() {
    for warm in [false, true] {
        crash_two_of_three(warm).await;
    }
}

/// `warm`: the gateway has a kept connection to each, so that an engine that goes looks like an idle limit at first.
async fn crash_two_of_three(warm: bool) {
    let ups = three();
    let crash = [Gate::new(), Gate::new(), Gate::new()];
    let config = Config::new(&[&ups[0], &ups[1], &ups[2]]).set("listen", "threads", 1);
    let bench = Bench::live(&config, 3).await;
    for (up, gate) in ups.iter().zip(&crash) {
        let gate = gate.clone();
        up.on_request(move |request| match is_poison(request) {
            true => vec![Step::Tell(gate.clone()), Step::Hang],
            false => polite(request),
        });
    }
    let good = if warm { 3 } else { 0 };
    for _ in 0..good {
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    }
    let kill = |i: usize| {
        let (gate, up) = (crash[i].clone(), &ups[i]);
        async move {
            gate.passed().await;
            up.stop();
            std::future::pending::<()>().await;
        }
    };
    let request = poison(1);
    let answer = tokio::select! {
        answer = bench.ask(&request) => answer,
        _ = async { tokio::join!(kill(0), kill(1), kill(2)) } => unreachable!("they wait for ever"),
    };
    assert!(matches!(answer.status(), 502 | 503), "{}", answer.text());
    assert_eq!(crash.iter().filter(|gate| gate.is_open()).count(), 2, "replicas that saw it");
    assert_refused(&bench.ask(&request).await);
    let third = ups.iter().zip(&crash).find(|(_, gate)| !gate.is_open()).expect("a third replica").0;
    assert_eq!(bench.replica(third).health, Health::Live);
    assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
    for up in ups.iter().zip(&crash).filter(|(_, gate)| gate.is_open()).map(|(up, _)| up) {
        up.start_again();
    }
    bench.wait_live(3).await;
    bench.assert_idle(3 + good).await;
}

/// Its engine is found dead before the request's own connection says so: the same evidence.
#[tokio::test]
async fn g15_a_request_whose_engines_are_found_dead_takes_no_third() {
    for warm in [false, true] {
        let ups = three();
        let all = [&ups[0], &ups[1], &ups[2]];
        let bench = Bench::live(&Config::new(&all).set("listen", "threads", 1), 3).await;
        let good = if warm { 3 } else { 0 };
        for _ in 0..good {
            assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200);
        }
        for up in all {
            let (dead, died) = (Arc::new(AtomicBool::new(false)), vec![send(error_answer(500, "dead"))]);
            let engine = Arc::clone(&dead);
            up.on_probe(move |_| dead.load(Ordering::SeqCst).then(|| died.clone()));
            up.on_request(move |request| {
                let crashed = is_poison(request);
                engine.fetch_or(crashed, Ordering::SeqCst);
                if crashed { vec![Step::Hang] } else { polite(request) }
            });
        }
        let before = requests_at(&all);
        let answer = bench.ask(&poison(1)).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        assert_eq!(requests_at(&all) - before, 2, "replicas that saw it");
        assert_refused(&bench.ask(&poison(1)).await);
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", ""))).await.status(), 200, "the third serves on");
        let lines = bench.assert_idle(3 + good).await;
        assert_line(
            &lines[good],
            &[("attempts", json!(2)), ("status", json!(502)), ("outcome", json!("upstream_error"))],
        );
    }
}

/// A full or loading replica says nothing about the request.
#[tokio::test]
async fn busy_answers_never_make_a_request_suspect() {
    for status in [503, 429] {
        let ups = three();
        let all = [&ups[0], &ups[1], &ups[2]];
        let config = Config::new(&all).set("pools.health", "eject_after_5xx", 1_000_000);
        let bench = Bench::live(&config, 3).await;
        for up in all {
            up.answer_with(vec![send(error_answer(status, "busy"))]);
        }
        for _ in 0..3 {
            assert_eq!(bench.ask(&poison(1)).await.status(), status);
        }
        for up in all {
            up.answer_with(vec![send(chat_answer("a", 1, 1))]);
        }
        assert_eq!(bench.ask(&poison(1)).await.status(), 200, "after {status}");
        // One failure and one good answer: the replica's fault, not the request's.
        all[0].answer_with(vec![Step::Reset]);
        for _ in 0..4 {
            assert_eq!(bench.ask(&poison(1)).await.status(), 200);
        }
        bench.assert_idle(8).await;
    }
}

#[tokio::test]
async fn a_suspicion_ends_and_the_list_is_bounded() {
    let ups = three();
    let all = [&ups[0], &ups[1], &ups[2]];
    let config = |entries: i64, ttl: &str| {
        Config::new(&all)
            .set("routes.retry", "poison_entries", entries)
            .set("routes.retry", "poison_ttl", ttl)
            .set("pools.health", "eject_after_5xx", 1_000_000)
    };
    for up in all {
        up.answer_with(vec![send(error_answer(500, "boom"))]);
    }
    // Two at most: the third makes the first forgotten.
    let bench = Bench::live(&config(2, "60s"), 3).await;
    for n in 1..=3 {
        assert_eq!(bench.ask(&poison(n)).await.status(), 500);
    }
    assert_refused(&bench.ask(&poison(3)).await);
    assert_refused(&bench.ask(&poison(2)).await);
    assert_eq!(bench.ask(&poison(1)).await.status(), 500);
    bench.assert_idle(6).await;
    // None at all.
    let bench = Bench::live(&config(0, "60s"), 3).await;
    for _ in 0..3 {
        assert_eq!(bench.ask(&poison(1)).await.status(), 500);
    }
    bench.assert_idle(3).await;
    // After its time the request is tried again.
    let bench = Bench::live(&config(1000, "1s"), 3).await;
    assert_eq!(bench.ask(&poison(1)).await.status(), 500);
    let mut refused = 0;
    let tried = patiently(async {
        loop {
            let answer = bench.ask(&poison(1)).await;
            if answer.status() != 422 {
                return answer;
            }
            refused += 1;
            let probes = all[0].counts().health_probes.clone();
            probes.reached(probes.get() + 1).await;
        }
    });
    assert_eq!(tried.await.status(), 500);
    assert!(refused > 0, "it was never refused");
    until(|| bench.open_requests() == 0).await;
    bench.assert_idle(refused + 2).await;
}
