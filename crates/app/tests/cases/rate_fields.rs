//! What a key is told of its limits: `x-ratelimit-*` on every answer.

use serde_json::json;
use sluicegate_testkit::answers::{answer, chat_answer, chat_json, error_answer};
use sluicegate_testkit::requests::{CHAT, chat, get_as, post_as, post_with};
use sluicegate_testkit::{Answer, Bench, Config, Gate, Head, Step, Upstream, send};

use crate::checks::assert_own_error;
use crate::key_limits::{ask_as, assert_key_limit, is};
use crate::key_turns::many_ends;

/// The six fields, as numbers.
fn told(head: &Head) -> [Option<u64>; 4] {
    ["limit-requests", "remaining-requests", "limit-tokens", "remaining-tokens"]
        .map(|name| head.get(&format!("x-ratelimit-{name}")).and_then(|v| v.parse().ok()))
}

#[track_caller]
fn assert_told(answer: &Answer, requests_left: u64) {
    let [limit, left, tokens, tokens_left] = told(&answer.head);
    let context = format!("{:?}", answer.head);
    assert_eq!((limit, left, tokens), (Some(20), Some(requests_left), Some(50_000)), "{context}");
    assert!(tokens_left.is_some_and(|left| left <= 50_000), "{context}");
    for what in ["requests", "tokens"] {
        let reset = answer.head.get(&format!("x-ratelimit-reset-{what}")).unwrap_or_default();
        assert!(reset.ends_with('s') && reset.starts_with(|c: char| c.is_ascii_digit()), "{context}");
    }
}

#[tokio::test]
async fn every_answer_of_a_limited_key_tells_what_is_left() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.retry", "poison_entries", 0)
        .key("ann")
        .key_set("requests_per_minute", 20)
        .key_set("tokens_per_minute", 50_000)
        .key("free")
        .key_set("max_concurrent", 3);
    let bench = Bench::live(&config, 1).await;
    many_ends(&up);
    let rows = [
        ("good", "", 200),
        ("good", r#","stream":true"#, 200),
        ("400", "", 400),
        ("500", "", 500),
        ("503", "", 503),
        ("429", "", 429),
        ("empty", "", 200),
        ("long", "", 200),
    ];
    for (left, (user, members, status)) in (12..20).rev().zip(rows) {
        let answer = bench.ask(&ask_as("ann", user, members)).await;
        assert_eq!(answer.status(), status, "{user}");
        assert_told(&answer, left);
    }
    // A provider's numbers are about the gateway's credential, not about this key: told once, and our own.
    let fields = [("x-ratelimit-limit-requests", "9999"), ("X-RateLimit-Remaining-Requests", "9998")];
    let body = chat_json("a", 1, 1);
    up.answer_with(vec![send(answer(200, &fields, body.as_bytes()))]);
    assert_told(&bench.ask(&ask_as("ann", "good", "")).await, 11);
    let error = br#"{"error":{"message":"slow down","type":"x","param":null,"code":429}}"#;
    let json = [("content-type", "application/json"), fields[0], fields[1]];
    up.answer_with(vec![send(answer(429, &json, error))]);
    let relayed = bench.ask(&ask_as("ann", "good", "")).await;
    assert_eq!((relayed.status(), relayed.body.as_slice()), (429, &error[..]));
    assert_told(&relayed, 10);
    many_ends(&up);
    for left in (0..10).rev() {
        assert_told(&bench.ask(&ask_as("ann", "good", "")).await, left);
    }
    let refused = bench.ask(&ask_as("ann", "good", "")).await;
    assert!(assert_key_limit(&refused) <= 60);
    assert_told(&refused, 0);
    // Without limits per minute there is nothing to tell.
    let free = bench.ask(&ask_as("free", "good", "")).await;
    assert_eq!((free.status(), told(&free.head)), (200, [None; 4]));
    bench.assert_idle(22).await;
}

/// Refusals that come after the key's limits let the request pass.
#[tokio::test]
async fn refusals_of_the_queue_tell_what_is_left_too() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("pools", "slots", 1)
        .set("routes.queue", "max_length", 1)
        .set("routes.queue", "max_wait", "100ms")
        .key("ann")
        .key_set("requests_per_minute", 20)
        .key_set("tokens_per_minute", 50_000);
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 1, 1))]);
    let mut holder = bench.client().await;
    holder.send(&ask_as("ann", "u", "")).await;
    up.counts().requests.reached(1).await;
    let late = bench.ask(&ask_as("ann", "u", "")).await;
    assert_eq!(assert_own_error(&late, 503)["code"], json!("queue_timeout"));
    assert_told(&late, 18);
    gate.open();
    assert_told(&holder.answer().await, 19);
    bench.assert_idle(2).await;
}

/// Whatever the gateway answers itself, before the key's limits were asked or after; and when to come again, where coming
/// again can help.
#[tokio::test]
async fn refusals_of_every_kind_tell_what_is_left() {
    let ups = [Upstream::start("m1"), Upstream::start("m1")];
    let config = Config::new(&[&ups[0], &ups[1]])
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.timeouts", "total", "1s")
        .key("ann")
        .key_set("requests_per_minute", 20)
        .key_set("tokens_per_minute", 50_000);
    let bench = Bench::live(&config, 2).await;
    for up in &ups {
        up.on_request(|request| match request {
            r if is(r, "fails") => vec![send(error_answer(500, "boom"))],
            r if is(r, "breaks") => vec![Step::Reset],
            r if is(r, "page") => vec![send(answer(503, &[("content-type", "text/html")], b"<html></html>"))],
            _ => vec![Step::Hang],
        });
    }
    let fails = ask_as("ann", "fails", "");
    let bearer = format!("Bearer {}", Config::secret("ann"));
    let coded = [("Authorization", bearer.as_str()), ("Content-Encoding", "snappy")];
    let coded = post_with(CHAT, &coded, &chat("m1", ""));
    let rows: [(&[u8], u16, bool); 10] = [
        (&fails, 500, false),
        (&fails, 422, true),
        (&ask_as("ann", "breaks", ""), 502, true),
        (&ask_as("ann", "page", ""), 503, true),
        (&ask_as("ann", "hang", ""), 504, false),
        (&post_as("ann", CHAT, b"{"), 400, false),
        (&post_as("ann", CHAT, &chat("m9", "")), 404, false),
        (&coded, 415, false),
        (&get_as("ann", "/v1/responses/resp_x"), 404, false),
        (&ask_as("ann", "u", r#","max_tokens":60000"#), 400, false),
    ];
    for (left, (request, status, again)) in (10..20).rev().zip(rows) {
        let answer = bench.ask(request).await;
        assert_eq!(answer.status(), status, "{}", answer.text());
        // One that asks for more than the whole limit is none of the minute.
        assert_told(&answer, if left == 10 { 11 } else { left });
        assert_eq!(answer.head.has("retry-after"), again, "{status}: {:?}", answer.head);
    }
    bench.assert_idle(10).await;
}
