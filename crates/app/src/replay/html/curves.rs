//! What is plotted of runs.

use sluicegate_core::Time;
use sluicegate_lab::fleet::Record;

use super::super::PolicyRun;

/// Points of a curve over time at most.
const POINTS: usize = 60;

/// One plot: a curve for each run, in the runs' order.
pub(super) struct Plot {
    pub(super) title: &'static str,
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    /// The x axis is logarithmic.
    pub(super) log_x: bool,
    pub(super) curves: Vec<Vec<(f64, f64)>>,
}

pub(super) fn all(runs: &[&PolicyRun]) -> [Plot; 3] {
    let curves = |curve: fn(&PolicyRun) -> Vec<(f64, f64)>| runs.iter().map(|run| curve(run)).collect();
    [
        Plot {
            title: "How many had their first byte after how long",
            x: "TTFT, s",
            y: "% of requests",
            log_x: true,
            curves: curves(distribution),
        },
        Plot {
            title: "Time to first byte over time",
            x: "minutes from the first arrival",
            y: "mean TTFT, s",
            log_x: false,
            curves: curves(over_time),
        },
        Plot {
            title: "Imbalance",
            x: "minutes from the first arrival",
            y: "most minus fewest open requests",
            log_x: false,
            curves: curves(imbalance),
        },
    ]
}

/// Percent of the requests against seconds, at each half percent.
fn distribution(run: &PolicyRun) -> Vec<(f64, f64)> {
    let mut sorted: Vec<f64> = run.run.records.iter().filter_map(ttft).collect();
    sorted.sort_by(f64::total_cmp);
    let at = |half_percent: usize| {
        let rank = (sorted.len() * half_percent).div_ceil(200).saturating_sub(1);
        // A logarithmic axis has no zero.
        sorted.get(rank).map(|seconds| (seconds.max(1e-3), half_percent as f64 / 2.0))
    };
    (1..=200).filter_map(at).collect()
}

fn over_time(run: &PolicyRun) -> Vec<(f64, f64)> {
    let records = &run.run.records;
    let first = records.iter().map(|record| record.arrival).min().unwrap_or_default();
    let minutes = |at: Time| at.since(first).as_secs_f64() / 60.0;
    let last = records.iter().map(|record| minutes(record.arrival)).fold(0.0, f64::max);
    let mut sums = vec![(0.0, 0_u32); POINTS];
    for record in records {
        let place = (minutes(record.arrival) / last.max(f64::MIN_POSITIVE) * POINTS as f64) as usize;
        if let (Some(ttft), Some((sum, n))) = (ttft(record), sums.get_mut(place.min(POINTS - 1))) {
            *sum += ttft;
            *n += 1;
        }
    }
    let point = |(place, (sum, n)): (usize, (f64, u32))| {
        (n > 0).then(|| ((place as f64 + 0.5) * last / POINTS as f64, sum / f64::from(n)))
    };
    sums.into_iter().enumerate().filter_map(point).collect()
}

fn imbalance(run: &PolicyRun) -> Vec<(f64, f64)> {
    let seconds = run.run.worst_imbalance(|_| true);
    let size = seconds.len().div_ceil(POINTS).max(1);
    let mean = |part: &[u32]| part.iter().map(|n| f64::from(*n)).sum::<f64>() / part.len() as f64;
    let point = |(place, part): (usize, &[u32])| ((place as f64 + 0.5) * size as f64 / 60.0, mean(part));
    seconds.chunks(size).enumerate().map(point).collect()
}

fn ttft(record: &Record) -> Option<f64> {
    Some(record.ttft()?.as_secs_f64())
}
