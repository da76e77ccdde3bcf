//! `sluicegate usage`: files in, sums out.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::binary::{Ended, fed, run};

const LINES: &str = include_str!("lines.jsonl");

/// A folder with files.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        let path: PathBuf = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn gz(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn good(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    ended.stdout
}

fn golden(name: &str, told: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/usage").join(name);
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(told, expected, "{name} differs:\n{told}");
}

#[test]
fn the_table_is_the_golden_one() {
    golden("route_and_day.txt", &good(fed(&["usage", "-", "--by", "route", "--by", "day"], LINES)));
}

#[test]
fn the_csv_is_the_golden_one() {
    golden("model.csv", &good(fed(&["usage", "-", "--by", "model", "--csv"], LINES)));
}

#[test]
fn the_json_is_the_golden_one() {
    golden("outcome.json", &good(fed(&["usage", "-", "--by", "outcome", "--json"], LINES)));
}

#[test]
fn without_groups_there_is_only_a_total() {
    let table = good(fed(&["usage", "-"], LINES));
    assert_eq!(table.lines().count(), 2, "{table}");
    let csv = good(fed(&["usage", "-", "--csv"], LINES));
    assert_eq!(csv.lines().count(), 2, "{csv}");
    let json: serde_json::Value = serde_json::from_str(&good(fed(&["usage", "-", "--json"], LINES))).unwrap();
    assert_eq!((json["groups"].as_array().map(Vec::len), &json["total"]["requests"]), (Some(0), &5.into()));
}

#[test]
fn every_grouping_shows_each_request_once_and_a_dash_where_there_is_no_name() {
    for (by, first, requests) in [
        ("key", "-", "5"),
        ("project", "-", "5"),
        ("route", "-", "1"),
        ("model", "-", "1"),
        ("replica", "-", "2"),
        ("outcome", "client_error", "1"),
        ("day", "2026-02-03", "3"),
        ("hour", "2026-02-03T04", "2"),
    ] {
        let told = good(fed(&["usage", "-", "--by", by, "--csv"], LINES));
        let mut reader = csv::Reader::from_reader(told.as_bytes());
        assert_eq!(reader.headers().unwrap().iter().take(2).collect::<Vec<_>>(), [by, "requests"]);
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!((&rows[0][0], &rows[0][1]), (first, requests), "{by}: {told}");
        assert_eq!(rows.iter().map(|row| row[1].parse::<u64>().unwrap()).sum::<u64>(), 5, "{by}: {told}");
    }
}

#[test]
fn plain_rotated_and_compressed_files_sum_up_alike() {
    let lines: Vec<&str> = LINES.split_inclusive('\n').collect();
    let folder = Folder::new();
    let newest = folder.with("u.jsonl", lines[3..].concat());
    folder.with("u.jsonl.1", lines[2]);
    // Two members, as if two files had been put together.
    folder.with("u.jsonl.2.gz", [gz(lines[0]), gz(lines[1])].concat());
    let expected = good(fed(&["usage", "-", "--by", "route"], LINES));
    assert_eq!(good(run(&["usage", &newest, "--rotated", "--by", "route"])), expected);
    let older = [format!("{newest}.1"), format!("{newest}.2.gz")];
    let words = ["usage", &newest, &older[0], &older[1], "--by", "route"];
    assert_eq!(good(run(&words)), expected);
}

#[test]
fn rotated_files_are_read_from_the_oldest() {
    let folder = Folder::new();
    let newest = folder.with("u.jsonl", "newest\n");
    folder.with("u.jsonl.1", "older\n");
    folder.with("u.jsonl.9", "oldest\n");
    let ended = run(&["usage", &newest, "--rotated"]);
    assert!(ended.stderr.contains("note: 3 of 3 lines are no usage lines"), "{}", ended.stderr);
    assert!(ended.stderr.contains("u.jsonl.9:1: "), "{}", ended.stderr);
}

