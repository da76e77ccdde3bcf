//! Each fault as a client meets it.

use crate::client::{Answer, get, post, send};
use http::Method;
use serde_json::{Value, json};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fault::{Fault, FaultSpec};
use sluicegate_lab::sim::{Sim, SimConfig, SimReplica};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CHAT: &str = "/v1/chat/completions";
const HOUR: Duration = Duration::from_secs(3600);
const MOMENT: Duration = Duration::from_millis(1);

fn start(replicas: usize) -> Sim {
    Sim::start(SimConfig { replicas, profile: Profile::fast(), ..SimConfig::default() }).unwrap()
}

fn body(stream: bool, max_tokens: u32) -> Value {
    json!({"model": "sim", "messages": [{"role": "user", "content": "Which gate?"}], "max_tokens": max_tokens,
        "ignore_eos": true, "stream": stream})
}

fn request(path: &str, body: &Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: sim\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A request on a connection of its own, its answer to be read byte by byte.
pub(crate) async fn open(addr: SocketAddr, path: &str, body: &Value) -> TcpStream {
    let mut client = TcpStream::connect(addr).await.unwrap();
    client.write_all(request(path, body).as_bytes()).await.unwrap();
    client
}

/// All that a connection says until it ends, and how it ends.
pub(crate) async fn read_to_end(mut client: TcpStream) -> (String, Result<(), ErrorKind>) {
    let mut received = Vec::new();
    let ended = client.read_to_end(&mut received).await.map(drop).map_err(|error| error.kind());
    (String::from_utf8(received).unwrap(), ended)
}

async fn chat(addr: SocketAddr, stream: bool) -> Answer {
    post(addr, CHAT, &body(stream, 8)).await
}

async fn switch(addr: SocketAddr, fault: Value) -> Answer {
    send(addr, Method::POST, "/sim/fault", &[], &fault.to_string()).await
}

async fn is_refused(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).await.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn first(sim: &Sim) -> (&SimReplica, SocketAddr) {
    (&sim.replicas()[0], sim.addrs()[0])
}

#[tokio::test]
async fn faults_are_switched_over_http_for_one_replica_or_for_all() {
    let sim = start(2);
    let [one, two] = sim.addrs()[..] else { panic!("two replicas") };
    let state = switch(one, json!({"kind": "status", "status": 503, "next": 2})).await;
    let expected = json!({"kind": "status", "status": 503, "share": 1.0, "next": 2, "seconds": null});
    assert_eq!(state.json()["replicas"][0]["faults"], json!([expected]));
    assert_eq!(state.json()["replicas"][1], json!({"replica": 1, "listening": true, "faults": []}));
    assert_eq!([chat(one, true).await.status, chat(two, true).await.status], [503, 200]);

    switch(one, json!({"kind": "slow", "factor": 2, "replica": "all"})).await;
    switch(one, json!({"kind": "frozen", "replica": 1})).await;
    assert_eq!(sim.replicas()[1].faults().len(), 2);
    send(two, Method::DELETE, "/sim/fault?kind=slow", &[], "").await;
    assert_eq!(sim.replicas()[1].faults(), [FaultSpec::from(Fault::Frozen)]);
    send(two, Method::DELETE, "/sim/fault?replica=all", &[], "").await;
    let state = get(one, "/sim/fault").await.json();
    assert!((0..2).all(|index| state["replicas"][index]["faults"] == json!([])), "{state}");

    for (refused, says) in [
        (switch(one, json!({"kind": "explode"})).await, "there are status, reset"),
        (switch(one, json!({"kind": "hang", "replica": 2})).await, "an index below 2"),
        (send(one, Method::POST, "/sim/fault", &[], "hang").await, "not a JSON object"),
        (send(one, Method::DELETE, "/sim/fault?kinds=hang", &[], "").await, "expected kind=KIND"),
    ] {
        assert!(refused.status == 400 && refused.body.contains(says), "{}", refused.body);
    }
}

#[tokio::test]
async fn a_status_befalls_the_next_requests_or_a_share_of_them_and_leaves_health_alone() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(FaultSpec::from(Fault::Status(503)).next(2)).await;
    assert_eq!(get(addr, "/health").await.status, 200);
    let statuses =
        [chat(addr, true).await.status, chat(addr, false).await.status, chat(addr, true).await.status];
    assert_eq!(statuses, [503, 503, 200]);
    assert_eq!(replica.counters().unwrap().refused, 0, "the engine never saw them");

    replica.set_fault(FaultSpec::from(Fault::Status(500)).share(0.5)).await;
    let mut failed = 0;
    for _ in 0..200 {
        failed += i32::from(chat(addr, false).await.status == 500);
    }
    assert!((70..130).contains(&failed), "{failed} of 200");
    replica.clear_faults().await;
    assert_eq!(chat(addr, false).await.status, 200);
}

