//! The admin side over real sockets, in front of a gateway of plain data.

mod callers;
mod connections;

use std::sync::Arc;

use hyper::Method;
use serde_json::{Value, json};

use super::{AdminListener, AdminServer, Shown};
use crate::admin_client::AdminClient;
use crate::config::AdminPlan;
use crate::inspect::Readiness;
use crate::one_call::Answer;
use crate::plain_gateway::PlainGateway;

struct Bench {
    gateway: Arc<PlainGateway>,
    server: AdminServer,
}

impl Bench {
    fn start(token: Option<&str>) -> Self {
        let gateway = Arc::new(PlainGateway::default());
        let shown = Shown {
            gateway_id: "gw-1".into(),
            gateway: gateway.clone(),
            metrics: Arc::default(),
            usage_log: None,
            sources: Arc::default(),
            decisions: Arc::default(),
        };
        let plan = AdminPlan { address: ([127, 0, 0, 1], 0).into(), token: token.map(Into::into) };
        Self { gateway, server: AdminListener::bind(&plan).unwrap().serve(shown).unwrap() }
    }

    async fn call(&self, token: Option<&str>, method: Method, path: &str, body: &str) -> Answer {
        let address = self.server.address().to_string();
        let client = AdminClient::new(&address, token.map(Into::into)).unwrap();
        client.call(method, path, body.into()).await.unwrap()
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.call(None, Method::GET, path, "").await;
        (answer.status, serde_json::from_slice(&answer.body).unwrap())
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let answer = self.call(None, Method::POST, path, body).await;
        (answer.status, serde_json::from_slice(&answer.body).unwrap())
    }
}

#[test]
fn debug_output_shows_no_token() {
    let plan = AdminPlan { address: ([127, 0, 0, 1], 0).into(), token: Some("tok-123".into()) };
    let listener = AdminListener::bind(&plan).unwrap();
    let text = format!("{plan:?} {listener:?}");
    assert!(text.contains("***") && !text.contains("tok-123"), "{text}");
}

#[tokio::test]
async fn healthz_is_good_and_readyz_follows_the_gateway() {
    let bench = Bench::start(None);
    for (readiness, status, answer) in [
        (Readiness::Ready, 200, json!({ "ready": true, "reason": null })),
        (Readiness::NoModel, 503, json!({ "ready": false, "reason": "no model is known yet" })),
        (Readiness::Draining, 503, json!({ "ready": false, "reason": "shutting down" })),
        (
            Readiness::NoReplica(vec!["a".into(), "b".into()]),
            503,
            json!({ "ready": false, "reason": "no replica can take a request in: a, b" }),
        ),
    ] {
        *bench.gateway.readiness.lock().unwrap() = readiness;
        assert_eq!(bench.get("/readyz").await, (status, answer));
        assert_eq!(bench.get("/healthz").await.0, 200);
    }
}

#[tokio::test]
async fn the_state_shows_pools_replicas_models_and_gauges() {
    let (status, state) = Bench::start(None).get("/api/state").await;
    assert_eq!(status, 200);
    for (pointer, value) in [
        ("/gateway", json!("gw-1")),
        ("/ready", json!(true)),
        ("/models", json!(["qwen3"])),
        ("/routes/0/mode", json!("weighted")),
        ("/routes/0/targets", json!([{ "name": "big/Qwen", "weight": 3 }])),
        ("/routes/0/fallback", json!("provider/gpt")),
        ("/gauges/open_requests", json!(2)),
        ("/pools/0/name", json!("big")),
        ("/pools/0/session_pins", json!(7)),
        ("/pools/0/replicas/0/state", json!("live")),
        ("/pools/0/replicas/0/engine/running", json!(3)),
        ("/pools/0/replicas/1/state", json!("ejected")),
        ("/pools/0/replicas/1/cooldown_seconds", json!(1.5)),
        ("/pools/0/replicas/0/last_transition", json!(null)),
        (
            "/pools/0/replicas/1/last_transition",
            json!({ "from": "live", "to": "ejected", "reason": "refused", "age_seconds": 28.5 }),
        ),
    ] {
        assert_eq!(state.pointer(pointer), Some(&value), "{pointer}");
    }
}

