//! `sluicegate demo`.

use crate::process::Process;

#[tokio::test]
async fn it_ends_by_itself_with_a_summary_and_writes_usage_lines_where_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let usage = folder.path().join("usage.jsonl");
    let words =
        ["demo", "--seconds", "3", "--port", "0", "--admin-port", "0", "--usage", usage.to_str().unwrap()];
    let ended = Process::start(&words).ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for text in ["curl -N http://", "/api/state", "/metrics", ", 0 failed, 0 refused,", "TTFT     p50 "] {
        assert!(ended.stdout.contains(text), "{text} in {}", ended.stdout);
    }
    let lines = std::fs::read_to_string(usage).unwrap();
    let requests = ended.stdout.lines().find_map(|line| line.strip_prefix("requests ")).unwrap();
    let requests: usize = requests.split(':').next().unwrap().parse().unwrap();
    assert!(requests > 0);
    assert_eq!(lines.lines().count(), requests);
}

#[tokio::test]
async fn without_traffic_it_only_waits() {
    let words = ["demo", "--seconds", "1", "--port", "0", "--admin-port", "0", "--no-traffic"];
    let ended = Process::start(&words).ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("requests 0: "), "{}", ended.stdout);
}

#[tokio::test]
async fn a_taken_port_is_answered_with_the_flag_that_changes_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for (words, flag) in [
        (["demo", "--port", &port, "--admin-port", "0"], "--port N"),
        (["demo", "--admin-port", &port, "--port", "0"], "--admin-port N"),
    ] {
        let ended = Process::start(&words).ended().await;
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(flag), "{}", ended.stderr);
    }
}
