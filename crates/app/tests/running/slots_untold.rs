//! `slots = "auto"` in front of an engine that does not tell.

use sluicegate_testkit::answers::error_answer;
use sluicegate_testkit::{Upstream, send};

use crate::process::Process;

// The log is read on one thread while the engine answers on the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn slots_that_no_engine_tells_are_warned_of_once() {
    let engine = Upstream::start("m");
    engine.on_request(|_| vec![send(error_answer(404, "no such path"))]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.toml");
    let text = format!(
        r#"
        listen = {{ address = "127.0.0.1:0", threads = 1 }}
        admin = {{ address = "127.0.0.1:0" }}
        usage = {{ output = "off" }}
        [[pools]]
        name = "p"
        replicas = ["{}"]
        slots = "auto"
        health = {{ scrape_interval = "20ms", scrape_timeout = "20s" }}
        "#,
        engine.url()
    );
    std::fs::write(&file, text).unwrap();
    let mut process = Process::start(&["serve", "--config", file.to_str().unwrap()]);
    let line = process.line_with("tells no slots");
    assert!(line.contains("WARN") && line.contains(&*engine.url()), "{line}");
    assert!(line.contains("write a number as the pool's slots"), "{line}");
    let asked = &engine.counts().metrics_probes;
    asked.reached(asked.get() + 50).await;
    process.terminate();
    let ended = process.ended().await;
    assert!(!ended.stderr.contains("tells no slots"), "{}", ended.stderr);
}
