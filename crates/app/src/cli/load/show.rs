//! The report as a table and as JSON.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use sluicegate_lab::latency::LatencySummary;
use sluicegate_lab::load::{LoadConfig, Report};

use crate::usage_sums::with_commas;

pub(super) fn table(config: &LoadConfig, report: &Report) -> String {
    let mut text = String::new();
    let seconds = report.duration.as_secs_f64();
    let mut line = |name: &str, value: String| {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{name:<12}{value}");
    };
    let ended: Vec<String> =
        report.ended.iter().map(|(outcome, count)| format!("{} {outcome}", with_commas(*count))).collect();
    line("requests", format!("{} in {seconds:.1} s: {}", with_commas(report.sent), ended.join(", ")));
    line(
        "per second",
        format!(
            "{:.2} requests, {:.1} output tokens, {:.1} prompt tokens",
            per(report.ok(), seconds),
            per(report.output_tokens, seconds),
            per(report.prompt_tokens, seconds)
        ),
    );
    line(
        "tokens",
        format!(
            "{} prompt, {} of them cached ({:.1} %); {} output",
            with_commas(report.prompt_tokens),
            with_commas(report.cached_tokens),
            100.0 * share(report.cached_tokens, report.prompt_tokens),
            with_commas(report.output_tokens)
        ),
    );
    if config.goodput.is_stated() {
        line(
            "good",
            format!(
                "{} ({:.1} %), {:.2} per second",
                with_commas(report.good),
                100.0 * share(report.good, report.sent),
                per(report.good, seconds)
            ),
        );
    }
    line("", String::new());
    line("ms", ["mean", "p50", "p90", "p95", "p99", "max"].map(|name| format!("{name:>11}")).concat());
    for (name, summary) in summaries(report) {
        line(name, figures(summary).map(|(_, time)| format!("{:>11.2}", millis(time))).concat());
    }
    text
}

pub(super) fn json(config: &LoadConfig, report: &Report) -> String {
    let seconds = report.duration.as_secs_f64();
    let failures = report.ended.iter().filter(|(outcome, _)| outcome.to_string() != "ok");
    let failures: Map<String, Value> =
        failures.map(|(outcome, count)| (outcome.to_string(), json!(count))).collect();
    let mut object = json!({
        "model": config.model,
        "seconds": seconds,
        "requests": report.sent,
        "ok": report.ok(),
        "failed": report.failed(),
        "failures": failures,
        "requests_per_second": per(report.ok(), seconds),
        "output_tokens_per_second": per(report.output_tokens, seconds),
        "prompt_tokens_per_second": per(report.prompt_tokens, seconds),
        "prompt_tokens": report.prompt_tokens,
        "cached_tokens": report.cached_tokens,
        "output_tokens": report.output_tokens,
        "tokens_per_word": config.tokens_per_word,
    });
    if config.goodput.is_stated() {
        object["good"] = json!(report.good);
        object["good_per_second"] = json!(per(report.good, seconds));
    }
    for (name, summary) in summaries(report) {
        let mut times: Map<String, Value> =
            figures(summary).into_iter().map(|(name, time)| (name.to_owned(), json!(millis(time)))).collect();
        times.insert("count".to_owned(), json!(summary.count));
        object[format!("{}_ms", name.replace(' ', "_"))] = Value::Object(times);
    }
    format!("{object:#}\n")
}

fn summaries(report: &Report) -> [(&'static str, &LatencySummary); 6] {
    [
        ("ttft", &report.ttft),
        ("itl", &report.itl),
        ("tpot", &report.tpot),
        ("e2e", &report.e2e),
        ("ttft sent", &report.ttft_from_send),
        ("sent late", &report.lag),
    ]
}

fn figures(summary: &LatencySummary) -> [(&'static str, Duration); 6] {
    let LatencySummary { mean, p50, p90, p95, p99, max, .. } = *summary;
    [("mean", mean), ("p50", p50), ("p90", p90), ("p95", p95), ("p99", p99), ("max", max)]
}

fn millis(time: Duration) -> f64 {
    // To the microsecond: what is behind it was not measured.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn per(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { float(count) / seconds } else { 0.0 }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { float(part) / float(whole) }
}

fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
