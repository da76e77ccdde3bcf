//! `sluicegate demo`.

use std::process::{Command, Stdio};

use crate::process::{BINARY, Process};

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
        assert_eq!(ended.stderr.matches("os error").count(), 1, "{}", ended.stderr);
    }
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let other = other.local_addr().unwrap().port().to_string();
    let ended = Process::start(&["demo", "--port", &port, "--admin-port", &other]).ended().await;
    for text in [&*port, &*other, "--port N and --admin-port N"] {
        assert!(ended.stderr.contains(text), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn what_its_own_end_breaks_off_is_not_counted_as_left_by_clients() {
    let words = ["demo", "--seconds", "2", "--port", "0", "--admin-port", "0"];
    let ended = Process::start(&words).ended().await;
    assert!(ended.stdout.contains(", 0 left by their client;"), "{}", ended.stdout);
    let running = ended.stdout.lines().find_map(|line| line.strip_prefix("running  ")).unwrap();
    let running: usize = running.strip_suffix(" at the end, broken off").unwrap().parse().unwrap();
    assert!(running > 0, "{}", ended.stdout);
}

#[tokio::test]
async fn it_ends_quietly_when_nobody_reads_it_any_more() {
    let mut command = Command::new(BINARY);
    command.args(["demo", "--port", "0", "--admin-port", "0"]).stdout(Stdio::piped());
    let ended = Process::spawn(&mut command).ended_after_a_line().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("error"), "{}", ended.stderr);
}

#[tokio::test]
async fn with_routes_each_question_goes_to_the_model_that_it_deserves_and_it_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let usage = folder.path().join("usage.jsonl");
    let usage = usage.to_str().unwrap();
    let words = ["demo", "--routes", "--port", "0", "--admin-port", "0", "--usage", usage];
    let mut demo = Process::start(&words);
    for (question, model, other) in [("Hello!", "demo-4b", "demo-32b"), ("Prove that", "demo-32b", "demo-4b")]
    {
        let line = demo.told(question);
        // The model that answered stands before what the service says of both.
        assert!(line[50..].starts_with(&format!(" {model} ")), "{line}");
        assert!(line.contains(&format!("{other} 0.")) && line.contains("; sure "), "{line}");
    }
    demo.terminate();
    let ended = demo.ended().await;
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("models   demo-32b "), "{}", ended.stdout);
    let lines = std::fs::read_to_string(usage).unwrap();
    assert!(lines.contains(r#""reason":"policy""#), "{lines}");
}
