//! ARCHITECTURE.md numbers its invariants; each names what enforces it, and that must exist.
//! A row is `| I7 | what holds | `test_name`, `tidy rims` |`: the last cell is checked.

use std::collections::BTreeSet;

use super::finding::Finding;
use super::source::Repository;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Checks each row against the tests, tidy's own rules and the lints that are switched on.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let Some(document) = repository.texts.iter().find(|text| text.path == DOCUMENT) else {
        return vec![Finding::error(DOCUMENT, 1, "missing", "write it: the map, and numbered invariants")];
    };
    let tests: BTreeSet<&str> =
        repository.rust.iter().flat_map(|file| file.test_names()).map(|(name, _)| name).collect();
    let lints: String = repository
        .texts
        .iter()
        .filter(|text| matches!(text.path.as_str(), "Cargo.toml" | "clippy.toml"))
        .map(|text| text.text.as_str())
        .collect();
    judge(&document.text, |enforcer| match enforcer.split_once(' ') {
        Some(("tidy", rule)) => super::RULES.iter().any(|(name, _)| *name == rule),
        Some(("lint", lint)) => lints.lines().any(|line| line.trim_start().starts_with(lint)),
        _ => tests.contains(enforcer.rsplit("::").next().unwrap_or(enforcer)),
    })
}

fn judge(document: &str, exists: impl Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, row) in document.lines().enumerate() {
        let cells: Vec<&str> = row.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [number, .., enforcers] = cells.as_slice() else { continue };
        let digits = number.strip_prefix('I').unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let line = index + 1;
        if !seen.insert(*number) {
            let mend = "numbers are for ever: give the newer one the next free number";
            findings.push(Finding::error(DOCUMENT, line, format!("{number} twice"), mend));
        }
        let named: Vec<&str> = enforcers.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            let mend = "name a test, `tidy RULE` or `lint NAME` in the last cell";
            findings.push(Finding::error(DOCUMENT, line, format!("nothing enforces {number}"), mend));
        }
        for enforcer in named.into_iter().filter(|enforcer| !exists(enforcer)) {
            let what = format!("{number} names `{enforcer}`, which is no test, tidy rule or lint");
            findings.push(Finding::error(
                DOCUMENT,
                line,
                what,
                "name the one that enforces it now, or write it",
            ));
        }
    }
    if seen.is_empty() {
        findings.push(Finding::error(
            DOCUMENT,
            1,
            "no numbered invariant",
            "state them as `| I1 | ... | `test` |`",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn each_invariant_needs_an_enforcer_that_exists() {
        let cases = [
            ("| I1 | a | `known` |", 0),
            ("| I1 | a | `core::known` and `tidy rims` |", 0),
            ("| I1 | a | `gone` |", 1),
            ("| I1 | a | by hand |", 1),
            ("| I1 | a | `known` |\n| I1 | b | `known` |", 1),
            ("| In short | a | `gone` |\n| I2 | a | `known` |", 0),
            ("no table", 1),
        ];
        for (document, expected) in cases {
            let findings = judge(document, |name| ["known", "core::known", "tidy rims"].contains(&name));
            assert_eq!(findings.len(), expected, "{document}: {findings:?}");
        }
    }
}
