//! A-46, A-57, A-59 and the slot halves of A-21 and A-45: who holds a slot, for how long, and who waits.

use serde_json::json;
use sluicegate_testkit::answers::{LAST_CHUNK, STREAM_HEAD, Stream, chat_answer, chunk, polite, role_event};
use sluicegate_testkit::requests::{CHAT, chat, chat_stream, post};
use sluicegate_testkit::{Answer, Bench, Config, End, Gate, RawClient, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_own_error};
use crate::key_limits::{ask_as, assert_key_limit};

/// A stream whose head and first event are out at once and whose rest comes when the gate is open.
fn long_stream(gate: &Gate) -> Vec<Step> {
    let stream = Stream::chat(&["a"]);
    let mut steps = vec![send(STREAM_HEAD), send(chunk(&role_event())), Step::Wait(gate.clone())];
    steps.extend(stream.events[1..].iter().map(|event| send(chunk(event))));
    steps.push(send(LAST_CHUNK));
    steps
}

/// Sends each of these on a connection of its own.
pub(crate) async fn sent(bench: &Bench, requests: impl IntoIterator<Item = Vec<u8>>) -> Vec<RawClient> {
    let mut clients = Vec::new();
    for request in requests {
        let mut client = bench.client().await;
        client.send(&request).await;
        clients.push(client);
    }
    clients
}

#[tokio::test]
async fn a_46_a_slot_is_held_until_the_answers_last_byte() {
    for stream in [true, false] {
        let up = Upstream::start("m1");
        let bench = Bench::live(&Config::new(&[&up]).set("pools", "slots", 4), 1).await;
        let gates: Vec<Gate> = (0..20).map(|_| Gate::new()).collect();
        let doors = gates.clone();
        up.on_request(move |request| match (&doors[request.index as usize], stream) {
            (gate, true) => long_stream(gate),
            (gate, false) => vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))],
        });
        let body = if stream { chat_stream("m1") } else { chat("m1", "") };
        let mut clients = sent(&bench, (0..20).map(|_| post(CHAT, &body))).await;
        until(|| bench.waiting() == 16).await;
        for (ended, gate) in (1..).zip(&gates) {
            up.counts().requests.reached((3 + ended).min(20)).await;
            // Another one would have been sent by now if a head had freed a slot.
            assert!(bench.replica(&up).inflight <= 4 && up.counts().open.get() <= 4);
            assert_eq!(up.counts().requests.get(), (3 + ended).min(20), "after {ended} of 20");
            gate.open();
            up.counts().played.reached(ended).await;
        }
        for client in &mut clients {
            let answer = client.answer().await;
            assert_eq!((answer.status(), answer.end), (200, End::Whole));
        }
        let lines = bench.assert_idle(20).await;
        let waited = lines.iter().filter(|l| l["queue_ms"].as_f64().is_some_and(|ms| ms > 0.0)).count();
        assert_eq!(waited, 16, "{lines:#?}");
    }
}

/// The same for the number of a key's concurrent requests.
#[tokio::test]
async fn a_46_a_keys_place_is_held_until_the_answers_last_byte() {
    for members in [r#","stream":true"#, ""] {
        let up = Upstream::start("m1");
        let bench = Bench::live(&Config::new(&[&up]).key("ann").key_set("max_concurrent", 4), 1).await;
        let gate = Gate::new();
        up.answer_with(match members.is_empty() {
            true => vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))],
            false => long_stream(&gate),
        });
        let mut running = sent(&bench, (0..4).map(|_| ask_as("ann", "u", members))).await;
        up.counts().requests.reached(4).await;
        if !members.is_empty() {
            for client in &mut running {
                assert_eq!(client.head().await.status(), 200);
            }
        }
        for _ in 0..16 {
            assert_key_limit(&bench.ask(&ask_as("ann", "u", members)).await);
        }
        gate.open();
        for client in &mut running {
            match members.is_empty() {
                true => assert_eq!(client.answer().await.status(), 200),
                false => assert_eq!(client.rest().await.1, End::Whole),
            }
        }
        assert_eq!(bench.ask(&ask_as("ann", "u", members)).await.status(), 200);
        assert_eq!(up.counts().requests.get(), 5);
        bench.assert_idle(21).await;
    }
}

