//! The counts of usage lines on their way to the page.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate_core::Micros;

use super::{PoolCell, Requests, RouteCell, TOKEN_KINDS};
use crate::inspect::amount;
use crate::metrics::family::{Family, Labels};

type Counts = Vec<(Labels, u64)>;
type Distributions = Vec<(Labels, Histogram)>;

/// The samples of each family.
#[derive(Default)]
pub(super) struct Samples {
    requests: Counts,
    rejections: Counts,
    attempts: Counts,
    choices: Counts,
    spills: Counts,
    tokens: Counts,
    costs: Vec<(Labels, f64)>,
    ttft: Distributions,
    duration: Distributions,
    queue_wait: Distributions,
}

impl Samples {
    pub(super) fn of(requests: &Requests) -> Self {
        let mut samples = Self::default();
        for (route, cell) in requests.routes.all() {
            samples.add_route(&vec![("route", route)], &cell);
        }
        for (key, reasons) in requests.rejections.all() {
            for (reason, count) in reasons.all() {
                let labels = vec![("key", key.clone()), ("reason", reason.into())];
                samples.rejections.push((labels, read(&count)));
            }
        }
        samples
    }

    fn add_route(&mut self, labels: &Labels, cell: &RouteCell) {
        for (kind, count) in TOKEN_KINDS.iter().zip(&cell.tokens) {
            self.tokens.push((with(labels, "kind", kind), read(count)));
        }
        for (key, micros) in cell.costs.all() {
            self.costs.push((with(labels, "key", &key), amount(Micros(read(&micros)))));
        }
        self.ttft.push((labels.clone(), cell.ttft.clone()));
        self.duration.push((labels.clone(), cell.duration.clone()));
        self.queue_wait.push((labels.clone(), cell.queue_wait.clone()));
        for (pool, cell) in cell.pools.all() {
            self.add_pool(&with(labels, "pool", &pool), &cell);
        }
    }

    fn add_pool(&mut self, labels: &Labels, cell: &PoolCell) {
        for (key, ends) in cell.ends.all() {
            let labels = with(labels, "key", &key);
            for ((outcome, status), count) in ends.all() {
                let status = status.map_or_else(|| "none".into(), |s| s.to_string());
                let labels = with(&with(&labels, "outcome", outcome.as_str()), "status", &status);
                self.requests.push((labels, read(&count)));
            }
        }
        for (reason, count) in cell.choices.all() {
            self.choices.push((with(labels, "reason", reason), read(&count)));
        }
        self.attempts.push((labels.clone(), read(&cell.attempts)));
        self.spills.push((labels.clone(), read(&cell.spills)));
    }

    pub(super) fn into_families(self) -> Vec<Family> {
        vec![
            Family::counts("sluicegate_requests", "Requests ended, by how they ended", self.requests),
            Family::counts("sluicegate_rejections", "Requests turned away, by reason", self.rejections),
            Family::counts("sluicegate_attempts", "Attempts at replicas, retries included", self.attempts),
            Family::counts("sluicegate_choices", "Choices of a replica, by reason", self.choices),
            Family::counts("sluicegate_spills", "Requests whose pin was not followed", self.spills),
            Family::counts("sluicegate_tokens", "Tokens, reported by engines or estimated", self.tokens),
            Family::sums("sluicegate_cost", "Price of the tokens", self.costs),
            Family::histograms("sluicegate_ttft_seconds", "Time to the first content of a stream", self.ttft),
            Family::histograms(
                "sluicegate_request_duration_seconds",
                "From head to end of a request",
                self.duration,
            ),
            Family::histograms(
                "sluicegate_queue_wait_seconds",
                "Waiting in the gateway, of the requests that had to",
                self.queue_wait,
            ),
        ]
    }
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn with(labels: &Labels, name: &'static str, value: &str) -> Labels {
    let mut labels = labels.clone();
    labels.push((name, value.into()));
    labels
}
