//! The bench proves itself: a request through the app is counted once, and what is open is seen as open.

use serde_json::json;
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, Health, Step, Upstream, send, until};

#[tokio::test]
async fn what_is_open_is_seen_and_what_has_ended_is_counted() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 5, 6))]);
    let mut client = bench.client().await;
    client.send(&post(CHAT, &chat("m1", ""))).await;
    up.counts().requests.reached(1).await;
    assert_eq!((bench.open_requests(), bench.open_connections(), bench.replica(&up).inflight), (1, 1, 1));
    assert_eq!(bench.usage_count(), 0);
    gate.open();
    assert_eq!(client.answer().await.status(), 200);
    let lines = bench.assert_idle(1).await;
    assert_eq!((&lines[0]["completion_tokens"], &lines[0]["replica"]), (&json!(6), &json!(up.url())));
    drop(client);
    until(|| bench.open_connections() == 0).await;
}

#[tokio::test]
#[should_panic(expected = "usage lines")]
async fn a_line_too_many_is_no_idle_bench() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    for _ in 0..2 {
        bench.ask(&post(CHAT, &chat("m1", ""))).await;
    }
    bench.usage_lines(2).await;
    bench.assert_idle(1).await;
}

#[tokio::test]
async fn a_bench_starts_without_its_replicas_and_sees_them_come() {
    let up = Upstream::stopped("m1");
    let bench = Bench::start(&Config::new(&[&up]).text());
    assert_ne!(bench.replica(&up).health, Health::Live);
    up.start_again();
    bench.wait_live(1).await;
    assert_eq!(bench.replica(&up).health, Health::Live);
}
