//! What usage lines add up to, by route, pool and key.

mod cells;
mod samples;

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate_proxy::usage::{Outcome, UsageLine};

use super::family::Family;
use cells::Cells;

/// Upper bounds of the buckets, in seconds.
const TTFT_BUCKETS: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const DURATION_BUCKETS: [f64; 13] =
    [0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
const QUEUE_WAIT_BUCKETS: [f64; 11] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
/// Token kinds, in the order of [`RouteCell::tokens`].
const TOKEN_KINDS: [&str; 4] = ["prompt", "cached", "completion", "reasoning"];
/// The key of an open gateway's requests, and of those whose key is not known.
const NO_KEY: &str = "-";
/// Every reason to turn a request away, by its code in usage lines. Kept closed here, so that no text from elsewhere
/// can become a label.
pub(super) const REJECTIONS: [&str; 8] = [
    "missing_api_key",
    "invalid_api_key",
    "two_api_keys",
    "key_limit",
    "key_limit_too_small",
    "queue_full",
    "queue_timeout",
    "suspected_poison",
];

/// Counts by route, pool and key. All three are names of the configuration or of the engines; requests without a route
/// (their model is unknown) share one cell with empty names.
#[derive(Debug, Default)]
pub(super) struct Requests {
    routes: Cells<String, RouteCell>,
    /// By key and reason.
    rejections: Cells<String, Cells<&'static str, AtomicU64>>,
}

#[derive(Debug)]
struct RouteCell {
    pools: Cells<String, PoolCell>,
    tokens: [AtomicU64; 4],
    /// By key, in millionths; only where the route has a price.
    costs: Cells<String, AtomicU64>,
    ttft: Histogram,
    duration: Histogram,
    queue_wait: Histogram,
}

#[derive(Debug, Default)]
struct PoolCell {
    /// By key, then by end.
    ends: Cells<String, Cells<(Outcome, Option<u16>), AtomicU64>>,
    choices: Cells<&'static str, AtomicU64>,
    attempts: AtomicU64,
    spills: AtomicU64,
}

impl Default for RouteCell {
    fn default() -> Self {
        Self {
            pools: Cells::default(),
            tokens: Default::default(),
            costs: Cells::default(),
            ttft: Histogram::new(TTFT_BUCKETS),
            duration: Histogram::new(DURATION_BUCKETS),
            queue_wait: Histogram::new(QUEUE_WAIT_BUCKETS),
        }
    }
}

impl Requests {
    pub(super) fn count(&self, line: &UsageLine<'_>) {
        let key = line.key.unwrap_or(NO_KEY);
        self.routes.at(line.route.unwrap_or_default(), |route| {
            route.count(line, key);
            route.pools.at(line.pool.unwrap_or_default(), |pool| pool.count(line, key));
        });
        if let Some(reason) = rejection(line) {
            self.rejections.at(key, |reasons| reasons.at(&reason, add_one));
        }
    }

    pub(super) fn families(&self) -> Vec<Family> {
        samples::Samples::of(self).into_families()
    }
}

impl RouteCell {
    fn count(&self, line: &UsageLine<'_>, key: &str) {
        if let Some(usage) = line.usage {
            let counts = [
                usage.prompt_tokens,
                usage.cached_tokens.unwrap_or(0),
                usage.completion_tokens,
                usage.reasoning_tokens.unwrap_or(0),
            ];
            for (total, count) in self.tokens.iter().zip(counts) {
                total.fetch_add(count, Ordering::Relaxed);
            }
        }
        if let Some(cost) = line.cost {
            self.costs.at(key, |sum| _ = sum.fetch_add(cost.0, Ordering::Relaxed));
        }
        if let Some(ttft) = line.ttft {
            self.ttft.observe(ttft.as_secs_f64());
        }
        if let Some(queued) = line.queued {
            self.queue_wait.observe(queued.as_secs_f64());
        }
        self.duration.observe(line.total.as_secs_f64());
    }
}

impl PoolCell {
    fn count(&self, line: &UsageLine<'_>, key: &str) {
        self.ends.at(key, |ends| ends.at(&(line.outcome, line.status), add_one));
        if let Some(reason) = line.reason {
            self.choices.at(&reason, add_one);
        }
        self.attempts.fetch_add(u64::from(line.attempts), Ordering::Relaxed);
        self.spills.fetch_add(u64::from(line.spilled), Ordering::Relaxed);
    }
}

/// Why a request was turned away, if it was; `other` for a code that is none of the list.
fn rejection(line: &UsageLine<'_>) -> Option<&'static str> {
    use Outcome::{RejectedAuth, RejectedLimit, RejectedPoison, RejectedQueue};
    if !matches!(line.outcome, RejectedAuth | RejectedLimit | RejectedQueue | RejectedPoison) {
        return None;
    }
    let known = REJECTIONS.into_iter().find(|reason| Some(*reason) == line.error_type);
    Some(known.unwrap_or("other"))
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
