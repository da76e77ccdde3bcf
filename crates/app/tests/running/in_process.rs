//! The library's `App`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sluicegate::config::{Config, Loaded, Overrides};
use sluicegate::inspect::Readiness;
use sluicegate::{App, MemorySink, StartError};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::sim::{Sim, SimConfig};
use sluicegate_testkit::until;

use crate::http::{CHAT, chat, get, post};

/// Two fast replicas and a gateway in front of them, ready.
struct Bench {
    sim: Sim,
    app: App,
    lines: Arc<MemorySink>,
}

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn configuration(replicas: &[SocketAddr]) -> Loaded {
    let overrides = Overrides {
        replicas: replicas.iter().map(|address| format!("http://{address}")).collect(),
        listen: Some(any_port()),
        admin: Some(any_port()),
        threads: Some(1),
        ..Overrides::default()
    };
    let mut loaded = Config::load(None, &overrides).unwrap();
    loaded.usage.stdout = false;
    loaded
}

async fn start(loaded: Loaded, lines: Arc<MemorySink>) -> Result<App, StartError> {
    tokio::task::spawn_blocking(move || App::start(loaded, vec![lines])).await.unwrap()
}

impl Bench {
    async fn start() -> Self {
        let profile = Profile::named("fast").unwrap();
        let sim = Sim::start(SimConfig { replicas: 2, profile, ..SimConfig::default() }).unwrap();
        let lines = Arc::new(MemorySink::default());
        let app = start(configuration(&sim.addrs()), Arc::clone(&lines)).await.unwrap();
        until(|| app.inspect().readiness() == Readiness::Ready).await;
        Self { sim, app, lines }
    }

    async fn end(self) -> usize {
        let app = self.app;
        let cut = tokio::task::spawn_blocking(move || app.finish(Duration::from_secs(60))).await.unwrap();
        self.sim.shutdown().await;
        cut
    }
}

#[tokio::test]
async fn a_request_leaves_one_usage_line_and_is_counted() {
    let bench = Bench::start().await;
    let answer = post(bench.app.address(), CHAT, &chat(5, false)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let lines = bench.lines.wait_for(1).await;
    let line: Value = serde_json::from_str(&lines[0]).unwrap();
    for (field, value) in [
        ("model", json!("sim")),
        ("route", json!("sim")),
        ("endpoint", json!(CHAT)),
        ("status", json!(200)),
        ("outcome", json!("ok")),
        ("attempts", json!(1)),
        ("completion_tokens", json!(5)),
        ("usage_source", json!("engine")),
        ("finish_reason", json!("length")),
    ] {
        assert_eq!(line[field], value, "{field} in {line}");
    }
    let page = get(bench.app.admin_address(), "/metrics").await.body;
    let counted = page.lines().filter(|l| l.starts_with("sluicegate_requests_total{route=\"sim\""));
    let counted: Vec<_> = counted.collect();
    assert_eq!(counted.len(), 1, "{counted:?}");
    assert!(counted[0].ends_with("outcome=\"ok\",status=\"200\"} 1"), "{counted:?}");
    assert_eq!(bench.end().await, 0);
}

#[tokio::test]
async fn the_admin_side_explains_and_drains_the_running_gateway() {
    let bench = Bench::start().await;
    let admin = bench.app.admin_address();
    let state = get(admin, "/api/state").await.json();
    assert_eq!(state["models"], json!(["sim"]));
    let (pool, replicas) = (&state["pools"][0]["name"], &state["pools"][0]["replicas"]);
    let (first, second) = (&replicas[0]["name"], &replicas[1]["name"]);
    let which = json!({ "pool": pool, "replica": first }).to_string();
    assert_eq!(post(admin, "/api/replicas/drain", &which).await.status, 200);
    let explained = post(admin, "/api/explain", &chat(1, false)).await.json();
    assert_eq!(explained["outcome"]["replica"]["name"], *second, "{explained}");
    assert_eq!(explained["candidates"][0]["state"], "draining");
    assert_eq!(post(admin, "/api/replicas/undrain", &which).await.status, 200);
    let explained = post(admin, "/api/explain", &chat(1, false)).await.json();
    assert_ne!(explained["candidates"][0]["state"], "draining");
    assert!(bench.lines.lines().is_empty(), "an explanation is no request");
    bench.end().await;
}

#[tokio::test]
async fn what_the_gateway_refuses_is_explained_with_its_own_answer() {
    let bench = Bench::start().await;
    let body = r#"{"model":"nobody","messages":[]}"#;
    let refused = post(bench.app.address(), CHAT, body).await;
    let explained = post(bench.app.admin_address(), "/api/explain", body).await;
    assert_eq!((refused.status, explained.status), (404, 404));
    assert_eq!(refused.json()["error"]["code"], explained.json()["error"]["code"]);
    bench.end().await;
}

#[tokio::test]
async fn readyz_says_no_from_the_beginning_of_a_drain() {
    let bench = Bench::start().await;
    let admin = bench.app.admin_address();
    assert_eq!(get(admin, "/readyz").await.status, 200);
    bench.app.begin_drain();
    let readyz = get(admin, "/readyz").await;
    assert_eq!((readyz.status, readyz.json()["reason"].clone()), (503, json!("shutting down")));
    assert_eq!(get(admin, "/healthz").await.status, 200);
    bench.end().await;
}

#[tokio::test]
async fn a_gateway_without_a_replica_says_so() {
    let gone = std::net::TcpListener::bind(any_port()).unwrap().local_addr().unwrap();
    let app = start(configuration(&[gone]), Arc::default()).await.unwrap();
    let readyz = get(app.admin_address(), "/readyz").await;
    assert_eq!(readyz.status, 503);
    let reason = readyz.json()["reason"].to_string();
    assert!(reason.contains("no replica can take a request"), "{reason}");
    let cut = tokio::task::spawn_blocking(move || app.finish(Duration::ZERO)).await.unwrap();
    assert_eq!(cut, 0);
}

#[tokio::test]
async fn a_taken_address_is_named_in_the_error_and_nothing_is_left_behind() {
    let taken = std::net::TcpListener::bind(any_port()).unwrap();
    let address = taken.local_addr().unwrap();
    let free = std::net::TcpListener::bind(any_port()).unwrap().local_addr().unwrap();

    let mut loaded = configuration(&[any_port()]);
    (loaded.plan.listen.address, loaded.admin.address) = (address, free);
    let error = start(loaded, Arc::default()).await.err().unwrap();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"), "the cause is its source");
    assert!(tokio::net::TcpStream::connect(free).await.is_err());

    let mut loaded = configuration(&[any_port()]);
    (loaded.plan.listen.address, loaded.admin.address) = (free, address);
    let error = start(loaded, Arc::default()).await.err().unwrap();
    assert!(
        error.to_string().starts_with(&format!("cannot listen on {address} for the admin side")),
        "{error}"
    );
    assert!(tokio::net::TcpStream::connect(free).await.is_err());
}
