//! Figures of a run: medians over the rounds, with minimum and maximum.

use super::peers::MEASURE;
use super::results::Results;
use super::workloads::WORKLOADS;

/// How a figure is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// As a ratio to nginx in the same round.
    Ratio,
    /// Stream time over what it would be if nothing stood between.
    OverIdeal,
    /// As it is, in KiB.
    Kib,
    /// KiB told in MiB.
    Mib,
}

/// A row of the table.
pub(super) struct Row {
    pub(super) label: &'static str,
    pub(super) workload: &'static str,
    pointer: &'static str,
    pub(super) scale: Scale,
}

/// Median, minimum and maximum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

const fn row(label: &'static str, workload: &'static str, pointer: &'static str, scale: Scale) -> Row {
    Row { label, workload, pointer, scale }
}

/// In the order of the table.
pub(super) const ROWS: &[Row] = &[
    row("small request (1 KB), CPU", "small", "/cpu_us_per_request", Scale::Ratio),
    row("100 KB request, CPU", "big", "/cpu_us_per_request", Scale::Ratio),
    row("streamed chunk at 50,000/s, CPU", "stream", "/cpu_us_per_token", Scale::Ratio),
    row("latency, one request at a time, p50", "c1", "/latency_us/p50", Scale::Ratio),
    row("latency, one request at a time, p99", "c1", "/latency_us/p99", Scale::Ratio),
    row(
        "memory per stream, 2,000 x 25 tokens/s, 100 KB prompts",
        "stream",
        "/kib_per_connection",
        Scale::Kib,
    ),
    row("memory per stream, 2,000 x 50 tokens/s, 100 KB prompts", "open", "/kib_per_connection", Scale::Kib),
    row("2,000 x 50 tokens/s, stream time over the ideal, p50", "open", "/latency_us/p50", Scale::OverIdeal),
    row("2,000 x 50 tokens/s, stream time over the ideal, p99", "open", "/latency_us/p99", Scale::OverIdeal),
    row(
        "10,000 open streams (or as many as the machine allows), memory of the process",
        "many",
        "/mean_kib",
        Scale::Mib,
    ),
    row(
        "10,000 open streams (or as many as the machine allows), stream time over the ideal, p50",
        "many",
        "/latency_us/p50",
        Scale::OverIdeal,
    ),
];

impl Row {
    /// A candidate's figure, if it has one in this run.
    pub(super) fn figure(&self, results: &Results, candidate: &str) -> Option<Figure> {
        let own = results.figures(candidate, self.workload, self.pointer);
        let measure = results.figures(MEASURE, self.workload, self.pointer);
        let ideal = WORKLOADS.iter().find(|workload| workload.name == self.workload)?.ideal_seconds();
        let scaled = own.iter().enumerate().filter_map(|(round, own)| {
            let own = (*own)?;
            let figure = match self.scale {
                Scale::Ratio => own / (*measure.get(round)?)?,
                Scale::OverIdeal => own / 1e6 / ideal,
                Scale::Kib => own,
                Scale::Mib => own / 1024.0,
            };
            // A run too slow for a single answer has no latency.
            (figure > 0.0 || self.scale == Scale::Kib).then_some(figure)
        });
        summary(scaled.collect())
    }

    /// A figure as text.
    pub(super) fn shown(&self, figure: f64) -> String {
        match self.scale {
            Scale::Ratio | Scale::OverIdeal => format!("{figure:.2}"),
            Scale::Kib => format!("{figure:.1} KiB"),
            Scale::Mib => format!("{figure:.0} MiB"),
        }
    }
}

/// `None` of nothing.
pub(super) fn summary(mut figures: Vec<f64>) -> Option<Figure> {
    figures.sort_by(f64::total_cmp);
    let (least, most) = (*figures.first()?, *figures.last()?);
    let half = figures.len() / 2;
    let median =
        if figures.len() % 2 == 1 { figures[half] } else { (figures[half - 1] + figures[half]) / 2.0 };
    Some(Figure { median, least, most })
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::super::results::{Results, Sample};
    use super::{Figure, ROWS, summary};

    /// A run of two candidates, two rounds of `small`.
    pub(in super::super) fn run() -> Results {
        let sample = |candidate: &str, round, cpu: Option<f64>| Sample {
            candidate: candidate.to_owned(),
            workload: "small".to_owned(),
            round,
            outcome: cpu.map(|cpu| json!({"cpu_us_per_request": cpu})).ok_or("it burst".to_owned()),
        };
        let samples = vec![
            sample("nginx", 0, Some(10.0)),
            sample("sluicegate", 0, Some(8.0)),
            sample("envoy", 0, None),
            sample("nginx", 1, Some(20.0)),
            sample("sluicegate", 1, Some(14.0)),
            sample("envoy", 1, None),
        ];
        let named = |name: &str| (name.to_owned(), "1.2".to_owned());
        Results {
            cores: 2,
            processor: "P".to_owned(),
            kernel: "6.1".to_owned(),
            remarks: Vec::new(),
            command: "cargo xtask bench".to_owned(),
            versions: vec![named("nginx"), named("envoy"), named("sluicegate")],
            missing: vec![("haproxy".to_owned(), "not installed".to_owned())],
            samples,
            threads: None,
        }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let figure = ROWS[0].figure(&run(), "sluicegate").expect("two rounds");
        assert!((figure.median - 0.75).abs() < 1e-9);
        assert!((figure.least - 0.7).abs() < 1e-9 && (figure.most - 0.8).abs() < 1e-9);
        assert_eq!(ROWS[0].figure(&run(), "envoy"), None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let figure = Figure { median: 2.5, least: 1.0, most: 9.0 };
        assert_eq!(summary(vec![9.0, 1.0, 3.0, 2.0]), Some(figure));
        assert_eq!(summary(Vec::new()), None);
    }
}
