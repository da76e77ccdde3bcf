//! Configurations as one HTML page.

use super::super::Facts;
use super::super::html::page;
use super::Report;
use super::compared::{lines, rows};

/// The page.
///
/// # Errors
/// A plot cannot be drawn.
pub(crate) fn html(facts: &Facts, reports: &[Report]) -> anyhow::Result<String> {
    let runs: Vec<_> = reports.iter().map(|report| &report.total).collect();
    page(facts, &lines(reports), &rows(reports), &runs)
}
