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

/// The names of a table's numbers, without those of its first columns; each p50, p95 and p99 with what it is of.
pub(crate) fn headings(line: &str, names: usize) -> Vec<String> {
    let mut of = "";
    let words = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).skip(names);
    words
        .map(|word| {
            of = word.strip_suffix(" mean").unwrap_or(of);
            if word.starts_with('p') { format!("{of} {word}") } else { word.to_owned() }
        })
        .collect()
}

/// The numbers of a row of the JSON, written as tables write them.
pub(crate) fn numbers_of(row: &Value, names: &[String]) -> Vec<String> {
    let number = |value: &Value, factor: f64, decimals: usize| {
        value.as_f64().map_or_else(|| "-".into(), |value| format!("{:.decimals$}", value * factor))
    };
    let one = |name: &String| match name.as_str() {
        "hit %" => number(&row["cached_token_share"], 100.0, 1),
        "imbalance" => number(&row["imbalance_mean"], 1.0, 1),
        "queued" => number(&row["queued_seconds_mean"], 1.0, 3),
        "requests" | "refused" | "fallback" | "failed" => number(&row[name.as_str()], 1.0, 0),
        _ => match name.split_once(' ') {
            Some(("TTFT", part)) => number(&row["ttft_seconds"][part], 1.0, 3),
            Some(("E2E", part)) => number(&row["total_seconds"][part], 1.0, 2),
            _ => panic!("an unknown column: {name}"),
        },
    };
    names.iter().map(one).collect()
}

#[test]
fn the_numbers_of_the_table_are_those_of_the_json() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let words = ["replay", trace.to_str().unwrap(), "--replicas", "3", "--policy", "all"];
    let report: Value = serde_json::from_str(&run(&[&words[..], &["--json"]].concat()).stdout).unwrap();
    let table = run(&words).stdout;
    let mut lines = table.lines().skip_while(|line| !line.starts_with("policy "));
    let names = headings(lines.next().unwrap(), 1);
    assert_eq!(names.len(), 10, "{names:?}");
    let rows: Vec<Vec<String>> =
        lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    let expected =
        |row: &Value| [vec![row["policy"].as_str().unwrap().to_owned()], numbers_of(row, &names)].concat();
    let expected: Vec<_> = report["policies"].as_array().unwrap().iter().map(expected).collect();
    assert_eq!(rows, expected);
}

#[test]
fn the_members_of_the_json_are_these_with_their_units_in_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(&folder);
    let words = ["replay", trace.to_str().unwrap(), "--policy", "adaptive", "--json"];
    let report: Value = serde_json::from_str(&run(&words).stdout).unwrap();
    let members = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let whole =
        "form load policies profile replicas requests requests_per_second seed speed trace without_prompt";
    assert_eq!(members(&report), whole);
    let row = &report["policies"][0];
    let figures = "cached_token_share failed fallback imbalance_mean ok outcomes policy queued_seconds_mean refused \
                   requests total_seconds ttft_seconds untimed";
    assert_eq!(members(row), figures);
    for times in [&row["ttft_seconds"], &row["total_seconds"]] {
        assert_eq!(members(times), "mean p50 p95 p99");
        let times = ["mean", "p50", "p95", "p99"].map(|part| times[part].as_f64().unwrap());
        assert!(times.iter().all(|seconds| (0.001..60.0).contains(seconds)), "seconds: {times:?}");
    }
    assert!((0.0..=1.0).contains(&row["cached_token_share"].as_f64().unwrap()), "a part of one");
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
