//! The gateway alone under mixed load for a long time: whether its memory grows.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::measure::{Bench, LOAD_CORE, report};
use super::peers::{GATEWAY, find};

/// Seconds before the measurement: buffers and tables have found their size.
const WARM: f64 = 20.0;
const TOKENS_PER_SECOND: f64 = 50.0;
/// Seconds from which on a slope is more than the coming and going of large bodies.
const SLOPE_NEEDS: f64 = 600.0;
/// Points of the curve that are printed.
const PRINTED: usize = 12;

/// Runs, prints the curve and its slope. Errors: the gateway or the load failed.
pub(super) fn run(bench: &Bench, seconds: f64, json: Option<&Path>) -> Result<()> {
    let gateway = find(GATEWAY).context("the gateway is a candidate")?;
    let longer = seconds + WARM;
    let (_replica, upstream) = bench.replica(LOAD_CORE, TOKENS_PER_SECOND, longer)?;
    let (mut candidate, port) = bench.candidate(gateway, "0", upstream, longer)?;
    println!("soak: {seconds} s, 200 connections, bodies of 1 KiB to 1 MiB, a third of them streams");
    let sample = (seconds / 600.0).max(0.25);
    let words = [
        ("--connections", 200.0),
        ("--tokens", 100.0),
        ("--warm", WARM),
        ("--seconds", seconds),
        ("--sample", sample),
    ];
    let mut words: Vec<String> =
        words.iter().flat_map(|(name, value)| [(*name).to_owned(), value.to_string()]).collect();
    words.push("--mixed".to_owned());
    let report = report(bench.load(LOAD_CORE, port, candidate.pid(), &words, longer))?;
    candidate.check()?;
    tell(&report);
    if let Some(file) = json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

fn tell(report: &Value) {
    let points = points(report);
    println!("| minutes | MiB |\n|---|---|");
    for (seconds, kib) in points.iter().step_by((points.len() / PRINTED).max(1)) {
        println!("| {:.1} | {:.1} |", seconds / 60.0, kib / 1024.0);
    }
    let number = |name: &str| report[name].as_f64().unwrap_or(0.0);
    println!(
        "\n{} requests, {} tokens, {} errors (the first: {}), {:.0} requests/s, core {:.0} %",
        report["requests"],
        report["tokens"],
        report["errors"],
        report["first_error"].as_str().unwrap_or("none"),
        number("requests_per_second"),
        number("cpu_share") * 100.0
    );
    if number("seconds") < SLOPE_NEEDS {
        println!("a run shorter than {:.0} minutes has no slope to speak of", SLOPE_NEEDS / 60.0);
        return;
    }
    // The first half may still fill tables up.
    let second_half = &points[points.len() / 2..];
    println!(
        "slope over the second half: {:+.0} KiB per hour, {:+.3} KiB per 1,000 requests",
        slope(second_half) * 3600.0,
        slope(second_half) * 1000.0 / number("requests_per_second").max(1.0)
    );
}

fn points(report: &Value) -> Vec<(f64, f64)> {
    let samples = report["memory"].as_array().map(Vec::as_slice).unwrap_or_default();
    samples.iter().filter_map(|pair| Some((pair[0].as_f64()?, pair[1].as_f64()?))).collect()
}

/// Least squares: KiB per second.
fn slope(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x, y) = (x / count, y / count);
    let (above, below) = points.iter().fold((0.0, 0.0), |sum, point| {
        (sum.0 + (point.0 - x) * (point.1 - y), sum.1 + (point.0 - x) * (point.0 - x))
    });
    if below > 0.0 { above / below } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::slope;

    #[test]
    fn the_slope_is_that_of_the_line_through_the_points() {
        assert!((slope(&[(0.0, 10.0), (1.0, 12.0), (2.0, 14.0)]) - 2.0).abs() < 1e-9);
        assert_eq!(slope(&[(0.0, 10.0)]), 0.0);
        assert_eq!(slope(&[]), 0.0);
    }
}
