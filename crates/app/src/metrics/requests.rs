//! What usage lines add up to, by route and pool.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate_proxy::usage::{Outcome, UsageLine};

use super::family::{Family, Labels};

/// Upper bounds of the buckets, in seconds.
const TTFT_BUCKETS: [f64; 13] = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0];
const DURATION_BUCKETS: [f64; 13] =
    [0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0];
/// Token kinds, in the order of [`RouteCell::tokens`].
const TOKEN_KINDS: [&str; 4] = ["prompt", "cached", "completion", "reasoning"];

type Shared<K, V> = RwLock<HashMap<K, Arc<V>>>;

/// Counts by route and pool. Both are names of the configuration or of the engines; requests without a route (their
/// model is unknown) share one cell with empty names.
#[derive(Debug, Default)]
pub(super) struct Requests {
    routes: Shared<String, RouteCell>,
}

#[derive(Debug)]
struct RouteCell {
    pools: Shared<String, PoolCell>,
    tokens: [AtomicU64; 4],
    ttft: Histogram,
    duration: Histogram,
}

#[derive(Debug, Default)]
struct PoolCell {
    ends: Shared<(Outcome, Option<u16>), AtomicU64>,
    choices: Shared<&'static str, AtomicU64>,
    attempts: AtomicU64,
    spills: AtomicU64,
}

impl Default for RouteCell {
    fn default() -> Self {
        Self {
            pools: RwLock::default(),
            tokens: Default::default(),
            ttft: Histogram::new(TTFT_BUCKETS),
            duration: Histogram::new(DURATION_BUCKETS),
        }
    }
}

impl Requests {
    pub(super) fn count(&self, line: &UsageLine<'_>) {
        let route = found(&self.routes, line.route.unwrap_or_default());
        route.count(line);
        let pool = found(&route.pools, line.pool.unwrap_or_default());
        found(&pool.ends, &(line.outcome, line.status)).fetch_add(1, Ordering::Relaxed);
        if let Some(reason) = line.reason {
            found(&pool.choices, &reason).fetch_add(1, Ordering::Relaxed);
        }
        pool.attempts.fetch_add(u64::from(line.attempts), Ordering::Relaxed);
        pool.spills.fetch_add(u64::from(line.spilled), Ordering::Relaxed);
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let (mut requests, mut choices) = (Vec::new(), Vec::new());
        let (mut attempts, mut spills, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ttft, mut duration) = (Vec::new(), Vec::new());
        for (route, cell) in entries(&self.routes) {
            let by_route = vec![("route", route)];
            for (kind, count) in TOKEN_KINDS.iter().zip(&cell.tokens) {
                tokens.push((with(&by_route, "kind", kind), count.load(Ordering::Relaxed)));
            }
            ttft.push((by_route.clone(), cell.ttft.clone()));
            duration.push((by_route.clone(), cell.duration.clone()));
            for (pool, cell) in entries(&cell.pools) {
                let labels = with(&by_route, "pool", &pool);
                for ((outcome, status), count) in entries(&cell.ends) {
                    let status = status.map_or_else(|| "none".into(), |s| s.to_string());
                    let labels = with(&with(&labels, "outcome", outcome.as_str()), "status", &status);
                    requests.push((labels, count.load(Ordering::Relaxed)));
                }
                for (reason, count) in entries(&cell.choices) {
                    choices.push((with(&labels, "reason", reason), count.load(Ordering::Relaxed)));
                }
                attempts.push((labels.clone(), cell.attempts.load(Ordering::Relaxed)));
                spills.push((labels, cell.spills.load(Ordering::Relaxed)));
            }
        }
        vec![
            Family::counts("sluicegate_requests", "Requests ended, by how they ended", requests),
            Family::counts("sluicegate_attempts", "Attempts at replicas, retries included", attempts),
            Family::counts("sluicegate_choices", "Choices of a replica, by reason", choices),
            Family::counts("sluicegate_spills", "Requests whose pin was not followed", spills),
            Family::counts("sluicegate_tokens", "Tokens, reported by engines or estimated", tokens),
            Family::histograms("sluicegate_ttft_seconds", "Time to the first content of a stream", ttft),
            Family::histograms(
                "sluicegate_request_duration_seconds",
                "From head to end of a request",
                duration,
            ),
        ]
    }
}

impl RouteCell {
    fn count(&self, line: &UsageLine<'_>) {
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
        if let Some(ttft) = line.ttft {
            self.ttft.observe(ttft.as_secs_f64());
        }
        self.duration.observe(line.total.as_secs_f64());
    }
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

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.into()));
    labels
}
