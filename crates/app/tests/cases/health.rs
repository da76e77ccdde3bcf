//! A-38, A-39, A-40, A-42, A-43, A-44: who may be asked, who not, and the way back.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, STREAM_HEAD, answer, chat_answer, chunk, error_answer, json_answer, polite,
};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Answer, Bench, Config, End, Feed, Gate, Health, Load, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_nobody_blamed, assert_own_error, requests_at};

fn request() -> Vec<u8> {
    post(CHAT, &chat("m1", ""))
}

/// llama-server's answer on every path while it loads its model.
fn loading() -> Vec<Step> {
    vec![send(json_answer(
        503,
        r#"{"error":{"message":"Loading model","type":"unavailable_error","code":503}}"#,
    ))]
}

fn assert_nobody_there(answer: &Answer) {
    assert_own_error(answer, 503);
    let hint = answer.head.get("retry-after").and_then(|v| v.parse::<u32>().ok());
    assert!(hint.is_some_and(|seconds| seconds >= 1), "Retry-After {hint:?}");
}

/// Waits for as many more probes of this replica.
async fn more_probes(up: &Upstream, count: u64) {
    up.counts().health_probes.reached(up.counts().health_probes.get() + count).await;
}

/// A healed engine answers the gateway's canary, and only then users.
async fn assert_back_by_canary(bench: &Bench, frozen: &Upstream, before: u64) {
    // /health alone does not bring it back: canaries come, unanswered, and it stays out.
    frozen.counts().requests.reached(before + 2).await;
    assert_eq!(bench.replica(frozen).health, Health::Ejected);
    let canary = frozen.received().pop().expect("a canary").json();
    assert_eq!(canary["max_tokens"], json!(1), "{canary}");
    frozen.on_request(polite);
    frozen.set_load(Load { prompt_tokens: 1000, generation_tokens: 100, ..Load::default() });
    bench.wait_health(frozen, Health::Live).await;
    assert_eq!(bench.replica(frozen).last_transition.map(|t| t.from), Some(Health::Probing));
}

#[tokio::test]
async fn a_38_three_requests_without_a_byte_eject_a_frozen_engine() {
    let (frozen, peer) = (Upstream::start("m1"), Upstream::start("m1"));
    // The peer looks busier, so that the frozen one is asked first.
    frozen.set_load(Load { running: 2, ..Load::default() });
    peer.set_load(Load { running: 5, ..Load::default() });
    let config = Config::new(&[&frozen, &peer]).set("routes.timeouts", "total", "600ms").set(
        "pools.health",
        "scrape_timeout",
        "400ms",
    );
    let bench = Bench::live(&config, 2).await;
    until(|| bench.replica(&peer).scraped.is_some_and(|load| load.running == 5)).await;
    frozen.answer_with(vec![Step::Hang]);
    for i in 0..3 {
        assert_eq!(bench.ask(&request()).await.status(), 504, "request {i}");
    }
    bench.wait_health(&frozen, Health::Ejected).await;
    let stuck = frozen.counts().requests.get();
    for _ in 0..10 {
        assert_eq!(bench.ask(&request()).await.status(), 200);
    }
    assert_eq!(peer.counts().requests.get(), 10);
    assert_back_by_canary(&bench, &frozen, stuck).await;
    bench.assert_idle(13).await;
}