#[tokio::test]
async fn a_refusing_replica_refuses_new_connections_and_goes_on_with_open_ones() {
    let sim = start(2);
    let (replica, addr) = first(&sim);
    let slow = Fault::Slow { factor: 50.0 };
    replica.set_fault(slow).await;
    let client = open(addr, CHAT, &body(true, 200)).await;
    replica.until(|counters| counters.generation_tokens > 0).await.unwrap();
    replica.set_fault(Fault::Refuse).await;
    assert!(is_refused(addr).await);
    // Through a neighbour: its own port is shut.
    let state = get(sim.addrs()[1], "/sim/fault").await.json();
    assert_eq!(state["replicas"][0]["listening"], json!(false));
    replica.set_fault(Fault::Slow { factor: 1.0 }).await;
    replica.until(|counters| counters.finished_length == 1).await.unwrap();
    drop(client);
    send(sim.addrs()[1], Method::DELETE, "/sim/fault?replica=0", &[], "").await;
    assert_eq!(chat(addr, true).await.status, 200);
}

#[tokio::test]
async fn a_fault_for_a_time_ends_by_itself() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(FaultSpec::from(Fault::Refuse).lasting(MOMENT)).await;
    replica.until_listening(true).await;
    assert_eq!(chat(addr, true).await.status, 200);
    assert_eq!(replica.faults(), []);
}

#[tokio::test]
async fn a_reset_comes_after_the_whole_request_and_before_any_answer() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(Fault::Reset).await;
    let (said, ended) = read_to_end(open(addr, CHAT, &body(true, 8)).await).await;
    assert_eq!((said.as_str(), ended), ("", Err(ErrorKind::ConnectionReset)));
    assert_eq!(get(addr, "/health").await.status, 200);
}

#[tokio::test]
async fn a_hanging_replica_says_nothing_until_the_fault_ends() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(FaultSpec::from(Fault::Hang).next(1)).await;
    let mut held = tokio::spawn(async move { chat(addr, true).await.status });
    while replica.faults()[0].next == Some(1) {
        tokio::task::yield_now().await;
    }
    assert_eq!([get(addr, "/health").await.status, chat(addr, true).await.status], [200, 200]);
    assert!(!held.is_finished());
    replica.clear_faults().await;
    assert_eq!((&mut held).await.unwrap(), 200);
}

#[tokio::test]
async fn a_cut_stream_has_exactly_the_events_before_it_and_no_end() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    for after in [0, 1, 5] {
        replica.set_fault(Fault::Cut { after }).await;
        let (said, _cut) = read_to_end(open(addr, CHAT, &body(true, 8)).await).await;
        assert!(said.starts_with("HTTP/1.1 200"), "{said:?}");
        let tokens = said.matches(r#""delta":{"content":""#).count();
        assert_eq!(tokens, after as usize, "{said}");
        assert!(!said.contains("[DONE]") && !said.ends_with("0\r\n\r\n"));
        let idle = replica.until(|counters| counters.running == 0).await.unwrap();
        assert_eq!(idle.kv_blocks_used, 0, "what is cut holds nothing");
    }
}

