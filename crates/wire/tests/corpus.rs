//! The fuzz targets' corpora of the JSON, form and event-stream readers, replayed.

use std::fs;
use std::path::Path;

use sluicegate_wire::{fuzz, fuzz_form};

fn replay(target: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(&folder).expect("the corpus folder is there") {
        let path = entry.expect("the corpus folder can be read").path();
        println!("{}", path.display());
        run(&fs::read(&path).expect("a seed can be read"));
        seeds += 1;
    }
    assert!(seeds > 0, "no seeds in {}", folder.display());
}

#[test]
fn peek() {
    replay("peek", fuzz::peek);
}

#[test]
fn splice() {
    replay("splice", fuzz::splice);
}

#[test]
fn sse() {
    replay("sse", fuzz::sse);
}

#[test]
fn answer() {
    replay("answer", fuzz::answer);
}

#[test]
fn multipart() {
    replay("multipart", fuzz_form::multipart);
}
