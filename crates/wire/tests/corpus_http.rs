//! Replays the corpora of the HTTP fuzz targets: every file must pass its target.

use std::path::Path;

use sluicegate_wire::fuzz_http;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty: nothing would be tested", folder.display());
    for file in files {
        let bytes = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let passed = std::panic::catch_unwind(|| run(&bytes)).is_ok();
        assert!(passed, "{} does not pass", file.display());
    }
}

#[test]
fn request_head() {
    replay("request_head", fuzz_http::request_head);
}

#[test]
fn response_head() {
    replay("response_head", fuzz_http::response_head);
}

#[test]
fn chunked() {
    replay("chunked", fuzz_http::chunked);
}

#[test]
fn engine_metrics() {
    replay("engine_metrics", fuzz_http::engine_metrics);
}

#[test]
fn path() {
    replay("path", fuzz_http::path);
}
