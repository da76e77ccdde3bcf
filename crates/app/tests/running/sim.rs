//! `sluicegate sim`.

use std::net::SocketAddr;

use serde_json::json;

use crate::http::{get, post};
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

#[tokio::test]
async fn its_help_names_the_paths_that_it_has() {
    let help = Process::start(&["sim", "--help"]).ended().await.stdout;
    let listed = &help[help.find("Each replica answers").unwrap()..help.find("SIGTERM").unwrap()];
    let words = listed.split([' ', ',', '\n', '(']).map(|word| word.trim_end_matches(['.', ')']));
    let paths: Vec<_> = words.filter(|word| word.starts_with('/') && !word.ends_with("ID")).collect();
    assert!(paths.len() >= 12, "{listed}");
    let mut sim = Process::start(&["sim", "--listen", "127.0.0.1:0"]);
    let line = sim.line_with("simulated replica of");
    let address: SocketAddr = line.split("http://").nth(1).unwrap().trim().parse().unwrap();
    for path in paths {
        assert_ne!(get(address, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn it_starts_with_the_faults_it_is_given() {
    let words = ["sim", "--listen", "127.0.0.1:0", "--replicas", "2", "--fault", "1:engine-dead"];
    let mut sim = Process::start(&words);
    for status in [200, 503] {
        let line = sim.line_with("simulated replica of");
        let address: SocketAddr = line.split("http://").nth(1).unwrap().trim().parse().unwrap();
        assert_eq!(get(address, "/health").await.status, status);
    }
}

#[tokio::test]
async fn it_serves_a_decision_service_that_gives_hard_questions_to_the_large_model() {
    let mut sim =
        Process::start(&["sim", "--listen", "127.0.0.1:0", "--decision", "127.0.0.1:0", "--model", "m"]);
    let line = sim.line_with("simulated decision service on");
    let address: SocketAddr = line.split("http://").nth(1).unwrap().trim().parse().unwrap();
    assert_eq!(get(address, "/health").await.status, 200);
    let engines = get(address, "/v1/models").await;
    assert!(engines.body.contains(r#""id":"jev-latest""#), "{}", engines.body);
    for (state, expected) in [("user: Hi", "a-4b"), ("user: Prove the theorem.", "b-70b")] {
        let body = json!({ "model": "jev-latest", "state": state, "questions": { "model_selection": {
            "type": "choice", "instructions": "Choose.", "criteria": { "a-4b": null, "b-70b": "Hard questions" } } } });
        let answer = post(address, "/v1/systemone", &body.to_string()).await.json();
        assert_eq!(answer["answers"]["model_selection"]["choice"], expected, "{answer}");
    }
    assert_eq!(post(address, "/v1/systemone", "{}").await.status, 400);
    assert_eq!(get(address, "/v1/chat/completions").await.status, 404);
}
