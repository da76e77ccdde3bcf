//! The result, for people and for programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde_json::{Value, json};
use sluicegate_lab::scenario::{Finding, Rule};

use super::rows::{Row, Verdict};

/// A table: each promise and mode with its measurements.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<4} {:<32} {:<11} {:>12}  {:<10} {:<7} {}\n",
        "id", "promise", "mode", "measured", "allowed", "verdict", "what was measured"
    );
    for row in rows {
        let mut verdict = row.verdict.name();
        let mut head = (row.id.as_str(), row.promise.as_str(), row.mode);
        if row.findings.is_empty() {
            line(&mut text, head, ("-", "-"), verdict, "nothing runs it yet");
        }
        for finding in &row.findings {
            let note = match (finding.passed, row.stage) {
                (false, _) => format!("FAIL: {}", finding.what),
                (true, "virtual time") => finding.what.clone(),
                (true, stage) => format!("{} ({stage})", finding.what),
            };
            line(&mut text, head, (&finding.number(), &finding.range()), verdict, &note);
            (head, verdict) = (("", "", ""), "");
        }
    }
    let (tested, held, pending) = sums(rows);
    text.push_str(&format!("\n{held} of {tested} promises hold"));
    if !pending.is_empty() {
        text.push_str(&format!("; pending: {}", pending.join(", ")));
    }
    text.push('\n');
    text
}

fn line(
    text: &mut String,
    (id, promise, mode): (&str, &str, &str),
    (measured, allowed): (&str, &str),
    verdict: &str,
    what: &str,
) {
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "{id:<4} {promise:<32} {mode:<11} {measured:>12}  {allowed:<10} {verdict:<7} {what}");
}

/// The promises that were put to the test, those of them that hold in every row, and those that nothing runs yet.
fn sums(rows: &[Row]) -> (usize, usize, Vec<&str>) {
    let of = |verdict| -> BTreeSet<&str> {
        rows.iter().filter(|row| row.verdict == verdict).map(|row| row.id.as_str()).collect()
    };
    let (passed, failed, pending) = (of(Verdict::Pass), of(Verdict::Fail), of(Verdict::Pending));
    let tested = passed.union(&failed).count();
    (tested, tested - failed.len(), pending.into_iter().collect())
}

/// The same as one JSON object.
pub(crate) fn json(rows: &[Row], seed: u64, off: Option<Rule>) -> String {
    let (tested, held, pending) = sums(rows);
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let promises = json!({ "tested": tested, "held": held, "pending": pending });
    let all = json!({ "seed": seed, "without": off.map(Rule::name), "promises": promises, "rows": rows });
    format!("{all:#}\n")
}

fn row(row: &Row) -> Value {
    let findings: Vec<Value> = row.findings.iter().map(finding).collect();
    json!({
        "id": row.id,
        "promise": row.promise,
        "mode": row.mode,
        "stage": row.stage,
        "verdict": row.verdict.name().to_lowercase(),
        "measurements": findings,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "what": finding.what,
        "measured": finding.measured,
        "min": finding.min,
        "max": finding.max,
        "passed": finding.passed,
    })
}
