//! Runs as one JSON object.

use serde::Serialize;

use super::{Facts, Figures, PolicyRun};

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    policies: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    policy: &'a str,
    #[serde(flatten)]
    figures: &'a Figures,
}

/// The object, indented, and a line feed.
pub(crate) fn render<'a>(facts: &'a Facts, runs: &'a [PolicyRun]) -> anyhow::Result<String> {
    let row = |run: &'a PolicyRun| Row { policy: &run.name, figures: &run.figures };
    let whole = Whole { facts, policies: runs.iter().map(row).collect() };
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}