#[tokio::test]
async fn a_57_who_leaves_the_queue_is_never_dispatched() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("pools", "slots", 1), 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let request = post(CHAT, &chat("m1", ""));
    let mut holder = sent(&bench, [request.clone()]).await.remove(0);
    up.counts().requests.reached(1).await;
    let mut waiting = sent(&bench, (0..10).map(|_| request.clone())).await;
    until(|| bench.waiting() == 10).await;
    assert_eq!(bench.metric(r#"sluicegate_queue_waiting{pool="pool",route="m1"}"#).await, 10.0);
    let mut stay = waiting.split_off(8);
    let mut half_closed = Vec::new();
    for (i, mut client) in waiting.into_iter().enumerate() {
        match i % 3 {
            0 => client.close().await,
            1 => client.reset(),
            _ => {
                client.half_close().await;
                half_closed.push(client);
            }
        }
    }
    until(|| bench.waiting() == 2).await;
    assert_eq!(bench.metric(r#"sluicegate_queue_waiting{pool="pool",route="m1"}"#).await, 2.0);
    assert_eq!(bench.metric(r#"sluicegate_queue_left_total{pool="pool"}"#).await, 8.0);
    let left = bench.usage_lines(8).await;
    for line in &left {
        assert_line(line, &[("outcome", json!("client_gone_queued")), ("replica", json!(null))]);
        assert_line(
            line,
            &[("attempts", json!(0)), ("status", json!(null)), ("usage_source", json!("none"))],
        );
        assert_line(line, &[("route", json!("m1")), ("pool", json!("pool"))]);
        assert!(line["queue_ms"].as_f64().is_some(), "{line}");
    }
    gate.open();
    assert_eq!(holder.answer().await.status(), 200);
    for client in &mut stay {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(11).await;
    assert_eq!(
        (up.counts().requests.get(), up.counts().heads.get()),
        (3, 3),
        "the holder and the two that stayed"
    );
}

/// The slot comes free in the moment in which the one that it goes to leaves.
#[tokio::test]
async fn a_57_a_slot_granted_to_a_leaver_goes_to_the_next() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).set("pools", "slots", 1), 1).await;
    let request = post(CHAT, &chat("m1", ""));
    for round in 0..100 {
        let gate = Gate::new();
        up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
        let seen = up.counts().requests.get();
        let mut holder = sent(&bench, [request.clone()]).await.remove(0);
        up.counts().requests.reached(seen + 1).await;
        let leaver = sent(&bench, [request.clone()]).await.remove(0);
        until(|| bench.waiting() == 1).await;
        let mut next = sent(&bench, [request.clone()]).await.remove(0);
        until(|| bench.waiting() == 2).await;
        if round % 2 == 0 {
            leaver.reset();
            gate.open();
        } else {
            gate.open();
            leaver.reset();
        }
        assert_eq!(
            (holder.answer().await.status(), next.answer().await.status()),
            (200, 200),
            "round {round}"
        );
    }
    for line in bench.assert_idle(300).await {
        assert!(line["outcome"] == json!("ok") || line["status"] == json!(null), "{line}");
    }
    assert_eq!(bench.ask(&request).await.status(), 200);
}

#[track_caller]
fn assert_come_back(answer: &Answer, status: u16, code: &str) {
    assert_eq!(assert_own_error(answer, status)["code"], json!(code));
    let after: u32 =
        answer.head.get("retry-after").and_then(|s| s.parse().ok()).expect("Retry-After in seconds");
    assert!(after >= 1, "{code}");
}

#[tokio::test]
async fn a_59_full_queue_expired_wait_and_key_limit_are_told_apart() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("pools", "slots", 1)
        .set("routes.queue", "max_length", 2)
        .set("routes.queue", "max_wait", "2s")
        .key("ann")
        .key("one")
        .key_set("max_concurrent", 1);
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let mut held = sent(&bench, [ask_as("one", "u", "")]).await.remove(0);
    up.counts().requests.reached(1).await;
    let mut waiting = sent(&bench, (0..2).map(|_| ask_as("ann", "u", ""))).await;
    until(|| bench.waiting() == 2).await;
    for _ in 0..3 {
        assert_come_back(&bench.ask(&ask_as("ann", "u", "")).await, 429, "queue_full");
    }
    assert_come_back(&bench.ask(&ask_as("one", "u", "")).await, 429, "key_limit");
    for client in &mut waiting {
        assert_come_back(&client.answer().await, 503, "queue_timeout");
    }
    gate.open();
    assert_eq!(held.answer().await.status(), 200);
    let lines = bench.assert_idle(7).await;
    let count = |outcome: &str, code: &str| {
        lines.iter().filter(|l| l["outcome"] == json!(outcome) && l["error_type"] == json!(code)).count()
    };
    assert_eq!(count("rejected_queue", "queue_full"), 3, "{lines:#?}");
    assert_eq!(count("rejected_queue", "queue_timeout"), 2, "{lines:#?}");
    assert_eq!(count("rejected_limit", "key_limit"), 1, "{lines:#?}");
    assert_eq!(up.counts().requests.get(), 1);
}

/// The same in the other dialect, and for a queue in which nobody may wait.
#[tokio::test]
async fn a_59_the_queues_refusals_speak_the_clients_dialect() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).set("pools", "slots", 1).set("routes.queue", "max_length", 0);
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let mut held = sent(&bench, [post(CHAT, &chat("m1", ""))]).await.remove(0);
    up.counts().requests.reached(1).await;
    for members in [r#","max_tokens":1"#, r#","max_tokens":1,"stream":true"#] {
        let answer = bench.ask(&post("/v1/messages", &chat("m1", members))).await;
        let error = answer.json();
        assert_eq!((answer.status(), &error["type"]), (429, &json!("error")), "{error}");
        assert_eq!(error["error"]["type"], json!("rate_limit_error"));
        assert!(answer.head.has("retry-after"));
    }
    gate.open();
    assert_eq!(held.answer().await.status(), 200);
    bench.assert_idle(3).await;
}

