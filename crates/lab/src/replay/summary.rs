//! What a run came to, in a few numbers.

use super::Run;
use crate::fleet::{Outcome, Record};
use std::time::Duration;

/// The numbers of one run. Times are in seconds and of requests that ended well.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    /// Requests.
    pub requests: usize,
    /// Those that ended well.
    pub ok: usize,
    /// From arrival to first byte.
    pub ttft: Spread,
    /// From arrival to the end.
    pub total: Spread,
    /// In the gateway's queue, of all requests, mean.
    pub queued: f64,
    /// Part of the prompt tokens that came from the caches, 0 to 1.
    pub hit_rate: f64,
    /// Most minus fewest open requests of the replicas, mean over the time of arrivals.
    pub imbalance: f64,
}

/// Mean and quantiles, in seconds; 0 where there is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median, nearest rank like the others.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Summary {
    /// Sums a run of one pool up.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self::of_records(run.records.iter(), &run.worst_imbalance(|_| true))
    }

    /// Sums some records up, with the imbalance of whatever served them.
    #[must_use]
    pub fn of_records<'r>(records: impl Iterator<Item = &'r Record> + Clone, imbalance: &[u32]) -> Self {
        let ok = || records.clone().filter(|record| record.outcome == Outcome::Ok);
        let sum = |tokens: fn(&Record) -> u32| ok().map(|record| f64::from(tokens(record))).sum::<f64>();
        let mean = |sum: f64, n: usize| if n == 0 { 0.0 } else { sum / n as f64 };
        let queued: f64 = records.clone().map(|record| record.queued.as_secs_f64()).sum();
        let prompt = sum(|record| record.prompt_tokens);
        let requests = records.clone().count();
        Self {
            requests,
            ok: ok().count(),
            ttft: Spread::of(ok().filter_map(Record::ttft)),
            total: Spread::of(ok().map(Record::total)),
            queued: mean(queued, requests),
            hit_rate: if prompt == 0.0 { 0.0 } else { sum(|record| record.cached_tokens) / prompt },
            imbalance: mean(imbalance.iter().map(|n| f64::from(*n)).sum(), imbalance.len()),
        }
    }
}

impl Spread {
    /// Of any durations.
    #[must_use]
    pub fn of(durations: impl Iterator<Item = Duration>) -> Self {
        let mut sorted: Vec<Duration> = durations.collect();
        sorted.sort_unstable();
        let sum: Duration = sorted.iter().sum();
        let rank = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
            sorted.get(rank).map_or(0.0, Duration::as_secs_f64)
        };
        let mean = sum.as_secs_f64() / sorted.len().max(1) as f64;
        Self { mean, p50: rank(50), p95: rank(95), p99: rank(99) }
    }
}
