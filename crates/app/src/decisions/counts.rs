//! What a decision service has been asked, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate_proxy::Abstention;

/// Upper bounds of the buckets, in seconds.
const BUCKETS: [f64; 10] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Where a request's answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// It was asked of the service.
    Service,
    /// The same was being asked of it already.
    Shared,
    /// It was known.
    Cache,
}

impl From {
    pub(crate) const ALL: [Self; 3] = [Self::Service, Self::Shared, Self::Cache];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Shared => "shared",
            Self::Cache => "cache",
        }
    }
}

/// Sums of one service.
#[derive(Debug)]
pub(super) struct Counts {
    /// By [`From`].
    requests: [AtomicU64; From::ALL.len()],
    /// By [`Abstention`].
    abstentions: [AtomicU64; Abstention::ALL.len()],
    seconds: Histogram,
}

/// The sums of one service at one moment.
#[derive(Debug, Clone)]
pub(crate) struct DecisionsView {
    /// The route that asks it.
    pub(crate) route: String,
    /// Requests, by where their answer came from or was to come from.
    pub(crate) requests: Vec<(From, u64)>,
    /// Requests that went on without an answer.
    pub(crate) abstentions: Vec<(Abstention, u64)>,
    /// How long the service took, whatever came of it.
    pub(crate) seconds: Histogram,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            requests: Default::default(),
            abstentions: Default::default(),
            seconds: Histogram::new(BUCKETS),
        }
    }
}

impl Counts {
    pub(super) fn request(&self, from: From, abstention: Option<Abstention>) {
        add(&self.requests, From::ALL.iter().position(|one| *one == from));
        if let Some(cause) = abstention {
            add(&self.abstentions, Abstention::ALL.iter().position(|one| *one == cause));
        }
    }

    pub(super) fn took(&self, seconds: f64) {
        self.seconds.observe(seconds);
    }

    pub(super) fn view(&self, route: &str) -> DecisionsView {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        DecisionsView {
            route: route.to_owned(),
            requests: From::ALL.into_iter().zip(self.requests.iter().map(read)).collect(),
            abstentions: Abstention::ALL.into_iter().zip(self.abstentions.iter().map(read)).collect(),
            seconds: self.seconds.clone(),
        }
    }
}

fn add(counts: &[AtomicU64], at: Option<usize>) {
    if let Some(count) = at.and_then(|at| counts.get(at)) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}
