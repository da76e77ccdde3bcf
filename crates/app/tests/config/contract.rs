//! The whole configuration contract in one file: every key is known, and exactly the later ones are refused.

use super::findings;

const CONTRACT: &str = include_str!("../fixtures/contract.toml");

/// The line of the fixture that a finding points at, and what it says.
fn refusals() -> Vec<(String, String)> {
    let lines: Vec<&str> = CONTRACT.lines().collect();
    let split = |finding: &String| {
        let mut parts = finding.splitn(3, ':');
        let number: usize = parts.next()?.parse().ok()?;
        let what = parts.nth(1)?.trim().to_owned();
        Some((lines[number - 1].split(" = ").next()?.to_owned(), what))
    };
    findings(CONTRACT).iter().filter_map(split).collect()
}

#[test]
fn the_contract_is_refused_for_its_later_parts_and_nothing_else() {
    let expected = [("tls", "\"tls\""), ("store", "store: redis://")];
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(line, what)| ((*line).into(), format!("{what} is not supported yet in this version")))
        .collect();
    assert_eq!(refusals(), expected);
}
