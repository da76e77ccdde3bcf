//! `sluicegate replay`.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::run;

/// Forty requests of ten talks, in the form of the Mooncake traces.
fn trace(folder: &TempDir) -> PathBuf {
    let mut text = String::new();
    for at in 0..40_u32 {
        let (talk, turn) = (at % 10, at / 10);
        let ids: Vec<u32> =
            std::iter::once(0).chain((0..=4 * turn + 3).map(|i| talk * 100 + i + 1)).collect();
        let (timestamp, input_length) = (at * 700, ids.len() * 512);
        writeln!(
            text,
            r#"{{"timestamp":{timestamp},"input_length":{input_length},"output_length":20,"hash_ids":{ids:?}}}"#
        )
        .unwrap();
    }
    let path = folder.path().join("trace.jsonl");
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn policies_are_shown_side_by_side_and_the_same_command_prints_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let words = ["replay", trace.to_str().unwrap(), "--replicas", "4", "--policy", "all", "--json"];
    let (first, again) = (run(&words), run(&[&words[..], &["--threads", "1"]].concat()));
    assert_eq!((first.code, first.stderr.as_str()), (Some(0), ""));
    assert_eq!(first.stdout, again.stdout);
    let report: Value = serde_json::from_str(&first.stdout).unwrap();
    assert_eq!((&report["trace"], &report["requests"]), (&"trace.jsonl".into(), &40.into()));
    let policies = report["policies"].as_array().unwrap();
    assert!(policies.len() > 15);
    for policy in policies {
        assert_eq!(policy["outcomes"]["ok"], 40, "{policy}");
        assert!(policy["ttft_seconds"]["mean"].as_f64().unwrap() > 0.0);
    }
    let hits = |name: &str| {
        let policy = policies.iter().find(|policy| policy["policy"] == name).unwrap();
        policy["cached_token_share"].as_f64().unwrap()
    };
    assert!(hits("session-hash") > 0.5 && hits("session-hash") > 2.0 * hits("random"));
}

#[test]
fn a_load_is_a_part_of_what_round_robin_keeps_up_with() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let rate = |load: &str| {
        let words = [
            "replay",
            trace.to_str().unwrap(),
            "--replicas",
            "2",
            "--policy",
            "round-robin",
            "--json",
            "--load",
            load,
        ];
        let report: Value = serde_json::from_str(&run(&words).stdout).unwrap();
        report["speed"].as_f64().unwrap()
    };
    assert!((rate("0.8") / rate("0.4") - 2.0).abs() < 1e-9);
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, page) = (trace(&folder), folder.path().join("replay.html"));
    let ended = run(&["replay", trace.to_str().unwrap(), "--limit", "20", "--html", page.to_str().unwrap()]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("20 requests") && ended.stdout.contains("\nadaptive "), "{}", ended.stdout);
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 3);
    let links = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!links.contains("http") && !page.contains("<script"));
}

const CONFIG: &str = r#"
[[pools]]
name = "large"
replicas = ["http://10.0.0.11:8000", "http://10.0.0.12:8000"]
slots = 1

[[pools]]
name = "small"
replicas = ["http://10.0.0.13:8000"]

[[routes]]
model = "qwen3-32b"
aliases = ["best"]
mode = "round_robin"
[[routes.targets]]
pool = "large"

[[routes]]
model = "qwen3-8b"
[[routes.targets]]
pool = "small"
"#;

#[test]
fn a_configuration_takes_the_place_of_policies() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("changed.toml");
    std::fs::write(&config, CONFIG).unwrap();
    let log = folder.path().join("usage.jsonl");
    let line = |at: u32| {
        let route = ["qwen3-32b", "qwen3-8b", "best", "qwen3-32b", "gone"][at as usize % 5];
        format!(
            r#"{{"time":"2026-02-03T04:05:00.{at:03}Z","outcome":"ok","key":"k","route":"{route}","stream":true,"prompt_tokens":4000,"cached_tokens":0,"completion_tokens":50}}"#
        ) + "\n"
    };
    std::fs::write(&log, (0..50).map(line).collect::<String>()).unwrap();
    let words = ["replay", log.to_str().unwrap(), "--config", config.to_str().unwrap(), "--json"];
    let ended = run(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("10 of 50 requests are left out"), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["config"], &report["replicas"]), (&"changed.toml".into(), &3.into()));
    let rows: Vec<_> = report["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["policy"].as_str().unwrap(), row["requests"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("pool large", 30), ("pool small", 10)]);
    let queued = |row: usize| report["policies"][row]["queued_seconds_mean"].as_f64().unwrap();
    assert!(queued(0) > 1.0 && queued(1) == 0.0, "one slot each, and the queue is the gateway's");
}

#[test]
fn what_is_wrong_is_said_and_how_to_mend_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let trace = trace.to_str().unwrap();
    let other = folder.path().join("other.txt");
    std::fs::write(&other, "hello\n").unwrap();
    let config = folder.path().join("bad.toml");
    std::fs::write(&config, "[[pools]]\nname = 7\n").unwrap();
    let rows: [(&[&str], i32, &str); 6] = [
        (&["replay", trace, "--config", config.to_str().unwrap()], 2, "bad.toml:2"),
        (&["replay", trace, "--config", "x.toml", "--policy", "all"], 2, "cannot be used with"),
        (&["replay", trace, "--policy", "adaptive-wait"], 2, "there are: all, round-robin"),
        (&["replay", trace, "--load", "0"], 2, "a number above 0"),
        (&["replay", other.to_str().unwrap()], 2, "neither of Mooncake nor of Azure nor a usage line"),
        (&["replay", "missing.jsonl"], 2, "cannot open missing.jsonl"),
    ];
    for (words, code, said) in rows {
        let ended = run(words);
        assert_eq!(ended.code, Some(code), "{words:?}");
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
