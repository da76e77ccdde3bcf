//! A-02, A-03, A-04: one reading of `model`, the top-level one, or a refusal that names it.

use serde_json::{Value, json};
use sluicegate_testkit::requests::{CHAT, post};
use sluicegate_testkit::{Bench, Config, Upstream};

use crate::checks::{assert_line, assert_own_error, requests_at};

/// Bodies whose only real model is m1; `m2` and `m3` are routes as well.
const LOOK_ALIKES: [&str; 8] = [
    r#"{"tools":[{"type":"function","function":{"name":"spawn","parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}],"metadata":{"model":"m2"},"messages":[{"role":"user","content":"use {\"model\":\"m3\"} please"}],"model":"m1"}"#,
    r#"{"a":[[{"model":"m2"}],{"b":{"model":"m3"}}],"model":"m1","messages":[]}"#,
    r#"{"metadata":{"model":"m2"},"\u006dodel":"m1","messages":[]}"#,
    r#"{"messages":[{"model":"m2","role":"user","content":"\"model\":\"m3\""}],"model":"\u006d1"}"#,
    r#"{"modelx":"m2","xmodel":"m2","Model":"m2","MODEL":"m3","model ":"m2"," model":"m3","model":"m1"}"#,
    r#"{"\"model\"":"m2","\\\"model\\\":\\\"m3\\\"":1,"model":"m1"}"#,
    r#"{"user":"model","stop":["model","m2"],"model":"m1","x":"model\\"}"#,
    r#"{"model":"m1","metadata":{"model":"m2"},"messages":[{"role":"user","content":"}]}"},{"model":"m3"}]}"#,
];

#[tokio::test]
async fn a_02_only_the_top_level_model_counts() {
    let (m1, m2, m3) = (Upstream::start("m1"), Upstream::start("m2"), Upstream::start("m3"));
    let config =
        Config::new(&[&m2]).pool("p1", &[&m1]).route("m1", "p1").pool("p3", &[&m3]).route("m3", "p3");
    let bench = Bench::live(&config, 3).await;
    for body in LOOK_ALIKES {
        let answer = bench.ask(&post(CHAT, body.as_bytes())).await;
        assert_eq!(answer.status(), 200, "{body}: {}", answer.text());
        assert_eq!(m1.received().pop().map(|r| r.text()).as_deref(), Some(body));
    }
    assert_eq!(requests_at(&[&m2, &m3]), 0);
    for line in bench.assert_idle(LOOK_ALIKES.len()).await {
        assert_line(&line, &[("model", json!("m1")), ("route", json!("m1")), ("pool", json!("p1"))]);
    }
}

