//! A-53 to A-56: a key's limits are one step, give back what they took, and guard every path.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{
    STREAM_HEAD, chat_answer, chunk, error_answer, json_answer, open_stream, role_event,
};
use sluicegate_testkit::requests::{CHAT, chat, get_as, post_as};
use sluicegate_testkit::{Answer, Bench, Config, Gate, Received, Step, Upstream, send, until};

use crate::checks::{assert_line, assert_own_error};

pub(crate) fn is(request: &Received, user: &str) -> bool {
    request.text().contains(&format!(r#""user":"{user}""#))
}

/// A chat of `key` whose `user` tells the script what to do.
pub(crate) fn ask_as(key: &str, user: &str, members: &str) -> Vec<u8> {
    post_as(key, CHAT, &chat("m1", &format!(r#","user":"{user}"{members}"#)))
}

/// Asserts a refusal by the key's limits, and returns its `Retry-After`.
#[track_caller]
pub(crate) fn assert_key_limit(answer: &Answer) -> u64 {
    let error = assert_own_error(answer, 429);
    assert_eq!((&error["code"], &error["type"]), (&json!("key_limit"), &json!("rate_limit_error")));
    let after: u64 =
        answer.head.get("retry-after").and_then(|s| s.parse().ok()).expect("Retry-After in seconds");
    assert!(after >= 1);
    after
}

/// One slot, two places of `ann`, and a replica that ends requests as their `user` says; `held` waits for the gate.
async fn two_places() -> (Upstream, Bench, Gate) {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("pools", "slots", 1)
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.timeouts", "stream_silence", "50ms")
        .set("routes.retry", "poison_entries", 0)
        .key("ann")
        .key_set("max_concurrent", 2)
        .key("bob");
    let bench = Bench::live(&config, 1).await;
    let hold = Gate::new();
    let held = hold.clone();
    up.on_request(move |request| match request {
        r if is(r, "silent") => [open_stream(&[role_event()]), vec![Step::Hang]].concat(),
        r if is(r, "502") => vec![send(error_answer(502, "bad gateway"))],
        r if is(r, "reset") => vec![Step::Reset],
        r if is(r, "cut") => vec![send(STREAM_HEAD), send(chunk(&role_event())), Step::Reset],
        r if is(r, "held") => vec![Step::Wait(held.clone()), send(chat_answer("a", 1, 1))],
        r if is(r, "hang") => vec![Step::Hang],
        _ => vec![send(chat_answer("a", 1, 1))],
    });
    (up, bench, hold)
}

/// Ends that once kept a key's place; 20 requests of each, then a good one.
#[tokio::test]
async fn a_53_a_keys_place_comes_back_from_every_answered_end() {
    let (_up, bench, _hold) = two_places().await;
    let stream = r#","stream":true"#;
    let answered: [(&str, Vec<u8>, u16); 6] = [
        ("timeout", ask_as("ann", "silent", stream), 200),
        ("502", ask_as("ann", "502", ""), 502),
        ("reset", ask_as("ann", "reset", ""), 502),
        ("cut stream", ask_as("ann", "cut", stream), 200),
        ("unknown model", post_as("ann", CHAT, &chat("m9", "")), 404),
        ("invalid JSON", post_as("ann", CHAT, b"{\"model\":\"m1\","), 400),
    ];
    let mut requests = 0;
    for (name, request, status) in &answered {
        for _ in 0..20 {
            assert_eq!(bench.ask(request).await.status(), *status, "{name}");
        }
        assert_eq!(bench.ask(&ask_as("ann", "good", "")).await.status(), 200, "after {name}");
        requests += 21;
        bench.assert_idle(requests).await;
    }
    assert_eq!(bench.metric(r#"sluicegate_key_concurrent{key="ann"}"#).await, 0.0);
}

#[tokio::test]
async fn a_53_a_keys_place_comes_back_from_clients_that_leave() {
    let (up, bench, hold) = two_places().await;
    let good = ask_as("ann", "good", "");
    // In mid-stream, and before the head.
    for (user, members) in [("silent", r#","stream":true"#), ("hang", "")] {
        for _ in 0..20 {
            let seen = up.counts().requests.get();
            let mut client = bench.client().await;
            client.send(&ask_as("ann", user, members)).await;
            up.counts().requests.reached(seen + 1).await;
            client.reset();
            until(|| bench.key_usage("ann").concurrent == 0).await;
        }
        assert_eq!(bench.ask(&good).await.status(), 200, "after {user} and a client that left");
    }
    // From the queue, while another key holds the only slot.
    let mut holder = bench.client().await;
    holder.send(&ask_as("bob", "held", "")).await;
    up.counts().open.reached(1).await;
    for _ in 0..20 {
        let mut client = bench.client().await;
        client.send(&good).await;
        until(|| bench.waiting() == 1).await;
        assert_eq!(bench.key_usage("ann").concurrent, 1, "who waits counts");
        client.close().await;
        until(|| bench.key_usage("ann").concurrent == 0).await;
    }
    hold.open();
    assert_eq!(holder.answer().await.status(), 200);
    assert_eq!(bench.ask(&good).await.status(), 200);
    bench.assert_idle(2 * 21 + 22).await;
}

#[tokio::test]
async fn a_54_a_refusal_by_one_limit_uses_up_no_other() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .key("ann")
        .key_set("max_concurrent", 1)
        .key_set("requests_per_minute", 2)
        .key_set("tokens_per_minute", 1_000_000);
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 10, 5))]);
    let mut a = bench.client().await;
    a.send(&ask_as("ann", "a", "")).await;
    up.counts().requests.reached(1).await;
    let before = bench.key_usage("ann");
    assert_eq!((before.concurrent, before.requests_minute), (1, 1));
    for _ in 0..5 {
        assert_eq!(
            assert_key_limit(&bench.ask(&ask_as("ann", "b", "")).await),
            1,
            "nobody knows when A ends"
        );
        assert_eq!(bench.key_usage("ann"), before, "a refusal used something up");
    }
    gate.open();
    assert_eq!(a.answer().await.status(), 200);
    let after = bench.key_usage("ann");
    assert_eq!((after.concurrent, after.requests_minute, after.tokens_minute), (0, 1, 15));
    // More tokens than the key's whole limit: no answer would ever come of waiting.
    let error = assert_own_error(&bench.ask(&ask_as("ann", "t", r#","max_tokens":1000001"#)).await, 400);
    assert_eq!(error["code"], json!("key_limit_too_small"));
    assert_eq!(bench.key_usage("ann"), after);
    assert_eq!(bench.ask(&ask_as("ann", "c", "")).await.status(), 200, "C in the same minute");
    let after = assert_key_limit(&bench.ask(&ask_as("ann", "d", "")).await);
    assert!((2..=60).contains(&after), "{after} s until the minute has room");
    let lines = bench.assert_idle(9).await;
    let limited: Vec<&Value> = lines.iter().filter(|l| l["outcome"] == json!("rejected_limit")).collect();
    assert_eq!(limited.len(), 7, "{lines:#?}");
    for line in limited {
        assert_line(
            line,
            &[("attempts", json!(0)), ("replica", json!(null)), ("usage_source", json!("none"))],
        );
    }
}

/// Or else a key could send any number of them.
#[tokio::test]
async fn a_54_what_is_refused_before_the_limits_is_a_request_of_the_minute_and_nothing_else() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("listen", "max_body", "8KiB")
        .key("ann")
        .key_set("requests_per_minute", 6)
        .key_set("tokens_per_minute", 1_000_000)
        .key("free");
    let bench = Bench::live(&config, 1).await;
    let huge = chat("m1", &format!(r#","user":"{}""#, "x".repeat(9000)));
    let rows: [(&[u8], u16); 5] =
        [(b"{", 400), (b"", 400), (br#"{"model":"m9"}"#, 404), (br#"{"model":7}"#, 400), (&huge, 413)];
    for (n, (body, status)) in rows.iter().enumerate() {
        let answer = bench.ask(&post_as("ann", CHAT, body)).await;
        assert_eq!(answer.status(), *status);
        let left = (5 - n).to_string();
        assert_eq!(answer.head.get("x-ratelimit-remaining-requests"), Some(left.as_str()));
        let used = bench.key_usage("ann");
        assert_eq!((used.concurrent, used.requests_minute, used.tokens_minute), (0, n as u64 + 1, 0));
    }
    // What is looked up without limits does not count, whatever its answer.
    for path in ["/v1/models", "/v1/models/m9"] {
        assert!(bench.ask(&get_as("ann", path)).await.status() < 429, "{path}");
    }
    assert_eq!(bench.ask(&ask_as("ann", "good", "")).await.status(), 200);
    let full = bench.key_usage("ann");
    for (body, _) in rows {
        assert_key_limit(&bench.ask(&post_as("ann", CHAT, body)).await);
    }
    assert_eq!(bench.key_usage("ann"), full, "a refusal used something up");
    for _ in 0..10 {
        assert_eq!(bench.ask(&post_as("free", CHAT, b"{")).await.status(), 400, "no limit, no refusal by it");
    }
    bench.assert_idle(23).await;
}

/// Five requests at once with `max_tokens` 175, of which the replica counts 150 each.
async fn five_at_once(tokens_per_minute: i64) -> (Bench, Vec<u16>) {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).key("ann").key_set("tokens_per_minute", tokens_per_minute);
    let bench = Bench::live(&config, 1).await;
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 20, 130))]);
    let mut clients = Vec::new();
    for _ in 0..5 {
        let mut client = bench.client().await;
        client.send(&ask_as("ann", "u", r#","max_tokens":175"#)).await;
        clients.push(client);
    }
    until(|| up.counts().requests.get() as usize + bench.usage_count() == 5).await;
    gate.open();
    let mut statuses = Vec::new();
    for mut client in clients {
        statuses.push(client.answer().await.status());
    }
    statuses.sort_unstable();
    // The first ones have been settled: what is left is what the replica did not use.
    let passed = statuses.iter().filter(|status| **status == 200).count() as u64;
    bench.assert_idle(5).await;
    assert_eq!(bench.key_usage("ann").tokens_minute, passed * 150);
    let next = bench.ask(&ask_as("ann", "u", r#","max_tokens":175"#)).await.status();
    assert_eq!(up.counts().requests.get(), passed + u64::from(next == 200));
    statuses.push(next);
    (bench, statuses)
}

#[tokio::test]
async fn a_55_tokens_are_reserved_before_and_settled_after() {
    // A prompt of two bytes is less than a token, so each reserves 175.
    for (limit, expected) in [
        (100, [400, 400, 400, 400, 400, 400]),
        (175, [200, 429, 429, 429, 429, 429]),
        (500, [200, 200, 429, 429, 429, 200]),
        (600, [200, 200, 200, 429, 429, 429]),
        (1000, [200, 200, 200, 200, 200, 200]),
    ] {
        let (bench, statuses) = five_at_once(limit).await;
        assert_eq!(statuses, expected, "with {limit} tokens a minute");
        bench.assert_idle(6).await;
    }
}

/// Output is reserved per choice, and without a stated maximum there is a usual one.
#[tokio::test]
async fn a_55_the_reservation_counts_choices_and_unstated_maxima() {
    let up = Upstream::start("m1");
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(chat_answer("a", 20, 130))]);
    let bench = Bench::live(&Config::new(&[&up]).key("ann").key_set("tokens_per_day", 100_000), 1).await;
    let mut clients = Vec::new();
    let mut reserved = 0;
    for (members, output) in [
        ("", 1024),
        (r#","max_tokens":100"#, 100),
        (r#","max_completion_tokens":100"#, 100),
        (r#","n":3,"max_tokens":100"#, 300),
        (r#","n":2"#, 2048),
    ] {
        let before = bench.key_usage("ann").day.tokens;
        let mut client = bench.client().await;
        client.send(&ask_as("ann", "u", members)).await;
        up.counts().requests.reached(clients.len() as u64 + 1).await;
        clients.push(client);
        let prompt = bench.key_usage("ann").day.tokens - before - output;
        assert!((0..20).contains(&prompt), "{members}: {prompt} tokens beyond its output");
        reserved += prompt + output;
    }
    assert_eq!(bench.key_usage("ann").day.tokens, reserved);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.answer().await.status(), 200);
    }
    bench.assert_idle(5).await;
    assert_eq!(bench.key_usage("ann").day.tokens, 5 * 150);
    assert_eq!(bench.key_usage("ann").month.tokens, 5 * 150);
}

const PATHS: [&str; 18] = [
    CHAT,
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/tokenize",
    "/detokenize",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/rerank",
    "/rerank",
    "/v1/score",
    "/score",
    "/v1/classify",
    "/classify",
    "/v1/pooling",
    "/pooling",
    "/v1/audio/speech",
    "/v1/images/generations",
];

#[tokio::test]
async fn a_56_every_path_is_limited_and_recorded() {
    let up = Upstream::start("m1");
    let mut config = Config::new(&[&up]).key("all").key_set("requests_per_minute", 3);
    for i in 0..PATHS.len() {
        config = config.key(&format!("k{i}")).key_set("requests_per_minute", 3);
    }
    let bench = Bench::live(&config, 1).await;
    let body = chat("m1", r#","input":"a","prompt":"a","max_tokens":4"#);
    let mut requests = 0;
    for (i, path) in PATHS.iter().enumerate() {
        let mut client = bench.client().await;
        for n in 0..10 {
            let answer = client.exchange(&post_as(&format!("k{i}"), path, &body)).await;
            assert_eq!(
                answer.status(),
                if n < 3 { 200 } else { 429 },
                "{path}, request {n}: {}",
                answer.text()
            );
            requests += 1;
        }
    }
    // One budget over all paths.
    for (n, path) in PATHS.iter().enumerate() {
        let status = bench.ask(&post_as("all", path, &body)).await.status();
        assert_eq!(status, if n < 3 { 200 } else { 429 }, "{path}");
        requests += 1;
    }
    // A path that is not offered is no request of the key's.
    for path in ["/v1/nowhere", "/v1/chat", "/v2/chat/completions"] {
        assert_own_error(&bench.ask(&post_as("all", path, &body)).await, 404);
        requests += 1;
    }
    assert_eq!(bench.key_usage("all").requests_minute, 3);
    assert_eq!(up.counts().requests.get(), 3 * (PATHS.len() as u64 + 1));
    let lines = bench.assert_idle(requests).await;
    for (i, path) in PATHS.iter().enumerate() {
        let of_key: Vec<_> = lines.iter().filter(|l| l["key"] == json!(format!("k{i}"))).collect();
        assert_eq!(of_key.len(), 10, "{path}");
        for line in of_key {
            assert_line(line, &[("route", json!("m1")), ("model", json!("m1"))]);
            assert!(line["endpoint"].is_string(), "{line}");
        }
    }
}

/// Requests about a stored response as well: they have no body and take no slot, and are requests all the same.
#[tokio::test]
async fn a_56_requests_about_stored_responses_are_limited_and_recorded() {
    let up = Upstream::start("m1");
    let response = |id: &str| json_answer(200, &format!(r#"{{"id":"{id}","object":"response"}}"#));
    up.answer_with(vec![send(response("resp_1"))]);
    for (method, tail) in [("GET", ""), ("DELETE", ""), ("POST", "/cancel")] {
        let config = Config::new(&[&up]).key("ann").key_set("requests_per_minute", 3);
        let bench = Bench::live(&config, 1).await;
        let made = bench.ask(&post_as("ann", "/v1/responses", br#"{"model":"m1","input":"a"}"#)).await;
        assert_eq!(made.status(), 200, "{}", made.text());
        let seen = up.counts().requests.get();
        let request = get_as("ann", &format!("/v1/responses/resp_1{tail}"));
        let request = [method.as_bytes(), &request[3..]].concat();
        for n in 0..4 {
            let answer = bench.ask(&request).await;
            assert_eq!(answer.status(), if n < 2 { 200 } else { 429 }, "{method} {n}: {}", answer.text());
            let left = if n < 1 { "1" } else { "0" };
            assert_eq!(answer.head.get("x-ratelimit-remaining-requests"), Some(left), "{method} {n}");
        }
        assert_eq!(up.counts().requests.get(), seen + 2, "{method}");
        let lines = bench.assert_idle(5).await;
        let limited = lines.iter().filter(|l| l["outcome"] == json!("rejected_limit")).count();
        assert_eq!(limited, 2, "{method}: {lines:#?}");
        assert!(lines.iter().all(|l| l["key"] == json!("ann") && l["route"] == json!("m1")), "{lines:#?}");
    }
}