#[tokio::test]
async fn a_38_counters_that_stand_still_under_work_eject_a_frozen_engine() {
    let (frozen, peer) = (Upstream::start("m1"), Upstream::start("m1"));
    let config = Config::new(&[&frozen, &peer]).set("pools.health", "stall_after", "300ms").set(
        "pools.health",
        "scrape_timeout",
        "400ms",
    );
    let bench = Bench::live(&config, 2).await;
    // Seen working once, then frozen with a queue that grows; no user request is needed to find out.
    for tokens in 1..4 {
        frozen.set_load(Load {
            running: 2,
            waiting: 0,
            prompt_tokens: 100 * tokens,
            generation_tokens: 10 * tokens,
        });
        more_probes(&frozen, 2).await;
    }
    frozen.answer_with(vec![Step::Hang]);
    for waiting in 1..=u32::MAX {
        frozen.set_load(Load { running: 2, waiting, prompt_tokens: 300, generation_tokens: 30 });
        if bench.replica(&frozen).health == Health::Ejected {
            break;
        }
        more_probes(&frozen, 1).await;
    }
    assert_eq!(bench.ask(&request()).await.status(), 200);
    assert_back_by_canary(&bench, &frozen, frozen.counts().requests.get()).await;
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn a_39_an_open_port_is_not_readiness() {
    let (late, ready) = (Upstream::stopped("m1"), Upstream::start("m1"));
    let bench = Bench::live(&Config::new(&[&late, &ready]), 1).await;
    let mut sent = 0;
    for stage in ["refused", "loading", "health hangs", "health 500"] {
        match stage {
            "refused" => {}
            "loading" => {
                late.set_health(loading());
                late.set_metrics(loading());
                late.answer_with(loading());
                late.start_again();
                more_probes(&late, 4).await;
            }
            "health hangs" => late.set_health(vec![Step::Close]),
            _ => {
                late.set_health(vec![send(error_answer(500, "not yet"))]);
                more_probes(&late, 4).await;
            }
        }
        for _ in 0..5 {
            assert_eq!(bench.ask(&request()).await.status(), 200, "{stage}");
            sent += 1;
        }
        assert_eq!(late.counts().heads.get(), 0, "{stage}: a user's request was sent");
        assert_ne!(bench.replica(&late).health, Health::Live, "{stage}");
    }
    late.set_healthy();
    late.on_request(polite);
    bench.wait_health(&late, Health::Live).await;
    for _ in 0..4 {
        assert_eq!(bench.ask(&request()).await.status(), 200);
    }
    assert!(late.counts().requests.get() >= 1, "never used after its health");
    bench.assert_idle(sent + 4).await;
}

#[tokio::test]
async fn a_39_a_request_that_slips_through_is_served_by_the_peer() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
    ups[0].answer_with(loading());
    for members in ["", r#","stream":true"#, "", r#","stream":true"#] {
        assert_eq!(bench.ask(&post(CHAT, &chat("m1", members))).await.status(), 200);
    }
    assert!(ups[0].counts().requests.get() >= 1, "nothing slipped through");
    assert!(bench.assert_idle(4).await.iter().all(|l| l["outcome"] == json!("ok")));
    assert_nobody_blamed(&bench, &[&ups[1]]);
}

#[tokio::test]
async fn a_39_while_all_are_loading_the_client_is_told_to_come_back() {
    let up = Upstream::start("m1");
    up.set_health(loading());
    up.answer_with(loading());
    let bench = Bench::start(&Config::new(&[&up]).text());
    more_probes(&up, 2).await;
    for members in ["", r#","stream":true"#] {
        assert_nobody_there(&bench.ask(&post(CHAT, &chat("m1", members))).await);
    }
    assert_eq!(up.counts().requests.get(), 0);
    for line in bench.assert_idle(2).await {
        assert_line(
            &line,
            &[("outcome", json!("no_replica")), ("status", json!(503)), ("attempts", json!(0))],
        );
    }
}

/// 50 clients per replica, each of whom reads every token before the next one is made.
#[tokio::test]
async fn a_40_a_slow_health_answer_under_load_is_not_death() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    let config = Config::new(&both).set("pools.health", "scrape_timeout", "500ms");
    let bench = Bench::live(&config, 2).await;
    let feed = Feed::new();
    let token = b"data: {\"choices\":[{\"delta\":{\"content\":\"t\"}}]}\n\n";
    for up in both {
        up.answer_with(vec![
            send(STREAM_HEAD),
            Step::Feed(feed.clone()),
            send(chunk(DONE)),
            send(LAST_CHUNK),
        ]);
    }
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = bench.client().await;
        client.send(&post(CHAT, &chat("m1", r#","stream":true"#))).await;
        clients.push(client);
    }
    until(|| both.iter().all(|u| u.counts().open.get() == 50)).await;
    feed.push(chunk(token));
    for client in &mut clients {
        client.head().await;
        assert_eq!(client.event().await, token);
    }
    let probes = || both.map(|u| u.counts().health_probes.get());
    let before = probes();
    for up in both {
        up.set_health(vec![Step::Hang]);
    }
    while probes().iter().zip(before).any(|(now, then)| *now < then + 6) {
        feed.push(chunk(token));
        for client in &mut clients {
            assert_eq!(client.event().await, token);
        }
        assert_nobody_blamed(&bench, &both);
    }
    feed.end();
    for client in &mut clients {
        assert_eq!(client.rest().await, (DONE.to_vec(), End::Whole));
    }
    assert!(bench.assert_idle(100).await.iter().all(|l| l["outcome"] == json!("ok")));
}

/// The other side of the rule: without any sign of life a probe that times out does count.
#[tokio::test]
async fn a_40_a_silent_replica_whose_probes_time_out_is_ejected() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let config = Config::new(&[&ups[0], &ups[1]]).set("pools.health", "scrape_timeout", "400ms");
    let bench = Bench::live(&config, 2).await;
    ups[0].set_health(vec![Step::Hang]);
    bench.wait_health(&ups[0], Health::Ejected).await;
    assert_eq!(bench.ask(&request()).await.status(), 200);
    assert_eq!((requests_at(&[&ups[0]]), requests_at(&[&ups[1]])), (0, 1));
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn a_42_an_ejected_replica_comes_back_by_itself() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    for fault in ["health 503", "health 500", "process gone", "health resets"] {
        match fault {
            "health 503" => up.set_health(vec![send(error_answer(503, "overloaded"))]),
            "health 500" => up.set_health(vec![send(error_answer(500, "dead"))]),
            "process gone" => up.stop(),
            _ => up.set_health(vec![Step::Reset]),
        }
        bench.wait_health(&up, Health::Ejected).await;
        if fault == "process gone" {
            up.start_again();
        } else {
            // Probing goes on while it is out.
            more_probes(&up, 5).await;
            assert_eq!(bench.replica(&up).health, Health::Ejected, "{fault}");
            up.set_healthy();
        }
        bench.wait_health(&up, Health::Live).await;
        assert_eq!(bench.replica(&up).last_transition.map(|t| t.from), Some(Health::Probing), "{fault}");
    }
    assert_eq!(up.counts().requests.get(), 0, "a user's request was needed for recovery");
    assert_eq!(bench.ask(&request()).await.status(), 200);
    let lines = bench.assert_idle(1).await;
    assert_line(&lines[0], &[("outcome", json!("ok")), ("attempts", json!(1))]);
}

