//! Runs side by side as a table for people.

use super::PolicyRun;
use crate::usage_sums::with_commas;

pub(super) const HEADINGS: [&str; 11] =
    ["policy", "TTFT mean", "p50", "p95", "p99", "E2E mean", "p95", "hit %", "imbalance", "queued", "failed"];

/// A row for each run; times in seconds.
pub(crate) fn render(runs: &[PolicyRun]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(runs.iter().map(row));
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    let line = |row: &[String; 11]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

pub(super) fn row(run: &PolicyRun) -> [String; 11] {
    let summary = &run.summary;
    let (ttft, total) = (summary.ttft, summary.total);
    [
        run.name.clone(),
        format!("{:.3}", ttft.mean),
        format!("{:.3}", ttft.p50),
        format!("{:.3}", ttft.p95),
        format!("{:.3}", ttft.p99),
        format!("{:.2}", total.mean),
        format!("{:.2}", total.p95),
        format!("{:.1}", summary.hit_rate * 100.0),
        format!("{:.1}", summary.imbalance),
        format!("{:.3}", summary.queued),
        with_commas((summary.requests - summary.ok) as u64),
    ]
}
