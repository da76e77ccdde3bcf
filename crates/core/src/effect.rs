//! What the core asks of its caller, or tells it.

use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::Picked;
use crate::queue::{Denial, Ticket};
use crate::time::Time;
use std::time::Duration;

/// Something to do or to record, read with [`Pool::poll_effect`](crate::Pool::poll_effect).
#[derive(Debug, PartialEq)]
pub enum Effect {
    /// Scrape this replica now: at most one is outstanding per replica, and each must be answered by
    /// [`Pool::scraped`](crate::Pool::scraped) or the replica is never scraped again.
    Scrape(ReplicaId),
    /// Send a one-token canary now; each must be answered by [`Pool::canary`](crate::Pool::canary).
    Canary(ReplicaId),
    /// Its requests without a first byte are to be aborted and sent elsewhere at once.
    AbortUnanswered(ReplicaId),
    /// A replica's health changed.
    Transition(Transition),
    /// The metrics path came or went (one event per change).
    MetricsChanged {
        /// Whose metrics path.
        replica: ReplicaId,
        /// Whether it tells the load now.
        available: bool,
    },
    /// A removed replica is gone: its last lease is back, and nothing more will be said of it.
    Removed(ReplicaId),
    /// A waiting request has its place. If its client has left meanwhile the lease is released at once.
    Granted {
        /// Whose.
        ticket: Ticket,
        /// The place.
        picked: Picked,
    },
    /// A waiting request gets no place.
    Denied {
        /// Whose.
        ticket: Ticket,
        /// Why.
        why: Denial,
    },
}

/// One change of health.
#[derive(Clone, Debug, PartialEq)]
pub struct Transition {
    /// Who changed.
    pub replica: ReplicaId,
    /// When.
    pub at: Time,
    /// Health before.
    pub from: Health,
    /// Health after.
    pub to: Health,
    /// Why.
    pub reason: TransitionReason,
    /// The cooldown of an ejection.
    pub cooldown: Option<Duration>,
    /// Ejections of the running streak, this one included.
    pub streak: u32,
}

impl Transition {
    /// The process is, or may be, another one from here on.
    pub(crate) fn lost_cache(&self) -> bool {
        use TransitionReason::{Refused, Restarted, ScrapesFailed};
        matches!(self.reason, Refused | Restarted | ScrapesFailed)
    }
}

/// Why a replica's health changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransitionReason {
    /// The first good scrape of a STARTING replica.
    FirstScrape,
    /// A connection was refused: the process is gone.
    Refused,
    /// Too many failed scrapes in a row.
    ScrapesFailed,
    /// Too many upstream failures in a row.
    UpstreamFailures,
    /// It answers `/health` and nothing else moves.
    Stalled,
    /// The cooldown is over and the scrapes (after a stall the canary, too) are good.
    CooldownOver,
    /// The probing window passed without a fault.
    Proved,
    /// A fault while PROBING.
    ProbeFailed,
    /// An administrator or the discovery took it out.
    Drained,
    /// The drain was ended.
    Undrained,
    /// The engine says that it is loading its model: it has restarted.
    Restarted,
}

impl TransitionReason {
    /// The stable name for logs, metrics and the dashboard.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FirstScrape => "first_scrape",
            Self::Refused => "refused",
            Self::ScrapesFailed => "scrapes_failed",
            Self::UpstreamFailures => "upstream_failures",
            Self::Stalled => "stalled",
            Self::CooldownOver => "cooldown_over",
            Self::Proved => "proved",
            Self::ProbeFailed => "probe_failed",
            Self::Drained => "drained",
            Self::Undrained => "undrained",
            Self::Restarted => "restarted",
        }
    }
}
