//! `sluicegate replay --config`: several pools and routes, one configuration against another.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::binary::{Ended, run};
use crate::replay::{headings, numbers_of};

const PRESENT: &str = r#"
[[pools]]
name = "large"
replicas = ["http://10.0.0.11:8000", "http://10.0.0.12:8000"]
slots = 1

[[pools]]
name = "small"
replicas = ["http://10.0.0.13:8000"]

[[pools]]
name = "provider"
engine = "openai"
replicas = ["https://api.example.com"]

[[routes]]
model = "qwen3-32b"
aliases = ["best"]
mode = "round_robin"
[[routes.targets]]
pool = "large"
[routes.queue]
max_length = 2
max_wait = "5s"
[routes.fallback]
pool = "provider"

[[routes]]
model = "qwen3-8b"
[[routes.targets]]
pool = "small"
weight = 1
[[routes.targets]]
pool = "large"
weight = 3

[[keys]]
name = "team-a"
hash = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
priority = 5
requests_per_minute = 10

[[keys]]
name = "team-b"
hash = "sha256:0000000000000000000000000000000000000000000000000000000000000002"
routes = ["qwen3-32b"]
"#;

/// A day's log and two configurations.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { folder: tempfile::tempdir().unwrap() };
        let model = |at: usize| ["qwen3-32b", "qwen3-8b", "best", "qwen3-32b", "gone", "<i>"][at % 6];
        let key = |at: usize| ["team-a", "team-a", "team-b", "team-c"][at / 6 % 4];
        let mut log = String::new();
        for at in 0..96 {
            let (second, model, key) = (at / 10, model(at), key(at));
            writeln!(
                log,
                r#"{{"time":"2026-02-03T04:05:{second:02}.{at:03}Z","outcome":"ok","key":"{key}","model":"{model}","route":"x","stream":true,"prompt_tokens":4000,"cached_tokens":0,"completion_tokens":50}}"#
            )
            .unwrap();
        }
        log +=
            r#"{"time":"2026-02-03T04:05:11.000Z","outcome":"rejected_limit","key":"team-a","model":"best"}"#;
        bench.file("usage.jsonl", &(log + "\n"));
        bench.file("present.toml", PRESENT);
        bench.file(
            "changed.toml",
            &PRESENT.replace("slots = 1", "slots = 8").replace("\"round_robin\"", "\"predictive\""),
        );
        bench
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `replay` of the log with these words, files by their names.
    fn replay(&self, words: &[&str]) -> Ended {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        let word = |word: &&str| match word.rsplit_once('.') {
            Some((_, "toml" | "jsonl" | "html")) => path(word),
            _ => (*word).to_owned(),
        };
        let words: Vec<String> = ["replay", "usage.jsonl"].iter().chain(words).map(word).collect();
        run(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn json(&self, words: &[&str]) -> Value {
        let ended = self.replay(&[words, &["--json"]].concat());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{}", ended.stdout);
        serde_json::from_str(&ended.stdout).unwrap()
    }
}

fn named<'v>(parts: &'v Value, kind: &str, name: &str) -> &'v Value {
    let is = |part: &&Value| part[kind] == name;
    parts.as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {kind} {name} in {parts}"))
}

#[test]
fn each_request_goes_by_its_model_to_its_route_and_what_has_none_is_named() {
    let bench = Bench::new();
    let report = bench.json(&["--config", "present.toml"]);
    assert_eq!((&report["requests"], &report["without_prompt"]["rejected_limit"]), (&96.into(), &1.into()));
    let one = &report["configurations"][0];
    assert_eq!((&one["config"], &one["replicas"]), (&"present.toml".into(), &4.into()));
    // Of each 24: 12 are of team-a, 6 of team-b, 6 of a key that is not there.
    let left = &one["not_played"];
    assert_eq!((&left["keys"]["team-c"], &left["not_allowed"]["team-b: qwen3-8b"]), (&24.into(), &4.into()));
    assert_eq!((&left["models"]["gone"], &left["models"]["<i>"]), (&12.into(), &12.into()));
    assert_eq!((&one["played"], &one["unplayed"]), (&44.into(), &52.into()));
    let requests = |part: &Value| part["requests"].as_u64().unwrap();
    let (big, small) =
        (named(&one["routes"], "route", "qwen3-32b"), named(&one["routes"], "route", "qwen3-8b"));
    assert_eq!((requests(&one["total"]), requests(big), requests(small)), (44, 36, 8));
    let at = |pool: &str| named(&one["pools"], "pool", pool);
    assert_eq!(requests(at("small")), 2, "a quarter of its route's");
    assert_eq!(requests(at("large")) + requests(at("small")) + requests(at("provider")), 44);
}

