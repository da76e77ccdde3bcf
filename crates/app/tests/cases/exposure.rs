//! A-65, A-68, A-69: what clients may reach, what they are told, and what their own words become.

use serde_json::{Value, json};
use sluicegate_testkit::answers::{error_answer, json_answer};
use sluicegate_testkit::requests::{CHAT, chat, get_as, post, post_as, post_with};
use sluicegate_testkit::{Answer, Bench, Config, Gate, Step, Upstream, send};

use crate::checks::{assert_line, assert_own_error, requests_at};
use crate::slots_queue::sent;

/// A request with this first line, these further lines and this body.
fn raw(first: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{first}\r\nHost: g\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Requests that are refused whatever the state of the gateway: status and code.
fn refusals() -> Vec<(Vec<u8>, u16, &'static str)> {
    let (good, key) = (chat("m1", ""), format!("x-api-key: {}\r\n", Config::secret("ann")));
    let chat_line = format!("POST {CHAT} HTTP/1.1");
    let with = |fields: &str| raw(&chat_line, &format!("{key}{fields}"), &good);
    let ann = |body: &[u8]| post_as("ann", CHAT, body);
    vec![
        (with("X Y: 1\r\n"), 400, "bad_request_head"),
        (with("Transfer-Encoding: gzip\r\n"), 400, "bad_request_head"),
        (with("Expect: magic\r\n"), 417, "bad_request_head"),
        (with(&format!("X-Long: {}\r\n", "x".repeat(200_000))), 431, "bad_request_head"),
        (raw(&format!("POST {CHAT} HTTP/3.0"), &key, &good), 505, "bad_request_head"),
        (post(CHAT, &good), 401, "missing_api_key"),
        (post_with(CHAT, &[("x-api-key", "k")], &good), 401, "invalid_api_key"),
        (post_as("ann", "/v1/nowhere", &good), 404, "unknown_path"),
        (get_as("ann", CHAT), 405, "method_not_allowed"),
        (get_as("ann", "/v1/models/m9"), 404, "model_not_found"),
        (ann(&chat("m9", "")), 404, "model_not_found"),
        (ann(b""), 400, "invalid_json"),
        (ann(b"{"), 400, "invalid_json"),
        (ann(b"[1]"), 400, "invalid_json"),
        (ann(b"{}"), 400, "invalid_model"),
        (ann(br#"{"model":1}"#), 400, "invalid_model"),
        (ann(br#"{"model":"m1","model":"m1"}"#), 400, "doubled_member"),
        (ann(&chat("m1", r#","max_tokens":999999"#)), 400, "key_limit_too_small"),
        (ann(&chat("m1", &format!(r#","user":"{}""#, "x".repeat(20_000)))), 413, "request_too_large"),
        (with("Content-Encoding: snappy\r\n"), 415, "unsupported_content_encoding"),
        (with("Content-Encoding: gzip\r\n"), 400, "invalid_content_encoding"),
        (with("Content-Type: multipart/form-data; boundary=x\r\n"), 415, "unsupported_media_type"),
    ]
}

#[track_caller]
fn assert_told(answer: &Answer, status: u16, code: &str) {
    let error = assert_own_error(answer, status);
    assert_eq!(error["code"], json!(code), "{error}");
    assert!(answer.head.get("x-request-id").is_some_and(|id| !id.is_empty()), "{:?}", answer.head);
    assert_eq!(answer.head.get("content-length"), Some(answer.body.len().to_string().as_str()));
}

#[tokio::test]
async fn a_65_every_error_of_our_own_has_the_one_shape() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("listen", "max_body", "16KiB")
        .set("pools", "slots", 1)
        .set("pools.health", "eject_after_5xx", 1_000_000)
        .set("routes.queue", "max_length", 0)
        .set("routes.timeouts", "total", "1s")
        .key("ann")
        .key_set("tokens_per_minute", 100_000)
        .key("one")
        .key_set("max_concurrent", 1);
    let bench = Bench::live(&config, 1).await;
    let mut requests = 0;
    for (request, status, code) in refusals() {
        assert_told(&bench.ask(&request).await, status, code);
        requests += 1;
    }
    assert_eq!(up.counts().heads.get(), 0);
    // And those that depend on what goes on.
    let gate = Gate::new();
    up.answer_with(vec![Step::Wait(gate.clone()), send(error_answer(400, "no"))]);
    let mut held = sent(&bench, [post_as("one", CHAT, &chat("m1", ""))]).await.remove(0);
    up.counts().requests.reached(1).await;
    assert_told(&bench.ask(&post_as("one", CHAT, &chat("m1", ""))).await, 429, "key_limit");
    assert_told(&bench.ask(&post_as("ann", CHAT, &chat("m1", ""))).await, 429, "queue_full");
    gate.open();
    held.answer().await;
    let html = b"HTTP/1.1 503 Oops\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>";
    for (script, status, code) in [
        (vec![send(html)], 503, "upstream_error"),
        (vec![Step::Reset], 502, "upstream_error"),
        (vec![Step::Hang], 504, "timeout"),
    ] {
        up.answer_with(script);
        let answer = bench.ask(&post_as("ann", CHAT, &chat("m1", ""))).await;
        assert_told(&answer, status, code);
    }
    let lines = bench.assert_idle(requests + 6).await;
    for line in lines.iter().filter(|l| l["outcome"] != json!("ok")) {
        assert!(line["error_type"].is_string(), "{line}");
    }
}

#[tokio::test]
async fn a_65_both_shapes_of_engine_errors_are_relayed_and_read() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up]).set("pools.health", "eject_after_5xx", 1_000_000).set(
        "routes.retry",
        "poison_entries",
        0,
    );
    let bench = Bench::live(&config, 1).await;
    let bodies = [
        r#"{"error":{"message":"too long","type":"BadRequestError","param":null,"code":400}}"#,
        r#"{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}"#,
    ];
    let mut count = 0;
    for status in [400, 422, 429, 500, 503] {
        for body in bodies {
            up.answer_with(vec![send(json_answer(status, body))]);
            for members in ["", r#","stream":true"#] {
                let answer = bench.ask(&post(CHAT, &chat("m1", members))).await;
                assert_eq!((answer.status(), answer.text().as_str()), (status, body));
                assert!(answer.head.has("x-request-id"));
                count += 1;
                let line = bench.assert_idle(count).await.pop().expect("a line");
                assert_line(&line, &[("error_type", json!("BadRequestError")), ("status", json!(status))]);
            }
        }
    }
}

/// Paths of engines, and of this gateway's own admin side, that no client may reach.
const CLOSED: [&str; 44] = [
    "/invocations",
    "/sleep",
    "/sleep?level=1",
    "/wake_up",
    "/is_sleeping",
    "/collective_rpc",
    "/reset_prefix_cache",
    "/reset_mm_cache",
    "/metrics",
    "/load",
    "/health",
    "/ping",
    "/version",
    "/server_info",
    "/start_profile",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
    "/scale_elastic_ep",
    "/get_server_info",
    "/flush_cache",
    "/generate",
    "/slots",
    "/props",
    "/docs",
    "/openapi.json",
    "/api/state",
    "/api/reload",
    "/healthz",
    "/readyz",
    "/",
    "//sleep",
    "/v1/../sleep",
    "/v1/chat/completions/../../../sleep",
    "/v1/chat/completions/..;/sleep",
    "/%73leep",
    "/v1/%2e%2e/metrics",
    "/v1/models/../../metrics",
    "/v1/chat%2fcompletions",
    "/v1/chat/completions%2f..%2f..%2f..%2fsleep",
    "/v1/chat/completions/",
    "/V1/chat/completions",
    "/v1/chat\\completions",
    "/v1/audio/../../sleep",
    "/v1/images/.%2e/../sleep",
];

#[tokio::test]
async fn a_68_what_is_not_in_the_table_is_not_there() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    let probes = || up.counts().heads.get();
    let key = format!("x-api-key: {}\r\n", Config::secret("ann"));
    let mut requests = 0;
    for path in CLOSED {
        for method in ["GET", "POST", "PUT", "DELETE", "OPTIONS"] {
            for fields in [key.as_str(), ""] {
                let answer =
                    bench.ask(&raw(&format!("{method} {path} HTTP/1.1"), fields, &chat("m1", ""))).await;
                // A backslash may stand in no target at all.
                let status = if path.contains('\\') { 400 } else { 404 };
                assert_eq!(answer.status(), status, "{method} {path}: {}", answer.text());
                requests += 1;
            }
        }
    }
    // In absolute form too, whatever the host.
    for target in ["http://gateway/sleep", "http://127.0.0.1:1/metrics", "gateway:80", "*"] {
        let answer = bench.ask(&raw(&format!("POST {target} HTTP/1.1"), &key, &chat("m1", ""))).await;
        assert!(matches!(answer.status(), 400 | 404), "{target}: {}", answer.status());
        requests += 1;
    }
    assert_eq!(probes(), 0, "a request reached the replica");
    // What is there is there in any spelling that means the same, and goes on in the plain one.
    for path in ["/v1/chat/completions", "//v1//chat/completions", "/v1/x/../%63hat/completions"] {
        assert_eq!(bench.ask(&post_as("ann", path, &chat("m1", ""))).await.status(), 200, "{path}");
        assert_eq!(up.received().pop().expect("a request").head.target(), CHAT);
        requests += 1;
    }
    bench.assert_idle(requests).await;
}

/// Names of models as clients make them up, in JSON.
fn odd_names() -> Vec<String> {
    let mut names = vec![
        r#"m1\n{\"outcome\":\"ok\"}"#.to_owned(),
        r"m1\r\n\r\nHTTP/1.1 200 OK".to_owned(),
        r"\u001b[31mm1\u001b[0m".to_owned(),
        r"m1\u0000".to_owned(),
        r#"m1\",route=\"m1"#.to_owned(),
        r"m1\u2028\u2029\u0085".to_owned(),
        "汉".repeat(400),
        "x".repeat(1 << 20),
        "A whole prompt, pasted into the wrong field. ".repeat(2000),
    ];
    names.extend((0..200).map(|i| format!("made-up-{i}")));
    names
}

#[tokio::test]
async fn a_69_a_clients_words_forge_no_line_and_become_no_label() {
    let up = Upstream::start("m1");
    let bench = Bench::live(&Config::new(&[&up]).key("ann"), 1).await;
    let names = odd_names();
    // One of the usual refusals, so that its series are there.
    assert_eq!(bench.ask(&post_as("ann", CHAT, &chat("usual", ""))).await.status(), 404);
    bench.assert_idle(1).await;
    let series = |page: &str| page.lines().filter(|l| !l.starts_with('#')).count();
    let before = series(&bench.admin("/metrics").await.text());
    let mut client = bench.client().await;
    for (n, name) in names.iter().enumerate() {
        let answer = client.exchange(&post_as("ann", CHAT, &chat(name, ""))).await;
        let error = assert_own_error(&answer, 404);
        assert!(answer.body.len() < 2048, "{} bytes", answer.body.len());
        let message = error["message"].as_str().expect("a message");
        assert!(!message.contains(char::is_control), "{message:?}");
        let line = bench.assert_idle(n + 2).await.pop().expect("a line");
        assert!(line["model"].as_str().is_some_and(|m| m.len() <= 256), "{line}");
        assert_line(&line, &[("route", json!(null)), ("outcome", json!("client_error"))]);
    }
    let page = bench.admin("/metrics").await.text();
    assert_eq!(series(&page), before, "{page}");
    for made_up in ["made-up", "\u{1b}", "outcome\\\"", "pasted"] {
        assert!(!page.contains(made_up), "{made_up:?} in the metrics");
    }
    assert_eq!(requests_at(&[&up]), 0);
}

#[tokio::test]
async fn a_69_long_ids_are_bounded_wherever_they_go() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let long = "i".repeat(10_000);
    let rows: [(&[(&str, &str)], bool); 5] = [
        (&[("x-request-id", "client-7")], true),
        (&[("x-request-id", &long)], false),
        (&[("x-request-id", "a b\t\"c\"")], false),
        (&[("x-session-id", &long), ("x-conversation-id", &long)], false),
        (&[("x-request-id", "")], false),
    ];
    for (n, (fields, kept)) in rows.into_iter().enumerate() {
        let answer = bench.ask(&post_with(CHAT, fields, &chat("m1", ""))).await;
        assert_eq!(answer.status(), 200);
        let line: Value = bench.assert_idle(n + 1).await.pop().expect("a line");
        let id = line["request_id"].as_str().expect("an id");
        assert_eq!(answer.head.get("x-request-id"), Some(id));
        assert_eq!(up.received().pop().expect("a request").head.get("x-request-id"), Some(id));
        assert!((1..=256).contains(&id.len()), "{} bytes", id.len());
        assert_eq!(id == "client-7", kept, "{id}");
        assert!(line.to_string().len() < 3000, "{line}");
    }
}