#[tokio::test]
async fn a_whole_answer_is_cut_in_its_middle() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(Fault::Cut { after: 3 }).await;
    let (said, _cut) = read_to_end(open(addr, CHAT, &body(false, 8)).await).await;
    let (head, half) = said.split_once("\r\n\r\n").unwrap();
    let length: usize =
        head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    assert_eq!(half.len(), length / 2);
    assert!(half.starts_with(r#"{"id":"chatcmpl-"#));
}

#[tokio::test]
async fn an_error_event_comes_inside_a_200_and_the_stream_ends_as_if_all_were_well() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    for (after, status) in [(0, 503), (3, 500)] {
        replica.set_fault(Fault::ErrorEvent { after, status }).await;
        let answer = chat(addr, true).await;
        assert_eq!(answer.status, 200);
        let events = answer.json_events();
        let (last, before) = events.split_last().unwrap();
        assert_eq!(last["error"]["code"].as_u64(), Some(u64::from(status)));
        let opening = usize::from(after > 0);
        assert_eq!(before.len(), after as usize + opening, "{}", answer.body);
        assert_eq!(chat(addr, false).await.status, status, "a whole answer has the status");
    }
    let message = json!({"model": "sim", "max_tokens": 8, "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let events = post(addr, "/v1/messages", &message).await.body;
    assert!(events.contains("event: error\n") && !events.contains("message_stop"), "{events}");
}

#[tokio::test]
async fn a_slow_replica_counts_the_longer_steps_in_its_own_clock() {
    let time_of = |factor: f64| async move {
        let sim = start(1);
        let (replica, addr) = first(&sim);
        replica.set_fault(Fault::Slow { factor }).await;
        chat(addr, true).await;
        let page = get(addr, "/metrics").await.body;
        let line =
            page.lines().find(|line| line.starts_with("vllm:inter_token_latency_seconds_sum")).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    let (normal, slow) = (time_of(1.0).await, time_of(20.0).await);
    assert!((19.9..20.1).contains(&(slow / normal)), "{normal} s and {slow} s between seven pairs of tokens");
}

#[tokio::test]
async fn a_frozen_engine_takes_requests_makes_no_token_and_looks_healthy() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(Fault::Frozen).await;
    let waiting = open(addr, CHAT, &body(true, 8)).await;
    replica.until(|counters| counters.running == 1).await.unwrap();
    assert_eq!(get(addr, "/health").await.status, 200);
    assert!(
        get(addr, "/metrics")
            .await
            .body
            .contains("vllm:num_requests_running{engine=\"0\",model_name=\"sim\"} 1.0")
    );
    assert_eq!(replica.counters().unwrap().generation_tokens, 0);
    replica.clear_faults().await;
    replica.until(|counters| counters.finished_length == 1).await.unwrap();
    drop(waiting);
}

#[tokio::test]
async fn a_slow_health_holds_up_nothing_else() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(Fault::SlowHealth(HOUR)).await;
    let health = tokio::spawn(async move { get(addr, "/health").await.status });
    assert_eq!([chat(addr, true).await.status, get(addr, "/metrics").await.status], [200, 200]);
    assert!(!health.is_finished());
    replica.clear_faults().await;
    assert_eq!(health.await.unwrap(), 200);
    replica.set_fault(Fault::SlowHealth(MOMENT)).await;
    assert_eq!(get(addr, "/health").await.status, 200);
}

#[tokio::test]
async fn a_flapping_replica_cuts_and_refuses_by_turns_and_comes_back_cold() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    chat(addr, true).await;
    replica.set_fault(Fault::Slow { factor: 1e6 }).await;
    let client = open(addr, CHAT, &body(true, 8)).await;
    replica.until(|counters| counters.running == 1).await.unwrap();
    replica.set_fault(Fault::Flap { alive: MOMENT, dead: HOUR }).await;
    replica.until_listening(false).await;
    assert!(is_refused(addr).await);
    let (said, _cut) = read_to_end(client).await;
    assert!(!said.contains("[DONE]"));
    replica.clear_faults().await;
    let cold = replica.until(|counters| counters.running == 0).await.unwrap();
    assert_eq!(cold.generation_tokens, 0);
    assert_eq!(chat(addr, true).await.status, 200);

    replica.set_fault(Fault::Flap { alive: MOMENT, dead: MOMENT }).await;
    for listening in [false, true, false, true] {
        replica.until_listening(listening).await;
    }
}

#[tokio::test]
async fn a_killed_replica_cuts_and_refuses_one_that_loads_says_so_and_both_come_back_cold() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    for fault in [Fault::Dead, Fault::Loading] {
        chat(addr, true).await;
        replica.set_fault(Fault::Slow { factor: 1e6 }).await;
        let client = open(addr, CHAT, &body(true, 8)).await;
        replica.until(|counters| counters.running == 1).await.unwrap();
        replica.set_fault(fault).await;
        let (said, _cut) = read_to_end(client).await;
        assert!(!said.contains("[DONE]"), "{said}");
        if fault == Fault::Dead {
            assert!(is_refused(addr).await);
        } else {
            let health = get(addr, "/health").await;
            assert!(health.status == 503 && health.body.contains("Loading model"), "{}", health.body);
            assert_eq!([chat(addr, true).await.status, chat(addr, false).await.status], [503, 503]);
        }
        replica.clear_faults().await;
        assert_eq!(replica.counters().unwrap().generation_tokens, 0, "a new process");
    }
    assert_eq!(chat(addr, true).await.status, 200);
}

