//! `sluicegate sim`.

use std::net::SocketAddr;

use crate::http::get;
use crate::process::Process;

#[tokio::test]
async fn it_serves_its_replicas_until_a_signal_ends_it_with_0() {
    let mut sim = Process::start(&["sim", "--listen", "127.0.0.1:0", "--replicas", "2", "--model", "m"]);
    for _ in 0..2 {
        let line = sim.line_with("simulated replica of m on");
        let address: SocketAddr = line.split("http://").nth(1).unwrap().trim().parse().unwrap();
        assert_eq!(get(address, "/health").await.status, 200);
    }
    sim.terminate();
    let ended = sim.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}
