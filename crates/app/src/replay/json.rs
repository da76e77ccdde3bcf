//! Runs as one JSON object.

use std::collections::BTreeMap;

use serde::Serialize;
use sluicegate_lab::replay::Spread;

use super::{Facts, PolicyRun};

#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    policies: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    policy: &'a str,
    requests: usize,
    ok: usize,
    /// Requests by how they ended, in the words of the usage line.
    outcomes: BTreeMap<&'static str, usize>,
    ttft_seconds: Quantiles,
    total_seconds: Quantiles,
    queued_seconds_mean: f64,
    cached_token_share: f64,
    imbalance_mean: f64,
}

#[derive(Serialize)]
struct Quantiles {
    mean: f64,
    p50: f64,
    p95: f64,
    p99: f64,
}

/// The object, indented, and a line feed.
pub(crate) fn render(facts: &Facts, runs: &[PolicyRun]) -> anyhow::Result<String> {
    let whole = Whole { facts, policies: runs.iter().map(row).collect() };
    Ok(serde_json::to_string_pretty(&whole)? + "\n")
}

fn row(run: &PolicyRun) -> Row<'_> {
    let mut outcomes = BTreeMap::new();
    for record in &run.run.records {
        *outcomes.entry(record.outcome.as_str()).or_default() += 1;
    }
    let summary = &run.summary;
    Row {
        policy: &run.name,
        requests: summary.requests,
        ok: summary.ok,
        outcomes,
        ttft_seconds: quantiles(summary.ttft),
        total_seconds: quantiles(summary.total),
        queued_seconds_mean: summary.queued,
        cached_token_share: summary.hit_rate,
        imbalance_mean: summary.imbalance,
    }
}

fn quantiles(spread: Spread) -> Quantiles {
    let Spread { mean, p50, p95, p99 } = spread;
    Quantiles { mean, p50, p95, p99 }
}
