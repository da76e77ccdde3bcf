//! Forms of traces.

use std::io::Write as _;
use std::path::PathBuf;

use sluicegate_core::Session;
use tempfile::TempDir;

use super::read;

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path
}

const MOONCAKE: &str = r#"{"timestamp":1000,"input_length":1100,"output_length":9,"hash_ids":[0,1,2]}
{"timestamp":500,"input_length":600,"output_length":3,"hash_ids":[0,7]}

{"timestamp":2000,"input_length":2100,"output_length":4,"hash_ids":[0,1,5,6,7]}
not a line
"#;

#[test]
fn a_trace_is_read_in_order_of_arrival_and_bad_lines_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let trace = read(&file(&folder, "a.jsonl", MOONCAKE), usize::MAX, 512).unwrap();
    assert_eq!(trace.form, "Mooncake trace");
    let jobs = trace.jobs();
    let first = &jobs[0];
    let prompts: Vec<u32> = jobs.iter().map(|job| job.prompt_tokens).collect();
    assert_eq!(prompts, [600, 1_100, 2_100]);
    assert!(jobs.iter().all(|job| job.prefix == first.prefix && job.prefix.is_some()));
    let continues = |job: usize| {
        matches!(trace.requests[job].job.session, Some(Session::Conversation { continued: true, .. }))
    };
    assert!(!continues(1) && continues(2), "the third begins with the two whole blocks of the second");
    assert_eq!(trace.bad.len(), 1);
    assert!(trace.bad[0].contains("a.jsonl:5"), "{}", trace.bad[0]);
    let short = read(&file(&folder, "a.jsonl", MOONCAKE), 1, 512).unwrap();
    assert_eq!(short.requests.len(), 1);
}

#[test]
fn a_name_that_ends_in_gz_is_gzip() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl.gz");
    let mut packed =
        flate2::write::GzEncoder::new(std::fs::File::create(&path).unwrap(), flate2::Compression::fast());
    packed.write_all(MOONCAKE.as_bytes()).unwrap();
    packed.finish().unwrap();
    assert_eq!(read(&path, usize::MAX, 512).unwrap().requests.len(), 3);
}

#[test]
fn an_azure_trace_shares_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50,9,1\n";
    let trace = read(&file(&folder, "a.csv", text), usize::MAX, 512).unwrap();
    assert_eq!((trace.form, trace.requests.len(), trace.bad.len()), ("Azure LLM inference trace", 2, 0));
    assert!(trace.jobs().iter().all(|job| job.session.is_none() && job.blocks.is_empty()));
}

#[test]
fn a_usage_log_is_a_trace_whose_cached_tokens_tell_who_continues_whom() {
    let folder = tempfile::tempdir().unwrap();
    let line = |time: &str, key: &str, outcome: &str, prompt: &str, cached: u32, completion: u32| {
        format!(
            r#"{{"request_id":"r","time":"2026-02-03T04:05:{time}Z","key":"{key}","route":"m","outcome":"{outcome}","stream":true,"prompt_tokens":{prompt},"cached_tokens":{cached},"completion_tokens":{completion}}}"#
        ) + "\n"
    };
    let text = [
        line("06.000", "a", "ok", "2000", 0, 100),
        line("09.500", "a", "ok", "4000", 2048, 100),
        line("08.000", "b", "ok", "3000", 2048, 100),
        line("07.000", "a", "rejected_limit", "null", 0, 0),
    ]
    .concat();
    let trace = read(&file(&folder, "usage.jsonl", &text), usize::MAX, 512).unwrap();
    let jobs = trace.jobs();
    assert_eq!((trace.form, jobs.len()), ("usage log", 3), "a refused request is none for an engine");
    assert_eq!(jobs[2].arrives.since(jobs[0].arrives).as_millis(), 3_500);
    assert_eq!(jobs[0].blocks[..4], jobs[2].blocks[..4], "the answer of 100 tokens fills the fourth block");
    assert_ne!(jobs[0].blocks[..1], jobs[1].blocks[..1], "another key shares nothing");
    assert_eq!((jobs[0].blocks.len(), jobs[2].blocks.len()), (4, 8));
    assert_ne!(jobs[0].key, jobs[1].key);
    let session = |job: usize| match jobs[job].session {
        Some(Session::Conversation { hash, continued }) => (hash, continued),
        _ => panic!("every request has a session"),
    };
    assert_eq!((session(0).0, session(2).1, session(0).1), (session(2).0, true, false));
}

fn mooncake_line(timestamp: u64) -> String {
    format!("{{\"timestamp\":{timestamp},\"input_length\":600,\"output_length\":9,\"hash_ids\":[1,2]}}\n")
}

#[test]
fn a_trace_that_would_be_played_for_months_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let month = 30 * 86_400_000;
    let text = [mooncake_line(0), mooncake_line(month)].concat();
    let trace = read(&file(&folder, "month.jsonl", &text), usize::MAX, 512).unwrap();
    assert!(trace.fits(1.0).is_ok());
    let refusal = trace.fits(0.5).unwrap_err().to_string();
    assert!(refusal.contains("60 days") && refusal.contains("wrong time"), "{refusal}");
    assert!(trace.fits(f64::MIN_POSITIVE).is_err());
}

#[test]
fn a_line_that_is_too_long_is_counted_and_named_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let long = "x".repeat(2 << 20);
    let text = [mooncake_line(0), format!("{long}\n"), mooncake_line(9)].concat();
    let trace = read(&file(&folder, "a.jsonl", &text), usize::MAX, 512).unwrap();
    assert_eq!((trace.requests.len(), trace.bad.len()), (2, 1));
    assert!(trace.bad[0].contains(":2: it is longer than 1048576 bytes"), "{}", trace.bad[0]);
    let refusal = read(&file(&folder, "b.jsonl", &long), usize::MAX, 512).err().unwrap().to_string();
    assert!(refusal.contains("first line is longer"), "{refusal}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\u{feff}TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n";
    assert_eq!(read(&file(&folder, "a.csv", text), usize::MAX, 512).unwrap().requests.len(), 1);
}
