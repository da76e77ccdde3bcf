//! `sluicegate serve` and its end.

use std::net::SocketAddr;

use serde_json::{Value, json};
use sluicegate_lab::sim::{Sim, SimConfig};
use sluicegate_testkit::patiently;

use crate::http::{CHAT, Sent, chat, get, post, send};
use crate::process::{Ended, Process};

struct Serving {
    sim: Sim,
    process: Process,
    address: SocketAddr,
    admin: SocketAddr,
}

impl Serving {
    async fn start() -> Self {
        let sim = Sim::start(SimConfig { replicas: 1, ..SimConfig::default() }).unwrap();
        let replica = format!("http://{}", sim.addrs()[0]);
        let mut process = Process::start(&[
            "serve",
            "--replica",
            &replica,
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--threads",
            "1",
        ]);
        let (address, admin) = process.addresses();
        patiently(async { while get(admin, "/readyz").await.status != 200 {} }).await;
        Self { sim, process, address, admin }
    }

    async fn drain_begun(&self) {
        patiently(async { while get(self.admin, "/readyz").await.status != 503 {} }).await;
    }

    async fn stream(&self, tokens: u32) -> Sent {
        let mut stream = send(self.address, "POST", CHAT, &chat(tokens, true)).await;
        stream.read_until("data: ").await;
        stream
    }

    async fn ended(self) -> (Ended, Vec<Value>) {
        let ended = self.process.ended().await;
        self.sim.shutdown().await;
        let lines = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (ended, lines)
    }
}

#[tokio::test]
async fn a_signal_ends_it_with_0_and_every_usage_line_on_standard_output() {
    let serving = Serving::start().await;
    for _ in 0..3 {
        assert_eq!(post(serving.address, CHAT, &chat(2, false)).await.status, 200);
    }
    serving.process.terminate();
    let (ended, lines) = serving.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(lines.len(), 3);
    assert!(lines.iter().all(|line| line["outcome"] == "ok"), "{lines:?}");
}

#[tokio::test]
async fn a_running_stream_is_finished_before_the_end() {
    let serving = Serving::start().await;
    let stream = serving.stream(60).await;
    serving.process.terminate();
    serving.drain_begun().await;
    assert!(stream.rest().await.contains("data: [DONE]"));
    let (ended, lines) = serving.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["outcome"], &lines[0]["completion_tokens"]), (&json!("ok"), &json!(60)));
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once_and_the_usage_line_is_still_written() {
    let serving = Serving::start().await;
    let stream = serving.stream(100_000).await;
    serving.process.terminate();
    serving.drain_begun().await;
    serving.process.terminate();
    assert!(!stream.rest().await.contains("data: [DONE]"));
    let (ended, lines) = serving.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(lines.len(), 1, "{}", ended.stderr);
    assert_ne!(lines[0]["outcome"], "ok");
}

#[tokio::test]
async fn a_taken_port_ends_it_with_1_and_leaves_nothing_behind() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap();
    for (taken_flag, free_flag) in [("--listen", "--admin"), ("--admin", "--listen")] {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (taken, free_text) = (taken.to_string(), free.to_string());
        let words = ["serve", "--replica", "http://127.0.0.1:1", taken_flag, &taken, free_flag, &free_text];
        let ended = Process::start(&words).ended().await;
        assert_eq!(ended.status.code(), Some(1), "{taken_flag}: {}", ended.stderr);
        assert!(ended.stderr.contains(&taken), "{taken_flag}: {}", ended.stderr);
        assert!(tokio::net::TcpStream::connect(free).await.is_err(), "{free_flag}");
    }
}

#[tokio::test]
async fn a_hangup_is_told_and_ends_nothing() {
    let mut serving = Serving::start().await;
    let stream = serving.stream(60).await;
    serving.process.signal("HUP");
    serving.process.line_with("SIGHUP: reload is not supported yet; ignored");
    assert!(stream.rest().await.contains("data: [DONE]"));
    assert_eq!(post(serving.address, CHAT, &chat(2, false)).await.status, 200);
    serving.process.terminate();
    let (ended, lines) = serving.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(lines.len(), 2);
}

#[tokio::test]
async fn two_taken_ports_are_told_at_once_and_the_systems_words_only_once() {
    let listeners = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [listen, admin] = listeners.each_ref().map(|listener| listener.local_addr().unwrap().to_string());
    let words = ["serve", "--replica", "http://127.0.0.1:1", "--listen", &listen, "--admin", &admin];
    let ended = Process::start(&words).ended().await;
    let told = ended.stderr.lines().last().unwrap();
    assert!(told.contains(&listen) && told.contains(&admin), "{told}");
    assert_eq!(told.matches("os error").count(), 1, "{told}");
}

#[tokio::test]
async fn the_addresses_are_told_through_the_log_and_usage_lines_go_where_the_flag_says() {
    let words =
        ["serve", "--replica", "http://127.0.0.1:1", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    let mut process = Process::start(&[&words[..], &["--usage", "off"]].concat());
    let line = process.line_with(" listens on ");
    assert!(line.contains(" INFO ") && line.starts_with("20"), "{line}");
    process.terminate();
    assert_eq!(process.ended().await.stdout, "");

    let ended = Process::start(&[&words[..], &["--usage", "/no/such/folder/u.jsonl"]].concat()).ended().await;
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.contains("/no/such/folder/u.jsonl"), "{}", ended.stderr);
    assert_eq!(ended.stderr.matches("os error").count(), 1, "{}", ended.stderr);
}
