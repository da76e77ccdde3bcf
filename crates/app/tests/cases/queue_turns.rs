//! G16, and priority classes: whose turn it is when a slot comes free. Time is counted in answers: one slot, and each
//! answer waits for a gate of its own.

use std::sync::{Arc, Mutex};

use serde_json::json;
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::{Bench, Config, Gate, RawClient, Step, Upstream, send, until};

use crate::checks::assert_line;
use crate::key_limits::ask_as;
use crate::slots_queue::sent;

/// A replica whose answers come one by one, when they are let go.
struct Turns {
    up: Upstream,
    gates: Arc<Mutex<Vec<Gate>>>,
}

impl Turns {
    fn new(prompt_tokens: u64, completion_tokens: u64) -> Self {
        let (up, gates) = (Upstream::start("m1"), Arc::new(Mutex::new(Vec::new())));
        let all = Arc::clone(&gates);
        up.on_request(move |_| {
            let gate = Gate::new();
            all.lock().expect("no panic before").push(gate.clone());
            vec![Step::Wait(gate), send(chat_answer("a", prompt_tokens, completion_tokens))]
        });
        Self { up, gates }
    }

    /// Lets request number `n` end and waits until the next one has arrived. Returns whose it is.
    async fn next(&self, n: usize) -> String {
        self.gates.lock().expect("no panic before")[n].open();
        self.up.counts().requests.reached(n as u64 + 2).await;
        self.user(n + 1)
    }

    fn user(&self, n: usize) -> String {
        self.up.received()[n].json()["user"].as_str().expect("a user").to_owned()
    }

    fn end(&self, n: usize) {
        self.gates.lock().expect("no panic before")[n].open();
    }
}

/// One more waiting request of `key`, named `user`.
async fn one_more(bench: &Bench, key: &str, user: &str, members: &str) -> RawClient {
    let before = bench.waiting();
    let client = sent(bench, [ask_as(key, user, members)]).await.remove(0);
    until(|| bench.waiting() == before + 1).await;
    client
}

#[tokio::test]
async fn g16_a_key_that_asks_rarely_does_not_wait_behind_one_that_floods() {
    // The flooding key's requests cost as much as the other's, less, and much more than they announce.
    for (prompt, completion, members) in
        [(20, 20, r#","max_tokens":20"#), (1, 1, ""), (20, 900, r#","max_tokens":1"#)]
    {
        let turns = Turns::new(prompt, completion);
        let config = Config::new(&[&turns.up]).set("pools", "slots", 1).key("flood").key("rare");
        let bench = Bench::live(&config, 1).await;
        let mut clients = sent(&bench, [ask_as("flood", "flood", members)]).await;
        turns.up.counts().requests.reached(1).await;
        for _ in 0..10 {
            clients.push(one_more(&bench, "flood", "flood", members).await);
        }
        let mut n = 0;
        // One request of the rare key to three answers: alone it would wait for the running one at most.
        for round in 0..30 {
            clients.push(one_more(&bench, "rare", "rare", members).await);
            assert_eq!(turns.next(n).await, "rare", "round {round}: it waits for a second answer");
            assert_eq!(turns.next(n + 1).await, "flood", "round {round}");
            n += 2;
            assert_eq!(turns.next(n).await, "flood");
            n += 1;
            for _ in 0..2 {
                clients.push(one_more(&bench, "flood", "flood", members).await);
            }
        }
        // Whoever floods is served all the same, in the order of arrival.
        for n in n..clients.len() {
            turns.end(n);
            turns.up.counts().requests.reached((n as u64 + 2).min(clients.len() as u64)).await;
        }
        for client in &mut clients {
            assert_eq!(client.answer().await.status(), 200);
        }
        bench.assert_idle(clients.len()).await;
    }
}

/// A key that has not asked for a while cannot spend what it has saved.
#[tokio::test]
async fn g16_an_idle_key_saves_nothing_up() {
    let turns = Turns::new(20, 20);
    let config = Config::new(&[&turns.up]).set("pools", "slots", 1).key("busy").key("late");
    let bench = Bench::live(&config, 1).await;
    let mut clients = sent(&bench, [ask_as("busy", "busy", "")]).await;
    turns.up.counts().requests.reached(1).await;
    for n in 0..20 {
        clients.push(one_more(&bench, "busy", "busy", "").await);
        assert_eq!(turns.next(n).await, "busy");
    }
    for _ in 0..8 {
        clients.push(one_more(&bench, "busy", "busy", "").await);
        clients.push(one_more(&bench, "late", "late", "").await);
    }
    let mut order = Vec::new();
    for n in 20..36 {
        order.push(turns.next(n).await);
    }
    // In any stretch of four both have had their part.
    for four in order.windows(4) {
        assert!(four.iter().any(|u| u == "busy") && four.iter().any(|u| u == "late"), "{order:?}");
    }
    turns.end(36);
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(clients.len()).await;
}

#[tokio::test]
async fn a_higher_class_goes_first_whatever_waits_below() {
    let turns = Turns::new(20, 20);
    let mut config = Config::new(&[&turns.up]).set("pools", "slots", 1);
    for (name, priority) in [("low", -5), ("usual", 0), ("high", 7)] {
        config = config.key(name).key_set("priority", priority);
    }
    let bench = Bench::live(&config, 1).await;
    let mut clients = sent(&bench, [ask_as("low", "first", "")]).await;
    turns.up.counts().requests.reached(1).await;
    for (key, user) in
        [("low", "l1"), ("low", "l2"), ("usual", "u1"), ("high", "h1"), ("usual", "u2"), ("high", "h2")]
    {
        clients.push(one_more(&bench, key, user, "").await);
    }
    let mut order = Vec::new();
    for n in 0..3 {
        order.push(turns.next(n).await);
    }
    // One that comes later passes those that wait below.
    clients.push(one_more(&bench, "high", "h3", "").await);
    for n in 3..7 {
        order.push(turns.next(n).await);
    }
    assert_eq!(order, ["h1", "h2", "u1", "h3", "u2", "l1", "l2"]);
    turns.end(7);
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    for line in bench.assert_idle(8).await {
        assert_line(&line, &[("outcome", json!("ok"))]);
    }
}
