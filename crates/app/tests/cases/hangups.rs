//! A-21, A-45: a client that leaves stops the work, and leaves nothing behind.

use serde_json::json;
use sluicegate_testkit::answers::{open_stream, role_event, text_event};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, RawClient, Step, Upstream};

use crate::checks::{assert_line, assert_nobody_blamed, requests_at};

/// How a client can leave. A half-closed one counts as gone.
async fn leave(client: RawClient, how: usize) -> Option<RawClient> {
    let mut client = client;
    match how % 3 {
        0 => client.close().await,
        1 => client.reset(),
        _ => {
            client.half_close().await;
            return Some(client);
        }
    }
    None
}

/// Eight clients at once, then none; the replica sees each connection closed.
async fn everybody_leaves(bench: &Bench, up: &Upstream, request: &[u8], events: usize) {
    let before = up.counts().gone.get();
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = bench.client().await;
        client.send(request).await;
        clients.push(client);
    }
    up.counts().open.becomes(|n| n == 8).await;
    for client in &mut clients {
        if events > 0 {
            assert_eq!(client.head().await.status(), 200);
        }
        for _ in 0..events {
            client.event().await;
        }
    }
    let mut half_closed = Vec::new();
    for (how, client) in clients.into_iter().enumerate() {
        half_closed.extend(leave(client, how).await);
    }
    up.counts().gone.reached(before + 8).await;
    for client in &mut half_closed {
        client.closed().await;
    }
}

#[tokio::test]
async fn a_21_the_work_stops_when_the_client_leaves() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let stream = post(CHAT, &chat("m1", r#","stream":true"#));
    let mut running = open_stream(&[role_event(), text_event("a"), text_event("b")]);
    running.push(Step::Hang);
    up.answer_with(running);
    everybody_leaves(&bench, &up, &stream, 3).await;
    up.answer_with(vec![Step::Hang]);
    // In a silent prefill, and in a generation without streaming.
    everybody_leaves(&bench, &up, &stream, 0).await;
    everybody_leaves(&bench, &up, &post(CHAT, &chat("m1", "")), 0).await;
    let lines = bench.assert_idle(24).await;
    for (i, line) in lines.iter().enumerate() {
        let status = if i < 8 { json!(200) } else { json!(null) };
        assert_line(line, &[("outcome", json!("client_gone")), ("attempts", json!(1)), ("status", status)]);
    }
    assert_nobody_blamed(&bench, &[&up]);
    assert_eq!(bench.replica(&up).inflight, 0);
}

#[tokio::test]
async fn a_21_a_half_closed_client_is_served_where_the_configuration_says_so() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("listen", "half_close", "serve"), 1).await;
    let mut client = bench.client().await;
    client.send(&post(CHAT, &chat("m1", ""))).await;
    client.half_close().await;
    assert_eq!(client.answer().await.status(), 200);
    let lines = bench.assert_idle(1).await;
    assert_line(&lines[0], &[("outcome", json!("ok"))]);
}

#[tokio::test]
async fn a_45_five_hundred_clients_that_leave_before_the_head_leave_no_count_behind() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    let bench = Bench::with_replicas(&both).await;
    for up in both {
        up.answer_with(vec![Step::Hang]);
    }
    let request = post(CHAT, &chat("m1", ""));
    let mut clients = Vec::new();
    for _ in 0..500 {
        let mut client = bench.client().await;
        client.send(&request).await;
        clients.push(client);
    }
    sluicegate_testkit::until(|| requests_at(&both) == 500).await;
    for (i, client) in clients.into_iter().enumerate() {
        leave(client, i % 2).await;
    }
    sluicegate_testkit::until(|| both.iter().map(|u| u.counts().gone.get()).sum::<u64>() == 500).await;
    for line in bench.assert_idle(500).await {
        assert_line(&line, &[("outcome", json!("client_gone")), ("status", json!(null))]);
    }
    // True zeroes: what comes next is spread evenly.
    let before = both.map(|u| u.counts().requests.get());
    for up in both {
        up.on_request(sluicegate_testkit::answers::polite);
    }
    for _ in 0..100 {
        assert_eq!(bench.ask(&request).await.status(), 200);
    }
    let after = both.map(|u| u.counts().requests.get());
    let shares = [after[0] - before[0], after[1] - before[1]];
    assert!(shares.iter().all(|n| (40..=60).contains(n)), "{shares:?}");
    bench.assert_idle(600).await;
    assert_nobody_blamed(&bench, &both);
}