#[test]
fn bad_lines_are_told_with_their_place_and_fail_only_where_asked() {
    let folder = Folder::new();
    let file = folder.with("u.jsonl", format!("{LINES}\n{{\"cut\":\"\u{1b}[2J\n{LINES}"));
    let ended = run(&["usage", &file, "--json"]);
    assert!(ended.stderr.contains("note: 1 of 11 lines are no usage lines"), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("{file}:7: ")), "{}", ended.stderr);
    assert!(!ended.stderr.contains('\u{1b}'));
    let json: serde_json::Value = serde_json::from_str(&good(ended)).unwrap();
    assert_eq!((&json["bad_lines"], &json["total"]["requests"]), (&1.into(), &10.into()));
    let strict = run(&["usage", &file, "--strict"]);
    assert_eq!(strict.code, Some(1));
    assert!(strict.stdout.contains("total"), "the sums are printed all the same");
    let sound = folder.with("v.jsonl", LINES);
    assert_eq!(run(&["usage", &sound, "--strict"]).code, Some(0));
}

#[test]
fn filters_choose_lines_and_say_when_nothing_is_left() {
    for (words, requests) in [
        (&["--since", "2026-02-04"][..], 2),
        (&["--until", "2026-02-04"], 3),
        (&["--since", "2026-02-03T04:30", "--until", "2026-02-04T00:00:00.001"], 2),
        (&["--route", "qwen3"], 2),
        (&["--route", "qwen3", "--route", "embed"], 3),
        (&["--replica", "http://10.0.0.12:8000"], 1),
    ] {
        let csv = good(fed(&[&["usage", "-", "--csv"], words].concat(), LINES));
        let told = csv.lines().nth(1).unwrap().split(',').next().unwrap().parse::<u64>().unwrap();
        assert_eq!(told, requests, "{words:?}");
    }
    let none = fed(&["usage", "-", "--key", "nobody"], LINES);
    assert!(none.stderr.contains("none of 5 usage lines"), "{}", none.stderr);
    assert_eq!(
        good(none).lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>(),
        ["total", "0", "0"]
    );
}

#[test]
fn files_that_cannot_be_read_and_wrong_words_fail() {
    let folder = Folder::new();
    let file = folder.with("u.jsonl", LINES);
    let cut = folder.with("cut.gz", &gz(LINES)[..100]);
    let missing = folder.0.path().join("missing").to_str().unwrap().to_owned();
    for (words, code, said) in [
        (&["usage", &missing][..], 1, "cannot open"),
        (&["usage", &cut], 1, "cannot read"),
        (&["usage", &file, &file], 2, "given twice"),
        (&["usage"], 2, "FILE"),
        (&["usage", &file, "--csv", "--json"], 2, "--csv"),
        (&["usage", &file, "--by", "weekday"], 2, "weekday"),
        (&["usage", &file, "--since", "2026-02-30"], 2, "no such day"),
        (
            &["usage", &file, "--since", "2026-02-04", "--until", "2026-02-03"],
            2,
            "--since is the earlier one",
        ),
        (
            &["usage", &file, "--since", "2026-02-04", "--until", "2026-02-04T00"],
            2,
            "before 2026-02-04T00:00:00.000Z",
        ),
    ] {
        let ended = run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{words:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{words:?}");
    }
}

#[test]
fn groups_beyond_the_bound_are_folded_and_told() {
    let line = |n: usize| {
        format!(
            "{{\"time\":\"2026-02-03T04:05:06.789Z\",\"outcome\":\"ok\",\"model\":\"m{n}\",\"prompt_tokens\":1}}\n"
        )
    };
    let text: String = (0..10_007).map(line).collect();
    let ended = fed(&["usage", "-", "--by", "model", "--json"], &text);
    assert!(ended.stderr.contains("more than 10000 groups; 7 requests"), "{}", ended.stderr);
    let json: serde_json::Value = serde_json::from_str(&good(ended)).unwrap();
    assert_eq!(json["groups"].as_array().map(Vec::len), Some(10_000));
    assert_eq!(
        (&json["other"]["prompt_tokens"], &json["total"]["prompt_tokens"]),
        (&7.into(), &10_007.into())
    );
}