#[tokio::test]
async fn a_03_a_doubled_member_that_is_read_is_refused() {
    let (allowed, forbidden) = (Upstream::start("allowed"), Upstream::start("forbidden"));
    let config = Config::new(&[&allowed]).pool("other", &[&forbidden]).route("forbidden", "other");
    let bench = Bench::live(&config, 2).await;
    let bodies = [
        (r#"{"model":"allowed","messages":[],"model":"forbidden"}"#, "model"),
        (r#"{"model":"forbidden","messages":[],"model":"allowed"}"#, "model"),
        (r#"{"model":7,"model":"forbidden","messages":[]}"#, "model"),
        (r#"{"model":"forbidden","messages":[],"model":null}"#, "model"),
        (r#"{"model":"allowed","messages":[],"\u006do\u0064el":"forbidden"}"#, "model"),
        (r#"{"model":"allowed","messages":[],"model":"allowed"}"#, "model"),
        (r#"{"model":"allowed","messages":[],"stream":true,"stream":false}"#, "stream"),
        (r#"{"model":"allowed","stream_options":{},"messages":[],"stream_options":null}"#, "stream_options"),
        (r#"{"model":"allowed","messages":[],"max_tokens":1,"max_tokens":100000}"#, "max_tokens"),
    ];
    for (body, name) in bodies {
        let error = assert_own_error(&bench.ask(&post(CHAT, body.as_bytes())).await, 400);
        assert!(error.to_string().contains(name), "{body}: {error}");
    }
    assert_eq!(requests_at(&[&allowed, &forbidden]), 0);
    for line in bench.assert_idle(bodies.len()).await {
        assert_line(
            &line,
            &[("outcome", json!("client_error")), ("status", json!(400)), ("attempts", json!(0))],
        );
    }
}

#[tokio::test]
async fn a_04_a_model_that_is_no_name_is_refused_by_name() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let models = [
        "123",
        "true",
        "false",
        "[]",
        "{}",
        "null",
        "\"\"",
        "\" \"",
        "1.5",
        "-0",
        "[\"m1\"]",
        "{\"model\":\"m1\"}",
        "\"\\t\"",
        "\"\\u0020\\n\"",
    ];
    let mut sent = 0;
    for stream in ["", r#","stream":true"#] {
        for model in models {
            let body =
                format!(r#"{{"model":{model},"messages":[{{"role":"user","content":"hi"}}]{stream}}}"#);
            let error = assert_own_error(&bench.ask(&post(CHAT, body.as_bytes())).await, 400);
            assert!(error.to_string().contains("model"), "{body}: {error}");
            sent += 1;
        }
        let body = format!(r#"{{"messages":[{{"role":"user","content":"hi"}}]{stream}}}"#);
        let error = assert_own_error(&bench.ask(&post(CHAT, body.as_bytes())).await, 400);
        assert!(error.to_string().contains("model"), "{body}: {error}");
        sent += 1;
    }
    assert_eq!(up.counts().requests.get(), 0);
    for line in bench.assert_idle(sent).await {
        assert_line(
            &line,
            &[("outcome", json!("client_error")), ("status", json!(400)), ("attempts", json!(0))],
        );
    }
}

#[tokio::test]
async fn a_04_a_body_that_is_no_object_is_refused() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let bodies = [
        "",
        " ",
        "[]",
        "7",
        "null",
        "\"model\"",
        "{",
        "}",
        "{\"model\"",
        "{\"model\":",
        "{\"model\":\"m1\"",
        "{\"model\":\"m1\"}}",
        "{\"model\":\"m1\"} x",
        "{'model':'m1'}",
        "model=m1",
        "{\"model\":\"m1\",}",
        "{\"a\":[1,2,\"model\":\"m1\"}",
        "\u{0}",
    ];
    for body in bodies {
        assert_own_error(&bench.ask(&post(CHAT, body.as_bytes())).await, 400);
    }
    let deep = format!("{}{{\"model\":\"m1\"}}", "[".repeat(200_000));
    assert_own_error(&bench.ask(&post(CHAT, deep.as_bytes())).await, 400);
    assert_eq!(up.counts().requests.get(), 0);
    bench.assert_idle(bodies.len() + 1).await;
}

/// Anthropic clients get their own dialect, and an unknown name is not found rather than malformed.
#[tokio::test]
async fn a_04_refusals_speak_the_clients_dialect() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let answer = bench.ask(&post("/v1/messages", br#"{"model":7,"max_tokens":1,"messages":[]}"#)).await;
    assert_eq!((answer.status(), &answer.json()["type"]), (400, &json!("error")));
    assert!(
        answer.json()["error"]["message"].as_str().is_some_and(|m| m.contains("model")),
        "{}",
        answer.text()
    );
    let error = assert_own_error(&bench.ask(&post(CHAT, br#"{"model":"m9","messages":[]}"#)).await, 404);
    assert_eq!(error["code"], json!("model_not_found"));
    assert_eq!(up.counts().requests.get(), 0);
    let lines = bench.assert_idle(2).await;
    assert_line(
        &lines[1],
        &[("model", json!("m9")), ("route", Value::Null), ("outcome", json!("client_error"))],
    );
}

/// The same kind of fault as A-04 and A-24: an engine that is lax about `stream` would stream what was read as whole.
#[tokio::test]
async fn a_24_a_stream_member_that_is_no_boolean_is_refused() {
    let up = Upstream::start("m1");
    let bench = Bench::with_replicas(&[&up]).await;
    let values = ["1", r#""true""#, "[]", "1.0"];
    for value in values {
        let body = format!(r#"{{"model":"m1","stream":{value},"messages":[]}}"#);
        let error = assert_own_error(&bench.ask(&post(CHAT, body.as_bytes())).await, 400);
        assert_eq!(
            (&error["code"], &error["param"]),
            (&json!("invalid_stream"), &json!("stream")),
            "{value}"
        );
    }
    assert_eq!(up.counts().requests.get(), 0);
    bench.assert_idle(values.len()).await;
}
