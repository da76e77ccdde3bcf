//! `sluicegate verify`, as a user calls it.

use serde_json::Value;

use crate::process::{Ended, Process};

async fn verify(words: &[&str]) -> Ended {
    Process::start(&[&["verify"], words].concat()).ended().await
}

fn verdicts(ended: &Ended) -> Vec<(String, String)> {
    let all: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{}", ended.stderr));
    let rows = all["rows"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    rows.map(|row| (text(&row["id"]), text(&row["verdict"]))).collect()
}

fn all_pass(ids: &[&str]) -> Vec<(String, String)> {
    ids.iter().map(|id| ((*id).to_owned(), "pass".to_owned())).collect()
}

#[tokio::test]
async fn live_promises_hold_before_simulated_replicas() {
    let mut sim = Process::start(&["sim", "--listen", "127.0.0.1:0", "--replicas", "3"]);
    let mut url = || {
        let line = sim.line_with("simulated replica of");
        format!("http://{}", line.split("http://").nth(1).unwrap().trim())
    };
    let urls = [url(), url(), url()];
    let words: Vec<&str> = ["--json", "--live"].into_iter().chain(urls.iter().map(String::as_str)).collect();
    let ended = verify(&words).await;
    assert_eq!(verdicts(&ended), all_pass(&["G2", "G7", "G9", "G13", "G17"]), "{}", ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
}

#[tokio::test]
async fn a_promise_that_fails_ends_it_with_1_and_one_that_is_pending_with_0() {
    let ended = verify(&["--only", "g2,G14", "--mode", "adaptive", "--json", "--seed", "7"]).await;
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
    let expected = [("G2", "pass"), ("G14", "pending")].map(|(id, verdict)| (id.into(), verdict.into()));
    assert_eq!(verdicts(&ended), expected);
    let again = verify(&["--only", "g2,G14", "--mode", "adaptive", "--json", "--seed", "7"]).await;
    assert_eq!(again.stdout, ended.stdout, "the same seed measures the same");
    let ended = verify(&["--only", "G15", "--mode", "adaptive", "--without", "poison-guard"]).await;
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stdout.ends_with("\n0 of 1 promises hold\n"), "{}", ended.stdout);
    assert!(ended.stderr.starts_with("error: 1 of 1 rows failed"), "{}", ended.stderr);
}

#[tokio::test]
async fn mistakes_end_it_with_2_and_say_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let empty = verify(&["--scenarios", path]).await;
    std::fs::write(folder.path().join("x.toml"), UNKNOWN_MEASURE).unwrap();
    let unknown = verify(&["--scenarios", path]).await;
    assert!(unknown.stderr.contains("line 10, column 11"), "{}", unknown.stderr);
    for (ended, part) in [
        (empty, "no file ends in .toml"),
        (unknown, "spread_off"),
        (verify(&["--scenarios", "/no/such/folder"]).await, "cannot read /no/such/folder"),
        (verify(&["--only", "G77"]).await, "there are: G1, G2"),
        (verify(&["--mode", "best"]).await, "expected one of: adaptive, predictive, consistent"),
        (verify(&["--without", "luck"]).await, "expected one of: affinity"),
        (verify(&["--seed", "one"]).await, "--seed"),
        (verify(&["--live"]).await, "--live"),
        (verify(&["--live", "http://127.0.0.1:1"]).await, "two URLs or more"),
        (verify(&["--live", "ftp://h", "http://h"]).await, "starts with http://"),
        (verify(&["--live", "http://a", "http://b", "--seed", "2"]).await, "cannot be used with"),
        (verify(&["--only", "G5", "--live", "http://a", "http://b"]).await, "it kills a replica"),
    ] {
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "{part:?} is not in: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
}

const UNKNOWN_MEASURE: &str = r#"
id = "X1"
promise = "a burst is spread"
run_for = "1m"
[[requests]]
name = "burst"
at = "20s"
count = 16
[[allowed]]
measure = "spread_off"
max = 1
"#;
