//! `sluicegate usage --against`: lines beside the counters of scripted engines.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread::JoinHandle;

use crate::binary::{Ended, run};

/// An engine that answers as many calls as it has pages, then is gone.
struct Engine {
    url: String,
    served: JoinHandle<Vec<String>>,
}

impl Engine {
    fn with(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let served =
            std::thread::spawn(move || answers.iter().map(|answer| serve(&listener, answer)).collect());
        Self { url, served }
    }

    /// vLLM's counters of prompt and generation, one pair for each call.
    fn counting(counters: &[(u64, u64)]) -> Self {
        let page = |(prompt, generated): &(u64, u64)| {
            ok(&format!(
                "# TYPE vllm:prompt_tokens_total counter\n\
                 vllm:prompt_tokens_total{{engine=\"0\",model_name=\"m\"}} {prompt}.0\n\
                 vllm:generation_tokens_total{{engine=\"0\",model_name=\"m\"}} {generated}.0\n"
            ))
        };
        Self::with(counters.iter().map(page).collect())
    }

    /// The first lines of the calls it got.
    fn calls(self) -> Vec<String> {
        self.served.join().unwrap()
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn serve(listener: &TcpListener, answer: &str) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
    let first = head.next().unwrap();
    head.find(String::is_empty).unwrap();
    stream.write_all(answer.as_bytes()).unwrap();
    first
}

struct Log {
    folder: tempfile::TempDir,
    file: String,
}

/// A log with lines of (replica, prompt tokens, completion tokens, usage source).
fn log(lines: &[(&str, u64, u64, &str)]) -> Log {
    let folder = tempfile::tempdir().unwrap();
    let line = |(replica, prompt, completion, source): &(&str, u64, u64, &str)| {
        format!(
            "{{\"time\":\"2026-02-03T04:05:06.789Z\",\"outcome\":\"ok\",\"replica\":\"{replica}\",\
             \"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"usage_source\":\"{source}\"}}\n"
        )
    };
    let path = folder.path().join("u.jsonl");
    std::fs::write(&path, lines.iter().map(line).collect::<String>()).unwrap();
    Log { file: path.to_str().unwrap().to_owned(), folder }
}

fn usage(words: &[&str]) -> Ended {
    run(&[&["usage"], words].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn sums_within_the_tolerance_succeed_and_both_are_printed() {
    let log = log(&[("http://a", 100_000, 990, "engine"), ("http://a", 1000, 10, "estimated")]);
    let engine = Engine::counting(&[(100_500, 1_005)]);
    let ended = usage(&[&log.file, "--against", &engine.url]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let url = engine.url.clone();
    let width = url.chars().count();
    let expected = [
        format!("{:<width$}            prompt        completion\n", "tokens"),
        format!("{url}           100,500             1,005\n"),
        format!("{:<width$}           100,500             1,005\n", "engines together"),
        format!("{:<width$}           101,000             1,000  1,010 of them estimated\n", "usage lines"),
        format!("{:<width$}              +500                -5\n", "difference"),
        format!("{:<width$}           +0.50 %           -0.50 %\n", "in percent"),
    ];
    assert_eq!(ended.stdout, expected.concat());
    assert!(ended.stderr.contains("without --baseline"), "{}", ended.stderr);
    assert_eq!(engine.calls(), ["GET /metrics HTTP/1.1"]);
}

#[test]
fn a_difference_above_the_tolerance_fails() {
    let log = log(&[("http://a", 1000, 100, "engine")]);
    for (counters, tolerance, code) in [
        ((1000, 100), "0", 0),
        ((1010, 100), "1", 0),
        ((1011, 100), "1", 1),
        ((1011, 100), "2%", 0),
        ((1000, 103), "2", 1),
        ((0, 0), "50", 1),
    ] {
        let engine = Engine::counting(&[counters]);
        let ended = usage(&[&log.file, "--against", &engine.url, "--tolerance", tolerance]);
        assert_eq!(ended.code, Some(code), "{counters:?} {tolerance}: {}", ended.stderr);
        assert!(ended.stdout.contains("in percent"), "{}", ended.stdout);
        assert_eq!(ended.stderr.contains("differ by more than"), code == 1, "{}", ended.stderr);
        engine.calls();
    }
}

#[test]
fn what_was_counted_before_the_baseline_does_not_count() {
    let log = log(&[("http://a", 500, 50, "engine"), ("http://b", 300, 30, "engine")]);
    let engines = [Engine::counting(&[(9000, 900), (9500, 950)]), Engine::counting(&[(70, 7), (370, 37)])];
    let baseline = log.folder.path().join("before.json");
    let against = ["--against", &engines[0].url, "--against", &engines[1].url];
    let saved = usage(&[&against[..], &["--save-baseline", text(&baseline)]].concat());
    assert_eq!((saved.code, saved.stdout.as_str()), (Some(0), ""), "{}", saved.stderr);
    let after = log.folder.path().join("after.json");
    let words = [&log.file, "--json", "--baseline", text(&baseline), "--save-baseline", text(&after)];
    let ended = usage(&[&words, &against[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(json["gateway"], serde_json::json!({ "prompt_tokens": 800, "completion_tokens": 80 }));
    assert_eq!(json["engines_total"], json["gateway"]);
    assert_eq!(json["within_tolerance"], true);
    let after: serde_json::Value = serde_json::from_slice(&std::fs::read(&after).unwrap()).unwrap();
    assert_eq!(after["engines"][0]["prompt_tokens"], 9500);
    engines.into_iter().for_each(|engine| assert_eq!(engine.calls().len(), 2));
}

#[test]
fn counters_below_the_baseline_are_named_as_a_restart() {
    let log = log(&[("http://a", 500, 50, "engine")]);
    let engine = Engine::counting(&[(9000, 900), (400, 40)]);
    let baseline = log.folder.path().join("before.json");
    assert_eq!(usage(&["--against", &engine.url, "--save-baseline", text(&baseline)]).code, Some(0));
    let ended = usage(&[&log.file, "--against", &engine.url, "--baseline", text(&baseline)]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains(&format!("{} restarted since the baseline", engine.url)),
        "{}",
        ended.stderr
    );
    assert!(
        ended.stdout.contains("400                40  restarted since the baseline\n"),
        "{}",
        ended.stdout
    );
    engine.calls();
}

#[test]
fn more_replicas_than_engines_are_told_and_can_be_chosen() {
    let log = log(&[("http://a", 500, 50, "engine"), ("http://b", 300, 30, "engine")]);
    let engine = Engine::counting(&[(500, 50), (500, 50)]);
    let all = usage(&[&log.file, "--against", &engine.url]);
    assert_eq!(all.code, Some(1));
    assert!(
        all.stderr.contains("the lines are of 2 replicas (http://a, http://b), 1 engine was asked"),
        "{}",
        all.stderr
    );
    let one = usage(&[&log.file, "--against", &engine.url, "--replica", "http://a"]);
    assert_eq!(one.code, Some(0), "{}", one.stderr);
    assert!(!one.stderr.contains("replicas"), "{}", one.stderr);
    engine.calls();
}

#[test]
fn engines_that_tell_nothing_fail_with_a_reason() {
    let log = log(&[]);
    for (answer, said) in [
        ("HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(), "answers 404"),
        (ok("go_goroutines 7\n"), "no token counters"),
    ] {
        let engine = Engine::with(vec![answer]);
        let ended = usage(&[&log.file, "--against", &engine.url]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        engine.calls();
    }
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let ended = usage(&[&log.file, "--against", &format!("http://{free}")]);
    assert_eq!(ended.code, Some(1));
    assert!(ended.stderr.contains(&format!("no engine answers at http://{free}")), "{}", ended.stderr);
}

#[test]
fn a_baseline_of_other_engines_or_none_at_all_fails() {
    let log = log(&[]);
    for (content, said) in [
        (
            r#"{"engines":[{"url":"http://x/metrics","prompt_tokens":1,"generation_tokens":1}]}"#,
            "does not hold",
        ),
        ("[]x", "is no baseline"),
    ] {
        let baseline = log.folder.path().join("before.json");
        std::fs::write(&baseline, content).unwrap();
        let engine = Engine::counting(&[(1, 1)]);
        let ended = usage(&[&log.file, "--against", &engine.url, "--baseline", text(&baseline)]);
        assert_eq!(ended.code, Some(1));
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
        engine.calls();
    }
}

#[test]
fn words_that_need_an_engine_or_do_not_go_with_one_are_refused() {
    let log = log(&[]);
    let url = "http://127.0.0.1:1/metrics";
    for words in [
        &["--baseline", "b"][..],
        &["--save-baseline", "b"],
        &["--tolerance", "1"],
        &["--against", url, "--by", "key"],
        &["--against", url, "--csv"],
        &["--against", url, "--tolerance", "-1"],
        &["--against", url, "--tolerance", "nan"],
        &["--against", "https://a/metrics"],
    ] {
        let ended = usage(&[&[log.file.as_str()], words].concat());
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.stderr);
    }
}
