//! Runs side by side as a table for people.

use super::PolicyRun;
use super::figures::{COLUMNS, Column};
use crate::usage_sums::align;

/// Names, then numbers; the first row is the headings.
pub(super) struct Rows {
    /// Columns of names.
    pub(super) names: usize,
    pub(super) rows: Vec<Vec<String>>,
    /// For each row after the first the run whose curves have its colour.
    pub(super) colors: Vec<Option<usize>>,
}

/// A row for each run; times in seconds.
pub(crate) fn render(runs: &[PolicyRun]) -> String {
    let Rows { names, rows, .. } = rows(runs);
    align(&rows, names)
}

pub(super) fn rows(runs: &[PolicyRun]) -> Rows {
    let columns = || COLUMNS.iter().filter(|column| column.heading.is_some() && !column.of_configurations);
    let headings = columns().filter_map(|column| column.heading).map(str::to_owned);
    let row = |run: &PolicyRun| {
        let cells = columns().map(|column: &Column| column.cell(&run.figures));
        std::iter::once(run.name.clone()).chain(cells).collect()
    };
    let heading = std::iter::once("policy".to_owned()).chain(headings).collect();
    Rows {
        names: 1,
        rows: std::iter::once(heading).chain(runs.iter().map(row)).collect(),
        colors: (0..runs.len()).map(Some).collect(),
    }
}