/// As vLLM 0.32 was seen to: the finish reason `abort`, `[DONE]`, a clean end; whole answers are 200 with what there is.
#[tokio::test]
async fn a_terminated_replica_ends_running_answers_with_abort_and_is_gone() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(Fault::Slow { factor: 20.0 }).await;
    let stream = open(addr, CHAT, &body(true, 60_000)).await;
    let whole = open(addr, CHAT, &body(false, 60_000)).await;
    let message = json!({"model": "sim", "max_tokens": 60_000, "ignore_eos": true, "stream": true, "messages": [{"role": "user", "content": "x"}]});
    let message = open(addr, "/v1/messages", &message).await;
    replica.until(|counters| counters.running == 3 && counters.generation_tokens > 5).await.unwrap();
    replica.set_fault(Fault::Sigterm).await;
    assert!(is_refused(addr).await);
    let (stream, ended) = read_to_end(stream).await;
    assert!(stream.contains(r#""finish_reason":"abort""#) && stream.contains("data: [DONE]"), "{stream}");
    assert!(!stream.contains("error") && stream.ends_with("0\r\n\r\n") && ended == Ok(()));
    let (whole, _) = read_to_end(whole).await;
    assert!(whole.starts_with("HTTP/1.1 200") && whole.contains(r#""finish_reason":"abort""#), "{whole}");
    let (message, _) = read_to_end(message).await;
    assert!(
        message.contains(r#""stop_reason":null"#) && message.contains("event: message_stop"),
        "{message}"
    );
    replica.clear_faults().await;
    assert_eq!(chat(addr, true).await.status, 200);
    assert_eq!(replica.counters().unwrap().generation_tokens, 8, "a new process");
}

/// As vLLM 0.32 was seen to, each dialect in its own way.
#[tokio::test]
async fn when_the_engine_dies_its_streams_fail_in_their_dialect_and_health_says_so() {
    let sim = start(1);
    let (replica, addr) = first(&sim);
    replica.set_fault(Fault::Slow { factor: 20.0 }).await;
    let long = json!({"model": "sim", "max_tokens": 60_000, "max_output_tokens": 60_000, "ignore_eos": true,
        "stream": true, "input": "x", "messages": [{"role": "user", "content": "x"}]});
    let chat_stream = open(addr, CHAT, &long).await;
    let message = open(addr, "/v1/messages", &long).await;
    let response = open(addr, "/v1/responses", &long).await;
    replica.until(|counters| counters.running == 3 && counters.generation_tokens > 5).await.unwrap();
    replica.set_fault(Fault::EngineDead).await;
    let health = get(addr, "/health").await;
    assert_eq!((health.status, health.body.as_str()), (503, ""));
    let refused = chat(addr, true).await;
    assert_eq!((refused.status, refused.json()["error"]["code"].as_u64()), (500, Some(500)));
    let ended = |client: TcpStream| async move {
        let mut client = client;
        client.shutdown().await.unwrap();
        read_to_end(client).await.0
    };
    let chat_stream = ended(chat_stream).await;
    assert!(
        chat_stream.contains(r#""code": 500}}"#) && chat_stream.contains("data: [DONE]"),
        "{chat_stream}"
    );
    let message = ended(message).await;
    assert!(message.contains("event: error\n") && !message.contains("message_stop"), "{message}");
    let response = ended(response).await;
    assert!(!response.contains("response.completed") && !response.ends_with("0\r\n\r\n"), "{response}");
}

#[tokio::test]
async fn a_terminated_sim_waits_until_its_clients_have_their_ends() {
    let sim = start(2);
    let addrs = sim.addrs();
    sim.replicas()[1].set_fault(Fault::Slow { factor: 20.0 }).await;
    let client = open(addrs[1], CHAT, &body(true, 60_000)).await;
    sim.replicas()[1].until(|counters| counters.generation_tokens > 0).await.unwrap();
    sim.terminate().await;
    let (said, ended) = read_to_end(client).await;
    assert!(said.contains(r#""finish_reason":"abort""#) && said.ends_with("0\r\n\r\n"), "{said}");
    assert_eq!(ended, Ok(()));
    assert!(is_refused(addrs[0]).await && is_refused(addrs[1]).await);
}
