//! A-59: a refusal by the key's own limits needs no body, and reads none.

use serde_json::{Value, json};
use sluicegate_testkit::answers::chat_answer;
use sluicegate_testkit::requests::{CHAT, chat, post_as};
use sluicegate_testkit::{Bench, Config, Gate, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_own_error};
use crate::key_limits::{ask_as, assert_key_limit};

/// What of a request comes first, where the rest of it never comes.
fn beginnings(key: &str) -> Vec<(&'static str, Vec<u8>)> {
    let head = |fields: &str| {
        let secret = Config::secret(key);
        format!("POST {CHAT} HTTP/1.1\r\nHost: g\r\nAuthorization: Bearer {secret}\r\n{fields}\r\n")
            .into_bytes()
    };
    let large = head("Content-Length: 60000000\r\n");
    let part = [&large[..], &chat("m1", "")[..20]].concat();
    vec![
        ("a head", large),
        ("a part of the body", part),
        ("a head that waits to be asked", head("Content-Length: 50\r\nExpect: 100-continue\r\n")),
        ("chunks", head("Transfer-Encoding: chunked\r\n")),
    ]
}

#[tokio::test]
async fn a_59_a_refusal_by_the_keys_limits_needs_no_body() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .key("busy")
        .key_set("max_concurrent", 1)
        .key("often")
        .key_set("requests_per_minute", 1)
        .key("overdrawn")
        .key_set("tokens_per_day", 100);
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 90, 90))]);
    let mut running = Vec::new();
    for key in ["busy", "often", "overdrawn"] {
        let mut client = bench.client().await;
        client.send(&ask_as(key, "u", r#","max_tokens":90"#)).await;
        running.push(client);
    }
    up.counts().requests.reached(3).await;
    let mut held = running.remove(0);
    // One is held; the others have ended, one of them with more tokens than it may use in a day.
    gate.open();
    for client in &mut running {
        assert_eq!(client.answer().await.status(), 200);
    }
    assert_eq!(held.answer().await.status(), 200);
    bench.assert_idle(3).await;
    let door = Gate::new();
    up.answer_with(vec![Step::Wait(door.clone()), send(chat_answer("a", 1, 1))]);
    held.send(&ask_as("busy", "u", "")).await;
    up.counts().requests.reached(4).await;

    let mut lines = 3;
    for key in ["busy", "often", "overdrawn"] {
        let before = bench.key_usage(key);
        for (name, sent) in beginnings(key) {
            let mut client = bench.client().await;
            client.send(&sent).await;
            let answer = client.answer().await;
            assert_key_limit(&answer);
            assert_eq!(answer.head.get("connection"), Some("close"), "{key}: {name}");
            assert!(answer.head.has("x-request-id"), "{key}: {name}");
            let left = answer.head.get("x-ratelimit-remaining-requests");
            assert_eq!(left, (key == "often").then_some("0"), "{key}: {name}");
            lines += 1;
            let line: Value = bench.usage_lines(lines).await.pop().expect("a line");
            assert_line(&line, &[("key", json!(key)), ("outcome", json!("rejected_limit"))]);
            assert_line(&line, &[("bytes_in", json!(0)), ("model", json!(null)), ("attempts", json!(0))]);
        }
        assert_eq!(bench.key_usage(key), before, "{key}: a refusal used something up");
        // One that came whole is read, and its line says what it asked for; its connection goes on.
        let mut client = bench.client().await;
        for _ in 0..2 {
            assert_key_limit(&client.exchange(&ask_as(key, "u", r#","max_tokens":9"#)).await);
            lines += 1;
            let line: Value = bench.usage_lines(lines).await.pop().expect("a line");
            assert_line(&line, &[("model", json!("m1")), ("route", json!("m1"))]);
        }
    }
    door.open();
    assert_eq!(held.answer().await.status(), 200);
    // A body that is waited for is no reason to refuse by itself.
    let request = ask_as("busy", "u", "");
    let (first, rest) = request.split_at(request.len() - 9);
    held.send(first).await;
    until(|| bench.open_requests() == 1).await;
    held.send(rest).await;
    assert_eq!(held.answer().await.status(), 200);
    bench.assert_idle(lines + 2).await;
}

#[tokio::test]
async fn a_59_without_a_used_up_limit_the_body_is_read() {
    let up = Upstream::start("m1");
    let config =
        Config::new(&[&up]).key("ann").key_set("max_concurrent", 1).key_set("requests_per_minute", 3);
    let bench = Bench::live(&config, 1).await;
    let large = chat("m1", &format!(r#","user":"{}""#, "x".repeat(200_000)));
    let mut client = bench.client().await;
    for left in ["2", "1", "0"] {
        let answer = client.exchange(&post_as("ann", CHAT, &large)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.head.get("x-ratelimit-remaining-requests"), Some(left));
    }
    assert_own_error(&client.exchange(&post_as("ann", CHAT, &large)).await, 429);
    bench.assert_idle(4).await;
}
