//! What must not be in the code at all, or not in tests.

use super::finding::Finding;
use super::source::{Repository, RustFile};

struct Ban {
    /// Tokens with spaces between them.
    sequence: &'static str,
    tests_only: bool,
    what: &'static str,
    mend: &'static str,
}

const NO_SLEEP: &str = "wait for the event itself, or take the time as an argument";
const FINISH: &str = "finish it, or leave it out and say so in an issue";

const BANS: &[Ban] = &[
    Ban { sequence: "sleep (", tests_only: true, what: "a sleep in a test", mend: NO_SLEEP },
    Ban { sequence: "sleep_until (", tests_only: true, what: "a sleep in a test", mend: NO_SLEEP },
    Ban { sequence: "thread :: sleep", tests_only: false, what: "a sleeping thread", mend: NO_SLEEP },
    Ban { sequence: "# [ ignore", tests_only: false, what: "an ignored test", mend: "mend it or delete it" },
    Ban { sequence: "todo !", tests_only: false, what: "unfinished code", mend: FINISH },
    Ban { sequence: "unimplemented !", tests_only: false, what: "unfinished code", mend: FINISH },
    Ban { sequence: "dbg !", tests_only: false, what: "a debugging print", mend: "take it out" },
];

/// Looks for every banned sequence in every file.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    repository.rust.iter().flat_map(banned_in).collect()
}

fn banned_in(file: &RustFile) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for ban in BANS {
        for line in file.lines_of(ban.sequence) {
            let told = findings.iter().any(|finding| finding.line == line);
            if !told && (!ban.tests_only || file.is_test_line(line)) {
                findings.push(Finding::error(&file.path, line, ban.what, ban.mend));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::source::RustFile;
    use super::banned_in;

    #[test]
    fn bans_apply_where_they_should() {
        let product = "crates/x/src/a.rs";
        let test = "crates/x/tests/a.rs";
        let cases = [
            (product, "fn f() { tokio::time::sleep(d); }", 0),
            (test, "fn f() { tokio::time::sleep(d); }", 1),
            (test, "fn f() { select! { _ = sleep(d) => {} } }", 1),
            (product, "fn f() { std::thread::sleep(d); }", 1),
            (test, "fn f() { std::thread::sleep(d); }", 1),
            (product, "#[cfg(test)] mod tests { fn f() { sleep(d); } }", 1),
            (product, "fn f() { todo ! () }", 1),
            (product, "fn f() { assert!(dbg!(x)); }", 1),
            (product, "/// a todo! in words\nfn f() {}", 0),
            (test, "#[test] # [ignore = \"slow\"] fn f() {}", 1),
        ];
        for (path, text, expected) in cases {
            let file = RustFile::parse(path, text).expect("it parses");
            assert_eq!(banned_in(&file).len(), expected, "{path} {text}");
        }
    }
}
