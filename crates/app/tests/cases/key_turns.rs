//! A-58: the next request of a key finds the limits as the one before has left them; and budgets in money.

use serde_json::json;
use sluicegate_testkit::answers::{
    DONE, LAST_CHUNK, answer, chat_answer, chunk, error_answer, open_stream, polite, text_event,
};
use sluicegate_testkit::requests::{chat, post_as};
use sluicegate_testkit::{Bench, Config, End, Gate, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_own_error};
use crate::key_limits::{ask_as, assert_key_limit, is};

/// A replica that ends requests in several ways, each of which the client sees whole.
pub(crate) fn many_ends(up: &Upstream) {
    up.on_request(|request| match request {
        r if is(r, "400") => vec![send(error_answer(400, "no"))],
        r if is(r, "500") => vec![send(error_answer(500, "oops"))],
        r if is(r, "503") => vec![send(error_answer(503, "busy"))],
        r if is(r, "429") => vec![send(error_answer(429, "slow"))],
        r if is(r, "empty") => vec![send(answer(200, &[], b""))],
        r if is(r, "long") => vec![send(chat_answer(&"x".repeat(300_000), 1, 1))],
        r => polite(r),
    });
}

/// One after the other, each as soon as the one before is whole.
#[tokio::test]
async fn a_58_back_to_back_requests_never_meet_their_own_limit() {
    let up = Upstream::start("m1");
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("file:{}", folder.path().join("usage.jsonl").display());
    let config = Config::new(&[&up])
        .set("usage", "output", file.as_str())
        .set("pools", "slots", 1)
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.retry", "poison_entries", 0)
        .set("routes.queue", "max_length", 0)
        .key("ann")
        .key_set("max_concurrent", 1);
    let bench = Bench::live(&config, 1).await;
    many_ends(&up);
    let rows = [
        ("good", "", 200),
        ("good", r#","stream":true"#, 200),
        ("400", "", 400),
        ("long", "", 200),
        ("500", "", 500),
        ("429", "", 429),
        ("empty", "", 200),
        ("503", "", 503),
    ];
    let mut sent = 0;
    // On one connection, then in turn on several, which other threads of the gateway serve.
    for connections in [1, 4] {
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(bench.client().await);
        }
        for i in 0..500 {
            let (user, members, status) = if connections == 1 { rows[i % 2] } else { rows[i % rows.len()] };
            let answer = clients[i % connections].exchange(&ask_as("ann", user, members)).await;
            assert_eq!((answer.status(), answer.end), (status, End::Whole), "request {i}: {}", answer.text());
            assert!(status != 429 || !answer.text().contains("key_limit"), "request {i}: {}", answer.text());
            sent += 1;
        }
    }
    bench.assert_idle(sent).await;
}

/// Clients stop reading at the stream's own end; engines write the end of the framing after it.
#[tokio::test]
async fn a_58_a_key_is_free_at_the_streams_own_end() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).key("ann").key_set("max_concurrent", 1);
    let bench = Bench::live(&config, 1).await;
    let (seen, gate) = (Gate::new(), Gate::new());
    let gates = (seen.clone(), gate.clone());
    up.on_request(move |request| match request {
        r if is(r, "held") => {
            let mut script = open_stream(&[text_event("a")]);
            // A read of its own: not what was held back with the head.
            script.extend([Step::Wait(gates.0.clone()), send(chunk(DONE))]);
            script.extend([Step::Wait(gates.1.clone()), send(LAST_CHUNK)]);
            script
        }
        r => polite(r),
    });
    let mut client = bench.client().await;
    client.send(&ask_as("ann", "held", r#","stream":true"#)).await;
    client.head().await;
    client.event().await;
    seen.open();
    assert_eq!(client.event().await, DONE);
    let next = bench.ask(&ask_as("ann", "good", "")).await;
    assert_eq!(next.status(), 200, "{}", next.text());
    gate.open();
    assert_eq!(client.rest().await.1, End::Whole);
    bench.assert_idle(2).await;
}

#[tokio::test]
async fn budgets_in_money_are_settled_with_the_true_price() {
    let up = Upstream::start("m1");
    // Per million: a prompt token 0.001, a cached one 0.0005, a generated one 0.002.
    let config = Config::new(&[&up])
        .set("routes.price", "prompt", 1000.0)
        .set("routes.price", "cached", 500.0)
        .set("routes.price", "completion", 2000.0)
        .key("ann")
        .key_set("cost_per_day", 0.5)
        .key("bob")
        .key_set("cost_per_month", 0.5);
    let bench = Bench::live(&config, 1).await;
    // 17 + 3 cached + 30: 0.017 + 0.0015 + 0.06.
    up.answer_with(vec![send(chat_answer("a", 20, 30))]);
    for key in ["ann", "bob"] {
        for n in 1..=4 {
            assert_eq!(bench.ask(&ask_as(key, "u", r#","max_tokens":50"#)).await.status(), 200);
            until(|| bench.key_usage(key).day.cost.0 == n * 78_500).await;
        }
        // 0.314 used, 0.1 and a prompt reserved: one more, and then none.
        assert_eq!(bench.ask(&ask_as(key, "u", r#","max_tokens":50"#)).await.status(), 200);
        let after = assert_key_limit(&bench.ask(&ask_as(key, "u", r#","max_tokens":60"#)).await);
        assert!(after <= if key == "ann" { 86_400 } else { 31 * 86_400 }, "{after}");
        // A smaller request still passes: the limit is checked against what is asked for.
        assert_eq!(bench.ask(&ask_as(key, "u", r#","max_tokens":20"#)).await.status(), 200);
        let error = assert_own_error(&bench.ask(&ask_as(key, "u", r#","max_tokens":300"#)).await, 400);
        assert_eq!(error["code"], json!("key_limit_too_small"));
    }
    let lines = bench.assert_idle(16).await;
    for line in lines.iter().filter(|l| l["outcome"] == json!("ok")) {
        assert_eq!(line["cost"].as_f64(), Some(0.0785), "{line}");
        assert_line(line, &[("prompt_tokens", json!(20)), ("cached_tokens", json!(3))]);
    }
    assert!(
        bench.ask(&post_as("ann", "/tokenize", &chat("m1", ""))).await.status() == 200,
        "costs next to nothing"
    );
}
