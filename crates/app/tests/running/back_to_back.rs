//! A-58 with a log that takes nothing: who waits for the log is never the next request.

use std::process::Command;

use sluicegate_testkit::requests::{CHAT, chat, post_as};
use sluicegate_testkit::{Config, RawClient, Upstream, patiently};

use crate::http::get;
use crate::outputs::stuck_output;
use crate::process::{BINARY, Process};

#[tokio::test]
async fn a_58_a_stuck_log_takes_no_keys_place() {
    let up = Upstream::start("m1");
    let config = Config::new(&[&up])
        .set("usage", "output", "stdout")
        .set("pools", "slots", 1)
        .set("routes.queue", "max_length", 0)
        .key("ann")
        .key_set("max_concurrent", 1);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sluicegate.toml");
    std::fs::write(&file, config.text()).unwrap();
    let (stdout, _reader) = stuck_output();
    let words = ["serve", "--config", file.to_str().unwrap()];
    let mut process = Process::spawn(Command::new(BINARY).args(words).stdout(stdout));
    let (address, admin) = process.addresses();
    patiently(async { while get(admin, "/readyz").await.status != 200 {} }).await;
    let mut clients = [RawClient::connect(address).await, RawClient::connect(address).await];
    for n in 0..500 {
        // On the same connection most of the time, now and then on another.
        let members = if n % 2 == 0 { "" } else { r#","stream":true"# };
        let answer =
            clients[usize::from(n % 5 == 0)].exchange(&post_as("ann", CHAT, &chat("m1", members))).await;
        assert_eq!(answer.status(), 200, "request {n}: {}", answer.text());
    }
    assert_eq!(up.counts().requests.get(), 500);
}