#[tokio::test]
async fn the_state_shows_each_pools_queue() {
    let (_, state) = Bench::start(None).get("/api/state").await;
    let classes = json!([{ "priority": 1, "waiting": 3, "held": 2, "oldest_seconds": 2.5 }]);
    let expected = json!([{
        "pool": "big",
        "waiting": 3,
        "held": 2,
        "oldest_seconds": 2.5,
        "routes": [
            { "route": "qwen3", "waiting": 3, "held": 2, "oldest_seconds": 2.5, "classes": classes },
            { "route": "idle", "waiting": 0, "held": 0, "oldest_seconds": 0.0, "classes": [] },
        ],
        "keys": [{ "key": "team-a", "priority": 1, "waiting": 3, "served_tokens": 40 }],
        "grants_total": 11,
        "refused_total": 12,
        "timeouts_total": 13,
        "denied_total": 14,
        "left_total": 15,
        "sent_on_total": 16,
    }]);
    assert_eq!(state["queues"], expected);
}

#[tokio::test]
async fn the_state_shows_keys_with_limits_and_usage_and_nothing_else_of_them() {
    let (_, state) = Bench::start(None).get("/api/state").await;
    let expected = json!({
        "name": "team-a",
        "project": "search",
        "routes": ["qwen3"],
        "priority": 1,
        "limits": {
            "max_concurrent": 8,
            "requests_per_minute": 600,
            "tokens_per_minute": 100_000,
            "tokens_per_day": 5_000_000,
            "tokens_per_month": 9_000_000_000_u64,
            "cost_per_day": 12.5,
            "cost_per_month": 200.0,
        },
        "usage": {
            "concurrent": 2,
            "requests_minute": 30,
            "tokens_minute": 4_000,
            "tokens_day": 90_000,
            "tokens_month": 8_000_000_000_u64,
            "cost_day": 0.0045,
            "cost_month": 150.000_001,
        },
    });
    assert_eq!(state["keys"][0], expected);
    let free = &state["keys"][1];
    assert_eq!(
        (&free["name"], &free["project"], &free["routes"]),
        (&json!("free"), &json!(null), &json!(null))
    );
    assert!(free["limits"].as_object().unwrap().values().all(|limit| limit.is_null()), "{free}");
}

#[tokio::test]
async fn metrics_are_served_as_openmetrics_text() {
    let answer = Bench::start(None).call(None, Method::GET, "/metrics", "").await;
    let page = String::from_utf8(answer.body).unwrap();
    assert_eq!(answer.status, 200);
    assert!(page.contains("sluicegate_pins{pool=\"big\",kind=\"session\"} 7"));
    assert!(page.ends_with("# EOF\n"));
}

#[tokio::test]
async fn explain_takes_a_chat_body_as_it_is() {
    let body = r#"{"model": "qwen3",  "messages": []}"#;
    let (status, explained) = Bench::start(None).post("/api/explain", body).await;
    assert_eq!((status, &explained["route"]), (200, &json!("qwen3")));
    assert_eq!(explained["estimated_prompt_tokens"], body.len());
    assert_eq!(explained["outcome"]["replica"]["reason"], "load");
}

