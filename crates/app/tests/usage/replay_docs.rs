//! The example of docs/replay.md, pasted into a shell.

use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../../docs/replay.md");

/// The page's first block of that kind.
fn block(kind: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(&format!("```{kind}\n")).unwrap();
    rest.split_once("```").unwrap().0
}

/// The words, each number as `0`: what a tuned rule changes.
fn words(text: &str) -> String {
    let word = |word: &str| {
        if word.trim_start_matches(['+', '-']).parse::<f64>().is_ok() { "0" } else { word }.to_owned()
    };
    let line = |line: &str| line.split_whitespace().map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_pasted_example_works_and_prints_what_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_sluicegate")).parent().unwrap().to_str().unwrap();
    let path = format!("{binaries}:{}", std::env::var("PATH").unwrap_or_default());
    let script = ["-e", "-c", block("sh")];
    let ended =
        Command::new("sh").args(script).env("PATH", path).current_dir(folder.path()).output().unwrap();
    let (out, errors) = (String::from_utf8(ended.stdout).unwrap(), String::from_utf8(ended.stderr).unwrap());
    assert!(ended.status.success() && errors.is_empty(), "{errors}");
    assert_eq!(words(&out), words(block("text")), "the page's example prints:\n{out}");
}
