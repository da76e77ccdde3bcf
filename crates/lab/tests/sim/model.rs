//! What the model does, seen through HTTP.

use crate::client::{get, post};
use serde_json::{Value, json};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::sim::{Sim, SimConfig};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHAT: &str = "/v1/chat/completions";

fn start(profile: Profile) -> (Sim, SocketAddr) {
    let sim = Sim::start(SimConfig { profile, ..SimConfig::default() }).unwrap();
    let addr = sim.addrs()[0];
    (sim, addr)
}

fn ask(messages: Value) -> Value {
    json!({"model": "sim", "messages": messages, "max_tokens": 64, "ignore_eos": true})
}

/// An answer that takes minutes.
fn endless(stream: bool) -> String {
    let body =
        json!({"model": "sim", "messages": [{"role": "user", "content": "Go on for ever. ".repeat(64)}],
        "max_tokens": 60_000, "ignore_eos": true, "stream": stream})
        .to_string();
    let length = body.len();
    format!(
        "POST {CHAT} HTTP/1.1\r\nhost: sim\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn a_repeated_prompt_and_the_next_turn_are_found_in_the_cache() {
    let (_sim, addr) = start(Profile::fast());
    let question =
        json!({"role": "user", "content": "Which gate is open and which one is shut? ".repeat(20)});
    let first = post(addr, CHAT, &ask(json!([question]))).await.json();
    let details = |answer: &Value| answer["usage"]["prompt_tokens_details"].clone();
    let prompt = first["usage"]["prompt_tokens"].as_u64().unwrap();
    let whole = prompt / 16 * 16;
    assert_eq!(
        details(&first),
        json!({"cached_tokens": 0, "created_cache_tokens": whole, "multimodal_tokens": null})
    );

    let again = post(addr, CHAT, &ask(json!([question]))).await.json();
    let found = (prompt - 1) / 16 * 16;
    assert_eq!(details(&again)["cached_tokens"].as_u64(), Some(found));
    assert_eq!(again["choices"], first["choices"], "the same prompt has the same answer");

    let next = json!([question, first["choices"][0]["message"], {"role": "user", "content": "Why?"}]);
    let next = post(addr, CHAT, &ask(next)).await.json();
    let cached = details(&next)["cached_tokens"].as_u64().unwrap();
    assert!(cached >= prompt + 64 - 16, "prompt {prompt} and answer are cached, {cached} tokens");
}

#[tokio::test]
async fn replicas_have_caches_of_their_own_and_give_the_same_answers() {
    let config = SimConfig { replicas: 2, profile: Profile::fast(), ..SimConfig::default() };
    let sim = Sim::start(config).unwrap();
    let [one, two] = sim.addrs()[..] else { panic!("two replicas") };
    assert_ne!(one, two);
    let body =
        ask(json!([{"role": "user", "content": "A prompt of several blocks, said twice. ".repeat(9)}]));
    let (first, second) = (post(one, CHAT, &body).await.json(), post(two, CHAT, &body).await.json());
    assert_eq!(first["choices"], second["choices"]);
    assert_eq!(second["usage"]["prompt_tokens_details"]["cached_tokens"], json!(0));
    sim.shutdown().await;
    assert!(TcpStream::connect(one).await.is_err());
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place_and_its_blocks() {
    for stream in [true, false] {
        let (sim, addr) = start(Profile::gpu_8b());
        let replica = &sim.replicas()[0];
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(endless(stream).as_bytes()).await.unwrap();
        let busy =
            replica.until(|counters| counters.running == 1 && counters.generation_tokens > 0).await.unwrap();
        assert!(busy.kv_blocks_used > 0);
        assert_eq!(get(addr, "/load").await.body, r#"{"server_load":1}"#);
        drop(client);
        let idle = replica.until(|counters| counters.running == 0).await.unwrap();
        assert_eq!((idle.aborted, idle.waiting, idle.kv_blocks_used), (1, 0, 0), "stream: {stream}");
        let page = get(addr, "/metrics").await.body;
        assert!(page.contains("\nvllm:num_requests_running{engine=\"0\",model_name=\"sim\"} 0.0\n"));
        let aborts =
            "\nvllm:request_success_total{engine=\"0\",finished_reason=\"abort\",model_name=\"sim\"} 0.0\n";
        assert!(page.contains(aborts), "like vLLM, which counts only its own aborts");
    }
}

#[tokio::test]
async fn a_client_that_leaves_in_a_silent_prefill_frees_its_place() {
    let mut slow = Profile::gpu_8b();
    slow.cost.base = Duration::from_secs(3600);
    let (sim, addr) = start(slow);
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(endless(true).as_bytes()).await.unwrap();
    let mut head = [0; 12];
    client.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200", "the head comes before the first token");
    sim.replicas()[0].until(|counters| counters.running == 1).await.unwrap();
    drop(client);
    let idle = sim.replicas()[0].until(|counters| counters.running == 0).await.unwrap();
    assert_eq!((idle.aborted, idle.kv_blocks_used, idle.generation_tokens), (1, 0, 0));
}

#[tokio::test]
async fn beyond_the_bound_a_request_is_refused_and_a_stream_inside_a_200() {
    let (sim, addr) = start(Profile { max_num_queued: Some(1), ..Profile::gpu_8b() });
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(endless(true).as_bytes()).await.unwrap();
    sim.replicas()[0].until(|counters| counters.running == 1).await.unwrap();
    let mut body = ask(json!([{"role": "user", "content": "me too"}]));
    let refused = post(addr, CHAT, &body).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_u64()), (503, Some(503)));
    assert_eq!(refused.header("retry-after"), None);
    body["stream"] = json!(true);
    let refused = post(addr, CHAT, &body).await;
    assert_eq!(
        (refused.status, refused.header("content-type")),
        (200, Some("text/event-stream; charset=utf-8"))
    );
    let events = refused.json_events();
    assert_eq!((events.len(), events[0]["error"]["code"].as_u64()), (1, Some(503)));
    assert_eq!(sim.replicas()[0].counters().unwrap().refused, 2);
}

#[tokio::test]
async fn a_stopped_replica_cuts_its_streams_and_comes_back_cold_on_its_port() {
    let (sim, addr) = start(Profile::gpu_8b());
    let replica = &sim.replicas()[0];
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(endless(true).as_bytes()).await.unwrap();
    replica.until(|counters| counters.generation_tokens > 0).await.unwrap();
    replica.stop().await;
    let mut received = Vec::new();
    // A reset and an end are both a cut; the stream must not look complete.
    let _cut = client.read_to_end(&mut received).await;
    let received = String::from_utf8_lossy(&received);
    assert!(!received.contains("[DONE]") && !received.ends_with("0\r\n\r\n"));
    assert!(TcpStream::connect(addr).await.is_err(), "the port is closed");
    assert_eq!(replica.counters(), None);
    assert_eq!(replica.until(|_| true).await, None);

    replica.start().unwrap();
    assert_eq!(replica.addr(), addr);
    assert_eq!(get(addr, "/health").await.status, 200);
    assert_eq!(replica.counters().unwrap().generation_tokens, 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_by_the_server_and_a_busy_one_reused() {
    let config = SimConfig { keep_alive: Duration::from_millis(300), ..SimConfig::default() };
    let sim = Sim::start(config).unwrap();
    let mut client = TcpStream::connect(sim.addrs()[0]).await.unwrap();
    client
        .write_all(b"GET /health HTTP/1.1\r\nhost: a\r\n\r\nGET /version HTTP/1.1\r\nhost: a\r\n\r\n")
        .await
        .unwrap();
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    let received = String::from_utf8(received).unwrap();
    assert_eq!(received.matches("HTTP/1.1 200 OK\r\n").count(), 2);
    assert!(received.ends_with(r#"{"version":"0.32.0"}"#), "nothing is said at the close: {received}");
}

#[tokio::test]
async fn a_body_above_the_bound_is_refused() {
    let sim = Sim::start(SimConfig { max_body: 1000, ..SimConfig::default() }).unwrap();
    let answer =
        post(sim.addrs()[0], CHAT, &ask(json!([{"role": "user", "content": "x".repeat(2000)}]))).await;
    assert_eq!(answer.status, 413);
}

#[tokio::test]
async fn a_model_that_does_not_fit_its_cache_does_not_start() {
    let profile = Profile { kv_blocks: 100, ..Profile::fast() };
    let refusal = Sim::start(SimConfig { profile, max_model_len: 1601, ..SimConfig::default() }).unwrap_err();
    assert_eq!(refusal.kind(), std::io::ErrorKind::InvalidInput);
}

/// Every series by its whole text before the value; panics on anything that is not Prometheus text.
fn parse(page: &str) -> (BTreeMap<String, f64>, BTreeMap<String, String>) {
    let (mut series, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "{name} is declared once");
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let family = name.split('{').next().unwrap();
            let suffixes = ["", "_bucket", "_count", "_sum"];
            let declared = suffixes
                .iter()
                .any(|suffix| family.strip_suffix(suffix).is_some_and(|name| kinds.contains_key(name)));
            assert!(declared, "{family} has no type");
            assert!(series.insert(name.to_owned(), value.parse().unwrap()).is_none(), "{name} appears once");
        }
    }
    (series, kinds)
}

#[tokio::test]
async fn the_metrics_page_is_sound_and_agrees_with_what_was_served() {
    let (sim, addr) = start(Profile::fast());
    let body = ask(json!([{"role": "user", "content": "Count what you do. ".repeat(30)}]));
    let (first, _again) = (post(addr, CHAT, &body).await.json(), post(addr, CHAT, &body).await);
    let prompt = first["usage"]["prompt_tokens"].as_f64().unwrap();
    let (series, kinds) = parse(&get(addr, "/metrics").await.body);

    let value = |name: &str| series.get(name).copied().unwrap_or_else(|| panic!("no series {name}"));
    let of = |name: &str| value(&format!("vllm:{name}{{engine=\"0\",model_name=\"sim\"}}"));
    let cached = ((prompt as u64 - 1) / 16 * 16) as f64;
    for (name, expected) in [
        ("num_requests_running", 0.0),
        ("num_requests_waiting", 0.0),
        ("kv_cache_usage_perc", 0.0),
        ("prompt_tokens_total", 2.0 * prompt),
        ("generation_tokens_total", 128.0),
        ("prefix_cache_queries_total", 2.0 * prompt),
        ("prefix_cache_hits_total", cached),
        ("num_preemptions_total", 0.0),
        ("time_to_first_token_seconds_count", 2.0),
        ("inter_token_latency_seconds_count", 126.0),
        ("request_prompt_tokens_sum", 2.0 * prompt),
        ("iteration_tokens_total_sum", 2.0 * prompt - cached + 126.0),
    ] {
        assert_eq!(of(name), expected, "{name}");
    }
    let finished = r#"vllm:request_success_total{engine="0",finished_reason="length",model_name="sim"}"#;
    assert_eq!(value(finished), 2.0);
    assert_eq!(
        value(r#"vllm:num_requests_waiting_by_reason{engine="0",model_name="sim",reason="capacity"}"#),
        0.0
    );
    assert_eq!(
        value(r#"http_requests_total{handler="/v1/chat/completions",method="POST",status="2xx"}"#),
        2.0
    );
    assert!(
        series
            .keys()
            .any(|name| name.starts_with("vllm:cache_config_info{") && name.contains(r#"block_size="16""#))
    );
    for (name, _) in kinds.iter().filter(|(_, kind)| *kind == "histogram") {
        let count = value(&format!("{name}_count{{engine=\"0\",model_name=\"sim\"}}"));
        assert_eq!(
            value(&format!("{name}_bucket{{engine=\"0\",le=\"+Inf\",model_name=\"sim\"}}")),
            count,
            "{name}"
        );
    }
    sim.shutdown().await;
}