#[test]
fn a_full_queue_sends_to_the_fallback_whose_times_nobody_knows() {
    let bench = Bench::new();
    let report = bench.json(&["--config", "present.toml"]);
    let one = &report["configurations"][0];
    let provider = named(&one["pools"], "pool", "provider");
    let fallen = provider["requests"].as_u64().unwrap();
    assert!(fallen > 5, "{provider}");
    assert_eq!((&one["total"]["fallback"], &one["total"]["untimed"]), (&fallen.into(), &fallen.into()));
    assert_eq!((&provider["ttft_seconds"]["mean"], &provider["profile"]), (&Value::Null, &Value::Null));
    assert!(one["assumed"].to_string().contains("pool provider is a provider's API"), "{}", one["assumed"]);
    assert!(
        one["assumed"].to_string().contains("limits of keys are not applied: team-a"),
        "{}",
        one["assumed"]
    );
    // With a profile it is an engine like others.
    let report = bench.json(&["--config", "present.toml", "--profile", "provider=8b", "--profile", "h100"]);
    let one = &report["configurations"][0];
    let provider = named(&one["pools"], "pool", "provider");
    assert!(provider["ttft_seconds"]["mean"].as_f64().unwrap() > 0.1);
    assert_eq!((&one["total"]["untimed"], &provider["profile"]), (&0.into(), &"8b".into()));
}

#[test]
fn without_a_fallback_a_full_queue_refuses_and_says_so() {
    let bench = Bench::new();
    let fallback = "[routes.fallback]\npool = \"provider\"\n";
    bench.file("alone.toml", &PRESENT.replace(fallback, ""));
    let report = bench.json(&["--config", "alone.toml"]);
    let one = &report["configurations"][0];
    let refused = one["total"]["refused"].as_u64().unwrap();
    assert!(refused > 5);
    assert_eq!(one["total"]["outcomes"]["rejected_queue"], refused);
    for part in [named(&one["routes"], "route", "qwen3-32b"), named(&one["pools"], "pool", "large")] {
        assert_eq!(part["refused"], refused, "{part}");
    }
    assert_eq!(named(&one["pools"], "pool", "small")["refused"], 0);
}

#[test]
fn two_configurations_are_shown_side_by_side_with_the_difference_in_per_cent() {
    let bench = Bench::new();
    let words = ["--config", "present.toml", "--config", "changed.toml"];
    let report = bench.json(&words);
    let [present, changed] = report["configurations"].as_array().unwrap().as_slice() else {
        panic!("{report}")
    };
    assert_eq!(present["total"]["change_percent"], Value::Null);
    let mean = |one: &Value| one["total"]["ttft_seconds"]["mean"].as_f64().unwrap();
    let expected = (mean(changed) / mean(present) - 1.0) * 100.0;
    let told = changed["total"]["change_percent"]["ttft_seconds"]["mean"].as_f64().unwrap();
    assert!((told - expected).abs() < 1e-6 && told < -10.0, "{told} {expected}");
    let route = named(&changed["routes"], "route", "qwen3-32b");
    assert_eq!(route["change_percent"]["fallback"], -100.0);
    let ended = bench.replay(&words);
    let shown: Vec<&str> = ended.stdout.lines().filter(|line| line.contains("change, %")).collect();
    assert_eq!(shown.len(), 6, "the whole, two routes, three pools: {}", ended.stdout);
    assert!(shown[0].contains(&format!("{told:+.1}")), "{}", shown[0]);
}

#[test]
fn the_numbers_of_the_table_are_those_of_the_json() {
    let bench = Bench::new();
    let words = ["--config", "present.toml", "--config", "changed.toml"];
    let (report, table) = (bench.json(&words), bench.replay(&words).stdout);
    let mut seen = 0;
    let mut lines = table.lines().skip_while(|line| !line.starts_with("part "));
    let names = headings(lines.next().unwrap(), 2);
    let mut part = String::new();
    for line in lines {
        let cells: Vec<&str> = line.split_whitespace().collect();
        if line.contains("change, %") {
            continue;
        }
        if !line.starts_with(' ') {
            part = cells[..cells.len() - names.len() - 1].join(" ");
        }
        let (config, cells) = (cells[cells.len() - names.len() - 1], &cells[cells.len() - names.len()..]);
        let all = report["configurations"].as_array().unwrap();
        let one = all.iter().find(|one| one["config"] == config).unwrap();
        let row = match part.split_once(' ') {
            Some(("route", name)) => named(&one["routes"], "route", name),
            Some((_, name)) => named(&one["pools"], "pool", name),
            None => &one["total"],
        };
        assert_eq!(numbers_of(row, &names), cells, "{line}");
        seen += 1;
    }
    assert_eq!(seen, 12);
}