#[tokio::test]
async fn a_21_a_client_that_leaves_frees_its_slot_for_the_next() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).set("pools", "slots", 1).key("ann").key_set("max_concurrent", 2);
    let bench = Bench::live(&config, 1).await;
    for (round, stream) in (1..).zip([true, false]) {
        let never = Gate::new();
        up.on_request(move |request| match (request.index % 2, stream) {
            (1, _) => polite(request),
            (_, true) => long_stream(&never),
            (_, false) => vec![Step::Wait(never.clone())],
        });
        let members = if stream { r#","stream":true"# } else { "" };
        let mut leaver = sent(&bench, [ask_as("ann", "u", members)]).await.remove(0);
        up.counts().requests.reached(2 * round - 1).await;
        if stream {
            leaver.head().await;
            leaver.event().await;
        }
        let mut next = sent(&bench, [ask_as("ann", "u", members)]).await.remove(0);
        until(|| bench.waiting() == 1).await;
        assert_eq!(bench.key_usage("ann").concurrent, 2);
        leaver.reset();
        up.counts().gone.reached(round).await;
        assert_eq!(next.answer().await.end, End::Whole);
        let lines = bench.assert_idle(2 * round as usize).await;
        let line = lines.iter().rfind(|l| l["outcome"] == json!("client_gone")).expect("a line");
        assert_line(line, &[("usage_source", json!("estimated")), ("key", json!("ann"))]);
    }
}

#[tokio::test]
async fn a_45_clients_that_leave_before_the_head_leave_no_place_taken() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let both = [&ups[0], &ups[1]];
    let config = Config::new(&both).set("pools", "slots", 50).key("ann").key_set("max_concurrent", 400);
    let bench = Bench::live(&config, 2).await;
    for up in both {
        up.answer_with(vec![Step::Hang]);
    }
    let clients = sent(&bench, (0..300).map(|_| ask_as("ann", "u", ""))).await;
    until(|| bench.waiting() == 200).await;
    assert_eq!(bench.key_usage("ann").concurrent, 300);
    // From the queue's end, from its head, and those that run, all at once and in any order.
    for (i, client) in clients.into_iter().enumerate() {
        match i % 2 {
            0 => client.reset(),
            _ => client.close().await,
        }
    }
    bench.assert_idle(300).await;
    let gate = Gate::new();
    for up in both {
        up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    }
    let mut clients = sent(&bench, (0..100).map(|_| ask_as("ann", "u", ""))).await;
    // In the gateway's books: a replica may still be reading what was sent for a client just as it left.
    until(|| both.iter().all(|up| bench.replica(up).inflight == 50)).await;
    gate.open();
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(400).await;
}
