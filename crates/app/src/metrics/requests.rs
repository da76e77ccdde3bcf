//! What usage lines add up to, by route, pool and key.

mod samples;

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate_proxy::usage::{Outcome, UsageLine};

use super::family::Family;

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

type Shared<K, V> = RwLock<HashMap<K, Arc<V>>>;

/// Counts by route, pool and key. All three are names of the configuration or of the engines; requests without a route
/// (their model is unknown) share one cell with empty names.
#[derive(Debug, Default)]
pub(super) struct Requests {
    routes: Shared<String, RouteCell>,
    /// By key and reason.
    rejections: Shared<String, Shared<&'static str, AtomicU64>>,
}

#[derive(Debug)]
struct RouteCell {
    pools: Shared<String, PoolCell>,
    tokens: [AtomicU64; 4],
    /// By key, in millionths; only where the route has a price.
    costs: Shared<String, AtomicU64>,
    ttft: Histogram,
    duration: Histogram,
    queue_wait: Histogram,
}

#[derive(Debug, Default)]
struct PoolCell {
    /// By key, then by end.
    ends: Shared<String, Shared<(Outcome, Option<u16>), AtomicU64>>,
    choices: Shared<&'static str, AtomicU64>,
    attempts: AtomicU64,
    spills: AtomicU64,
}

impl Default for RouteCell {
    fn default() -> Self {
        Self {
            pools: RwLock::default(),
            tokens: Default::default(),
            costs: RwLock::default(),
            ttft: Histogram::new(TTFT_BUCKETS),
            duration: Histogram::new(DURATION_BUCKETS),
            queue_wait: Histogram::new(QUEUE_WAIT_BUCKETS),
        }
    }
}

impl Requests {
    pub(super) fn count(&self, line: &UsageLine<'_>) {
        let key = line.key.unwrap_or(NO_KEY);
        let route = found(&self.routes, line.route.unwrap_or_default());
        route.count(line, key);
        let pool = found(&route.pools, line.pool.unwrap_or_default());
        let ends = found(&pool.ends, key);
        found(&ends, &(line.outcome, line.status)).fetch_add(1, Ordering::Relaxed);
        if let Some(reason) = rejection(line) {
            found(&found(&self.rejections, key), &reason).fetch_add(1, Ordering::Relaxed);
        }
        if let Some(reason) = line.reason {
            found(&pool.choices, &reason).fetch_add(1, Ordering::Relaxed);
        }
        pool.attempts.fetch_add(u64::from(line.attempts), Ordering::Relaxed);
        pool.spills.fetch_add(u64::from(line.spilled), Ordering::Relaxed);
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
            found(&self.costs, key).fetch_add(cost.0, Ordering::Relaxed);
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

/// Why a request was turned away, if it was; `other` for a code that is none of the list.
fn rejection(line: &UsageLine<'_>) -> Option<&'static str> {
    use Outcome::{RejectedAuth, RejectedLimit, RejectedPoison, RejectedQueue};
    if !matches!(line.outcome, RejectedAuth | RejectedLimit | RejectedQueue | RejectedPoison) {
        return None;
    }
    let known = REJECTIONS.into_iter().find(|reason| Some(*reason) == line.error_type);
    Some(known.unwrap_or("other"))
}

/// The entry of `key`, made where there is none. The usual case takes a read lock and copies nothing but an `Arc`.
fn found<K, Q, V>(map: &Shared<K, V>, key: &Q) -> Arc<V>
where
    K: Hash + Eq + Borrow<Q>,
    Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    V: Default,
{
    if let Some(entry) = map.read().unwrap_or_else(PoisonError::into_inner).get(key) {
        return Arc::clone(entry);
    }
    let mut map = map.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(map.entry(key.to_owned()).or_default())
}

fn entries<K: Clone, V>(map: &Shared<K, V>) -> Vec<(K, Arc<V>)> {
    let map = map.read().unwrap_or_else(PoisonError::into_inner);
    map.iter().map(|(key, entry)| (key.clone(), Arc::clone(entry))).collect()
}