#[test]
fn what_keeps_a_configuration_from_being_played_is_said_with_a_way_out() {
    let bench = Bench::new();
    bench.file(
        "other.toml",
        &PRESENT
            .replace("\"qwen3-32b\"", "\"q\"")
            .replace("\"qwen3-8b\"", "\"r\"")
            .replace("\"best\"", "\"s\""),
    );
    let list = r#"["http://10.0.0.11:8000", "http://10.0.0.12:8000"]"#;
    let discovered = r#"[]
discover = { source = "dns", name = "vllm.internal", port = 8000 }"#;
    bench.file("discovered.toml", &PRESENT.replace(list, discovered));
    bench.file(
        "nameless.jsonl",
        "{\"timestamp\":0,\"input_length\":9,\"output_length\":9,\"hash_ids\":[0]}\n",
    );
    let rows: [(&[&str], &[&str]); 6] = [
        (
            &["--config", "other.toml"],
            &["other.toml", "none of the 96 requests", "qwen3-32b (", "its routes: q, r"],
        ),
        (
            &["--config", "discovered.toml"],
            &["pool large: the file names no replica", "vllm.internal", "replicas = ["],
        ),
        (
            &["--config", "present.toml", "--profile", "tiny=8b"],
            &["no pool of that name", "large, provider, small"],
        ),
        (&["--profile", "large=8b"], &["give one with --config"]),
        (&["--config", "present.toml", "--profile", "x9"], &["--profile x9", "h100", "or a file"]),
        (&["--model", "qwen3-8b"], &["--config"]),
    ];
    for (words, says) in rows {
        let ended = bench.replay(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
        for part in says {
            assert!(ended.stderr.contains(part), "{words:?}: {}", ended.stderr);
        }
    }
    let trace = bench.folder.path().join("nameless.jsonl");
    let config = bench.folder.path().join("present.toml");
    let words = ["replay", trace.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let ended = run(&words);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("--model NAME") && ended.stderr.contains("qwen3-32b, qwen3-8b"),
        "{}",
        ended.stderr
    );
    let ended = run(&[&words[..], &["--model", "best"]].concat());
    assert!(ended.stdout.contains("route qwen3-32b"), "{}{}", ended.stdout, ended.stderr);
}

#[test]
fn where_the_file_has_no_routes_each_model_is_one() {
    let bench = Bench::new();
    bench.file(
        "bare.toml",
        "[[pools]]\nname = \"all\"\nreplicas = [\"http://10.0.0.11:8000\"]\nslots = \"auto\"\n",
    );
    let ended = bench.replay(&["--config", "bare.toml"]);
    assert!(
        ended.stdout.contains("route gone ") && ended.stdout.contains("each model of the log"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("slots = \"auto\" are taken to be 256"), "{}", ended.stdout);
}

/// The files of `examples/`, with what their secrets are to be.
fn examples() -> impl Iterator<Item = (PathBuf, Vec<(String, String)>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    files.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        let names = text.split("\"env:").skip(1).filter_map(|rest| rest.split('"').next());
        let secrets = names.map(|name| (name.to_owned(), name.to_lowercase())).collect();
        (path, secrets)
    })
}

#[test]
fn every_example_is_played_or_says_what_it_lacks() {
    let bench = Bench::new();
    let mut played = Vec::new();
    for (path, secrets) in examples() {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let config = std::fs::read_to_string(&path).unwrap();
        let model = config.split("[[routes]]").nth(1).and_then(|route| route.split("model = \"").nth(1));
        let model = model.and_then(|rest| rest.split('"').next()).unwrap_or("any");
        let line = |at: u32| {
            format!(
                r#"{{"time":"2026-02-03T04:05:{at:02}.000Z","outcome":"ok","model":"{model}","prompt_tokens":3000,"cached_tokens":0,"completion_tokens":40}}"#
            ) + "\n"
        };
        bench.file("usage.jsonl", &(0..30).map(line).collect::<String>());
        let log = bench.folder.path().join("usage.jsonl");
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sluicegate"));
        let output = command
            .arg("replay")
            .arg(log)
            .arg("--config")
            .arg(&path)
            .arg("--json")
            .envs(secrets)
            .output()
            .unwrap();
        if name == "discovery.toml" {
            assert!(
                String::from_utf8_lossy(&output.stderr)
                    .contains("the file names no replica, it learns them from")
            );
            continue;
        }
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let one = &report["configurations"][0];
        assert_eq!((&one["played"], &one["total"]["ok"]), (&30.into(), &30.into()), "{name}");
        if name == "decision.toml" {
            assert!(
                one["assumed"].to_string().contains("the decision service https://"),
                "{}",
                one["assumed"]
            );
        }
        played.push(name);
    }
    assert!(played.len() > 8, "{played:?}");
}
