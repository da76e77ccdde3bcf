//! Slots that engines tell of, and load that others put on them: what does not fit waits here.

use serde_json::json;
use sluicegate_testkit::answers::{chat_answer, error_answer, json_answer};
use sluicegate_testkit::requests::{CHAT, chat, post};
use sluicegate_testkit::{Bench, Config, Gate, Load, Step, Upstream, send, until};

use crate::checks::assert_line;
use crate::slots_queue::sent;

fn ten() -> Vec<Vec<u8>> {
    (0..10).map(|_| post(CHAT, &chat("m1", ""))).collect()
}

#[tokio::test]
async fn slots_are_learned_from_engines_that_tell() {
    for (path, answer, slots) in [
        ("/props", r#"{"default_generation_settings":{},"total_slots":3,"model_path":"m"}"#, Some(3)),
        ("/get_server_info", r#"{"version":"0.5","max_running_requests":2,"internal_states":[]}"#, Some(2)),
        ("/props", r#"{"total_slots":"many"}"#, None),
        ("/nothing", "", None),
    ] {
        let up = Upstream::start("m1");
        let gate = Gate::new();
        let door = gate.clone();
        up.on_request(move |request| match (request.head.method(), request.head.target() == path) {
            ("POST", _) => vec![Step::Wait(door.clone()), send(chat_answer("a", 1, 1))],
            (_, true) => vec![send(json_answer(200, answer))],
            (_, false) => vec![send(error_answer(404, "no such path"))],
        });
        let bench = Bench::live(&Config::new(&[&up]).set("pools", "slots", "auto"), 1).await;
        until(|| bench.replica(&up).slots == slots).await;
        let mut clients = sent(&bench, ten()).await;
        let running = slots.map_or(10, u64::from);
        until(|| bench.replica(&up).inflight == u32::try_from(running).unwrap_or(0)).await;
        until(|| bench.waiting() as u64 == 10 - running).await;
        gate.open();
        for client in &mut clients {
            assert_eq!(client.answer().await.status(), 200, "{path}");
        }
        bench.assert_idle(10).await;
    }
}

#[tokio::test]
async fn a_request_waits_while_others_keep_the_engine_full() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("pools", "slots", 2), 1).await;
    for (n, (running, waiting)) in [(2, 0), (5, 0), (0, 1)].into_iter().enumerate() {
        up.set_load(Load { running, waiting, ..Load::default() });
        until(|| bench.replica(&up).free_slot == Some(false)).await;
        let mut client = sent(&bench, [post(CHAT, &chat("m1", ""))]).await.remove(0);
        until(|| bench.waiting() == 1).await;
        let probes = &up.counts().metrics_probes;
        probes.reached(probes.get() + 5).await;
        assert_eq!(
            (bench.waiting(), up.counts().requests.get()),
            (1, n as u64),
            "{running} running, {waiting} waiting"
        );
        up.set_load(Load::default());
        assert_eq!(client.answer().await.status(), 200);
        let line = bench.assert_idle(n + 1).await.pop().expect("a line");
        assert!(line["queue_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{line}");
        assert_line(&line, &[("attempts", json!(1)), ("outcome", json!("ok"))]);
    }
}

/// One place of two is taken by others: one request runs, the next waits, and which replica it gets is the free one.
#[tokio::test]
async fn a_waiting_request_takes_the_first_slot_of_any_replica() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let (full, busy) = (&ups[0], &ups[1]);
    let bench = Bench::live(&Config::new(&[full, busy]).set("pools", "slots", 1), 2).await;
    full.set_load(Load { running: 1, ..Load::default() });
    until(|| bench.replica(full).free_slot == Some(false)).await;
    let gate = Gate::new();
    busy.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let mut first = sent(&bench, [post(CHAT, &chat("m1", ""))]).await.remove(0);
    busy.counts().requests.reached(1).await;
    let mut second = sent(&bench, [post(CHAT, &chat("m1", ""))]).await.remove(0);
    until(|| bench.waiting() == 1).await;
    full.set_load(Load::default());
    assert_eq!(second.answer().await.status(), 200);
    assert_eq!((full.counts().requests.get(), busy.counts().requests.get()), (1, 1));
    gate.open();
    assert_eq!(first.answer().await.status(), 200);
    bench.assert_idle(2).await;
}
