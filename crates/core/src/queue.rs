//! Requests that wait for a slot, or for a replica with little enough prefill queued.
//!
//! Only where slots are known, or for those that are held back. Requests that can go to the same replicas (same model, same replicas tried, bound
//! to the same one if to any) wait in one
//! [`Line`](line::Line); a place that comes free goes to the best head of the lines that can use it: the higher
//! priority class first; inside a class retries first, in order of arrival (they have waited before); then the key
//! that has been served least ([`fairness`]); inside a key in order of arrival, or where they are held back the shortest
//! ([`held`]).
//!
//! After every call of the pool no request waits for which there is a place, so that a newcomer that finds one
//! overtakes nobody who could have had it.

mod ahead;
mod check;
mod crowd;
mod fairness;
mod held;
mod line;
mod snapshot;
mod table;

use crate::ids::{KeyIndex, RouteIndex};
use crate::pick::{NoReplica, Picked};
pub(crate) use fairness::{Charge, FlowId};
pub(crate) use line::{Line, Rank};
use std::time::Duration;
pub(crate) use table::{Queue, Stir};

/// What a request waits under.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Who asks.
    pub key: KeyIndex,
    /// The route asked for.
    pub route: RouteIndex,
    /// The key's priority class: higher goes first.
    pub priority: i32,
    /// What serving it is expected to cost, in tokens.
    pub cost_tokens: u64,
    /// The route's bounds.
    pub limits: QueueLimits,
}

/// The bounds of one route's waiting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Most requests of the route that wait at the same time, all classes together; with zero nobody waits.
    pub max_length: usize,
    /// Longest time that one waits.
    pub max_wait: Duration,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { max_length: 1000, max_wait: Duration::from_secs(60) }
    }
}

/// One waiting request. Never given out twice by a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// What becomes of a request that asks for a place.
#[must_use]
#[derive(Debug)]
pub enum Admission {
    /// It has one.
    Picked(Picked),
    /// It waits: [`Effect::Granted`](crate::Effect::Granted) or [`Effect::Denied`](crate::Effect::Denied) follows,
    /// unless it leaves with [`Pool::leave`](crate::Pool::leave).
    Queued(Ticket),
    /// As many of its route wait as may, and none of them gives way: see [`Pool::admit`](crate::Pool::admit).
    Full {
        /// When places for those who wait now will have come free at the pace of the last minute: between one second
        /// and the route's `max_wait`.
        retry_after: Duration,
    },
    /// No replica can ever take it.
    No(NoReplica),
}

/// Why a waiting request gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// It has given way to a later one, as its route's queue is full.
    QueueFull {
        /// As in [`Admission::Full`].
        retry_after: Duration,
    },
    /// No replica is left that could ever take it.
    NoReplica(NoReplica),
    /// It has waited as long as its route lets it.
    QueueTimeout {
        /// As in [`Admission::Full`].
        retry_after: Duration,
    },
}

/// The queue at one moment, for metrics and the dashboard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSnapshot {
    /// Waiting requests, by route and then by class.
    pub waiting: Vec<QueueDepth>,
    /// How long the oldest of all has waited; zero where none waits.
    pub oldest: Duration,
    /// Places given to requests that had waited, ever.
    pub grants: u64,
    /// Requests turned away because as many waited as may, those that gave way included, ever.
    pub refused: u64,
    /// Requests that had waited too long, ever.
    pub timeouts: u64,
    /// Waiting requests whose last possible replica went away, ever.
    pub denied: u64,
    /// Requests that left while they waited, ever.
    pub left: u64,
    /// Places given before a hold allowed it, since a route was full or a wait at its end, ever.
    pub sent_on: u64,
    /// Keys that wait, those with the most waiting requests first: the first 100.
    pub keys: Vec<QueueKey>,
}

/// Waiting requests of one route and class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDepth {
    /// The route.
    pub route: RouteIndex,
    /// The class.
    pub priority: i32,
    /// How many wait.
    pub waiting: usize,
    /// Of those: would have a place but for their [`PickRequest::hold`](field@crate::PickRequest::hold).
    pub held: usize,
    /// How long the oldest has waited.
    pub oldest: Duration,
}

/// A key that waits, in one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueKey {
    /// The key.
    pub key: KeyIndex,
    /// The class.
    pub priority: i32,
    /// Its waiting requests, retries apart.
    pub waiting: usize,
    /// Its virtual token counter, above the lowest of those listed of its class.
    pub served_tokens: u64,
}