#[tokio::test]
async fn explain_takes_a_whole_request_and_keeps_its_body_bytes() {
    let bench = Bench::start(None);
    let body = r#"{"model":"m",  "model":"n", "big": 1e400}"#;
    let whole =
        format!(r#"{{"path":"/v1/chat/completions","headers":{{"x-session-id":"s1"}},"body":{body}}}"#);
    let (status, explained) = bench.post("/api/explain", &whole).await;
    assert_eq!((status, &explained["session"]), (200, &json!("s1")));
    assert_eq!(explained["estimated_prompt_tokens"], body.len());
}

#[tokio::test]
async fn explain_asks_for_the_key_that_is_named() {
    let bench = Bench::start(None);
    for (member, key) in [(r#","key":"team-a""#, json!("team-a")), ("", json!(null))] {
        let whole = format!(r#"{{"path":"/v1/chat/completions","body":{{"model":"m"}}{member}}}"#);
        let (status, explained) = bench.post("/api/explain", &whole).await;
        assert_eq!((status, &explained["key"]), (200, &key));
    }
    let (_, explained) = bench.post("/api/explain", r#"{"model":"m","key":"team-a"}"#).await;
    assert_eq!(
        explained["key"],
        json!(null),
        "a bare chat body is the client's: none of its members is ours"
    );
}

#[tokio::test]
async fn explain_answers_a_refusal_as_the_gateway_would() {
    let bench = Bench::start(None);
    let (status, refused) = bench.post("/api/explain", r#"{"method":"GET","path":"/sleep"}"#).await;
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("not_found")));
    let (status, refused) = bench.post("/api/explain", r#"{"path":"/v1/x","headrs":{}}"#).await;
    assert_eq!((status, &refused["error"]["code"]), (400, &json!("bad_request")));
}

#[tokio::test]
async fn a_replica_is_drained_and_undrained_by_name() {
    let bench = Bench::start(None);
    let name = "http://10.0.0.2:8000";
    let body = json!({ "pool": "big", "replica": name }).to_string();
    assert_eq!(bench.post("/api/replicas/drain", &body).await.0, 200);
    assert!(bench.gateway.drained.lock().unwrap().contains(name));
    assert_eq!(bench.post("/api/replicas/undrain", &body).await.0, 200);
    assert!(bench.gateway.drained.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_drain_of_what_is_not_there_is_refused() {
    let bench = Bench::start(None);
    for (body, status) in [
        (r#"{"pool":"big","replica":"http://nowhere"}"#, 404),
        (r#"{"pool":"none","replica":"http://10.0.0.1:8000"}"#, 404),
        (r#"{"pool":"big"}"#, 400),
        ("", 400),
    ] {
        assert_eq!(bench.post("/api/replicas/drain", body).await.0, status, "{body}");
    }
    assert!(bench.gateway.drained.lock().unwrap().is_empty());
}

#[tokio::test]
async fn unknown_paths_and_wrong_methods_are_answered_in_json() {
    let bench = Bench::start(None);
    let (status, refused) = bench.get("/v1/models").await;
    assert_eq!((status, &refused["error"]["code"]), (404, &json!("not_found")));
    let (status, refused) = bench.get("/api/explain").await;
    assert_eq!((status, &refused["error"]["code"]), (405, &json!("method_not_allowed")));
}

#[tokio::test]
async fn the_root_lists_every_path() {
    let bench = Bench::start(None);
    let root = bench.call(None, Method::GET, "/", "").await;
    let text = String::from_utf8(root.body).unwrap();
    assert_eq!(root.status, 200);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (method, path) = (words.next().unwrap().parse().unwrap(), words.next().unwrap());
        let answer = bench.call(None, method, path, "").await;
        assert!(![404, 405].contains(&answer.status), "{line}: {}", answer.status);
    }
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let body = " ".repeat(super::routes::MAX_BODY + 1);
    let (status, refused) = Bench::start(None).post("/api/explain", &body).await;
    assert_eq!((status, &refused["error"]["code"]), (413, &json!("body_too_large")));
}

#[tokio::test]
async fn with_a_token_only_the_probes_are_open() {
    let bench = Bench::start(Some("s3cret"));
    for (token, path, status) in [
        (None, "/healthz", 200),
        (None, "/readyz", 200),
        (None, "/metrics", 401),
        (None, "/api/state", 401),
        (None, "/nowhere", 401),
        (Some("wrong!"), "/metrics", 401),
        (Some("s3crets"), "/metrics", 401),
        (Some(""), "/metrics", 401),
        (Some("s3cret"), "/metrics", 200),
        (Some("s3cret"), "/api/state", 200),
        (Some("s3cret"), "/nowhere", 404),
    ] {
        let answer = bench.call(token, Method::GET, path, "").await;
        assert_eq!(answer.status, status, "{token:?} {path}");
    }
}

#[tokio::test]
async fn the_address_is_free_again_when_the_server_is_dropped() {
    let bench = Bench::start(None);
    let address = bench.server.address();
    assert_eq!(bench.get("/healthz").await.0, 200);
    drop(bench);
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}
