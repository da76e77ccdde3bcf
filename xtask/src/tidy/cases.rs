//! Field cases, examples and fuzz corpora: each is held by a test.

use std::ops::RangeInclusive;

use super::finding::Finding;
use super::source::Repository;

/// Field cases that have a test each, by number: `A-13` is held by a test `a_13_...`.
const FIELD_CASES: RangeInclusive<u32> = 1..=69;

/// Checks all three kinds.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut findings = field_cases(repository);
    findings.extend(examples(repository));
    findings.extend(corpora(repository));
    findings
}

fn field_cases(repository: &Repository) -> Vec<Finding> {
    let names: Vec<&str> =
        repository.rust.iter().flat_map(|file| file.test_names()).map(|(name, _)| name).collect();
    FIELD_CASES
        .filter(|number| !names.iter().any(|name| name.starts_with(&format!("a_{number:02}_"))))
        .map(|number| {
            let what = format!("no test for field case A-{number:02}");
            let mend = format!("write `fn a_{number:02}_...` where the behaviour is decided");
            Finding::error("xtask/src/tidy/cases.rs", 1, what, mend)
        })
        .collect()
}

/// An example counts as loaded when a test names it, or lists the whole folder.
fn examples(repository: &Repository) -> Vec<Finding> {
    let tests: Vec<_> = repository.rust.iter().filter(|file| !file.test_names().is_empty()).collect();
    let in_test =
        |part: &str| tests.iter().any(|file| file.tokens.iter().any(|token| is_text(&token.text, part)));
    let all = tests.iter().any(|file| {
        !file.lines_of("read_dir").is_empty()
            && file.tokens.iter().any(|token| is_text(&token.text, "examples"))
    });
    let paths =
        repository.paths.iter().filter(|path| path.starts_with("examples/") && path.ends_with(".toml"));
    paths
        .filter(|path| !all && !in_test(path.trim_start_matches("examples/")))
        .map(|path| {
            Finding::error(path, 1, "an example that no test loads", "load it in a test of the app crate")
        })
        .collect()
}

/// A fuzz target needs a corpus, and a test that replays it by name or replays the whole folder.
fn corpora(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in &repository.paths {
        let Some(target) = path.strip_prefix("fuzz/fuzz_targets/").and_then(|name| name.strip_suffix(".rs"))
        else {
            continue;
        };
        let folder = format!("fuzz/corpus/{target}/");
        if !repository.paths.iter().any(|path| path.starts_with(&folder)) {
            let mend = format!("keep seeds and past failures in {folder}");
            findings.push(Finding::error(path, 1, "a fuzz target without a corpus", mend));
        }
        let replayed = repository.rust.iter().filter(|file| !file.test_names().is_empty()).any(|file| {
            let says = |part| file.tokens.iter().any(|token| is_text(&token.text, part));
            says("corpus") && says(target)
        });
        if !replayed {
            let mend = "replay its corpus in a plain test of the crate it fuzzes";
            findings.push(Finding::error(path, 1, "a fuzz target whose corpus no test replays", mend));
        }
    }
    findings
}

/// A string literal that contains the part.
fn is_text(token: &str, part: &str) -> bool {
    token.starts_with(['"', 'r', 'b']) && token.contains('"') && token.contains(part)
}

#[cfg(test)]
mod tests {
    use super::super::source::Repository;
    use super::{FIELD_CASES, corpora, examples, field_cases};

    #[test]
    fn a_field_case_is_held_by_a_test_with_its_number() {
        let all = FIELD_CASES.count() as u32;
        let missing = |text| field_cases(&Repository::of_rust(&[("crates/x/tests/a.rs", text)])).len() as u32;
        assert_eq!(missing(""), all);
        assert_eq!(missing("#[test] fn a_13_cut_anywhere() {}"), all - 1);
        assert_eq!(missing("fn a_13_not_a_test() {}"), all);
        assert_eq!(missing("#[test] fn a_130_another() {}"), all);
    }

    #[test]
    fn an_example_is_loaded_by_name_or_by_folder() {
        let cases = [
            ("#[test] fn t() { load(\"examples/one.toml\"); }", 0),
            ("#[test] fn t() { read_dir(root.join(\"examples\")); }", 0),
            ("#[test] fn t() { load(\"other.toml\"); }", 1),
            ("fn t() { load(\"examples/one.toml\"); }", 1),
        ];
        for (text, expected) in cases {
            let mut repository = Repository::of_rust(&[("crates/x/tests/a.rs", text)]);
            repository.paths.push("examples/one.toml".to_owned());
            assert_eq!(examples(&repository).len(), expected, "{text}");
        }
    }

    #[test]
    fn a_fuzz_target_needs_a_corpus_and_a_replay() {
        let replay = "#[test] fn t() { replay(\"fuzz/corpus\", \"peek\"); }";
        let cases = [(replay, true, 0), (replay, false, 1), ("", true, 1), ("", false, 2)];
        for (text, corpus, expected) in cases {
            let mut repository = Repository::of_rust(&[("crates/x/tests/a.rs", text)]);
            repository.paths.push("fuzz/fuzz_targets/peek.rs".to_owned());
            if corpus {
                repository.paths.push("fuzz/corpus/peek/one".to_owned());
            }
            assert_eq!(corpora(&repository).len(), expected, "{text:?} {corpus}");
        }
    }
}