#[tokio::test]
async fn a_43_a_metrics_path_that_is_missing_or_refused_is_no_fault() {
    let (odd, plain) = (Upstream::start("m1"), Upstream::start("m1"));
    let bench = Bench::with_replicas(&[&odd, &plain]).await;
    let other = "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 1.5\nnot a metric\n";
    let pages = [
        error_answer(501, "This server does not support metrics endpoint."),
        error_answer(404, "Not Found"),
        error_answer(401, "Unauthorized"),
        answer(200, &[("content-type", "text/plain")], other.as_bytes()),
        answer(200, &[("content-type", "text/plain")], b""),
        answer(200, &[("content-type", "text/plain")], b"\xff\xfe\0{{{}}}\n"),
    ];
    let mut sent = 0;
    for page in pages {
        // It looked busy before: numbers that are no longer told must not stick.
        odd.set_load(Load { running: 9, ..Load::default() });
        until(|| bench.replica(&odd).scraped.is_some_and(|load| load.running == 9)).await;
        odd.set_metrics(vec![send(&page)]);
        until(|| bench.replica(&odd).scraped.is_none()).await;
        more_probes(&odd, 5).await;
        let gate = Gate::new();
        for up in [&odd, &plain] {
            up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
        }
        let before = [&odd, &plain].map(|u| u.counts().requests.get());
        let mut clients = Vec::new();
        for _ in 0..4 {
            let mut client = bench.client().await;
            client.send(&request()).await;
            clients.push(client);
        }
        for (up, before) in [&odd, &plain].into_iter().zip(before) {
            up.counts().requests.reached(before + 2).await;
        }
        gate.open();
        for client in &mut clients {
            assert_eq!(client.answer().await.status(), 200);
        }
        sent += 4;
        bench.assert_idle(sent).await;
        assert_nobody_blamed(&bench, &[&odd, &plain]);
    }
}

#[tokio::test]
async fn a_44_with_nobody_left_every_client_is_answered_and_the_way_back_is_open() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let bench = Bench::with_replicas(&[&ups[0], &ups[1]]).await;
    for up in &ups {
        up.stop();
    }
    bench.wait_live(0).await;
    let mut clients = Vec::new();
    for i in 0..50 {
        let mut client = bench.client().await;
        client.send(&post(CHAT, &chat("m1", if i % 2 == 0 { "" } else { r#","stream":true"# }))).await;
        clients.push(client);
    }
    for client in &mut clients {
        assert_nobody_there(&client.answer().await);
    }
    for line in bench.assert_idle(50).await {
        // With or without a last attempt at a replica that is out.
        assert!(
            ["no_replica", "upstream_error"].contains(&line["outcome"].as_str().unwrap_or_default()),
            "{line:#}"
        );
        assert_line(&line, &[("status", json!(503))]);
    }
    ups[0].start_again();
    bench.wait_health(&ups[0], Health::Live).await;
    assert_eq!(bench.ask(&request()).await.status(), 200);
    bench.assert_idle(51).await;
}
