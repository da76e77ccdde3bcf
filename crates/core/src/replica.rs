//! The record of one replica.

use crate::health::{Health, HealthRecord};
use crate::ids::{ReplicaId, Serves};
use crate::load::Load;
use crate::rendezvous;
use crate::scrapes::Schedule;
use crate::settings::HealthSettings;
use crate::time::Time;
use crate::window::Window;
use std::time::Duration;

/// How a replica came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Known at start-up: LIVE after its first good scrape.
    Startup,
    /// Discovered later: PROBING after its first good scrape.
    Discovered,
}

/// What the caller knows of a new replica.
#[derive(Clone, Debug)]
pub struct ReplicaSpec {
    /// Base URL: the replica's identity in traces, snapshots and rendezvous hashing.
    pub name: String,
    /// How it came to be known.
    pub origin: Origin,
    /// False for a hosted replica: never scraped, starts LIVE.
    pub scraped: bool,
    /// Requests that the engine runs at once, where known.
    pub slots: Option<u32>,
    /// Models it serves.
    pub serves: Serves,
}

/// Whether a replica belongs to its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Membership {
    Member,
    /// Removed, and in service until one that stays is LIVE.
    Outgoing,
    /// Removed: it is gone when its last lease is back.
    Leaving {
        /// An administrator had drained it before.
        drained: bool,
    },
}

/// One replica.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    pub(crate) membership: Membership,
    /// Its place in what is predicted, where anything is.
    pub(crate) seat: usize,
    pub(crate) load: Load,
    pub(crate) health: HealthRecord,
    pub(crate) serves: Serves,
    pub(crate) identity: u64,
    pub(crate) schedule: Schedule,
    pub(crate) metrics: bool,
    pub(crate) last_good_scrape: Option<Time>,
    pub(crate) name: String,
    pub(crate) picks: u64,
    pub(crate) traffic: Window<60>,
}

impl Replica {
    /// `history`: its health record of before, where it was known before.
    pub(crate) fn new(now: Time, id: ReplicaId, spec: ReplicaSpec, history: Option<HealthRecord>) -> Self {
        let schedule = if spec.scraped { Schedule::due(now) } else { Schedule::Never };
        let health = match history {
            Some(before) => before.again(now, spec.scraped),
            None => HealthRecord::new(now, spec.origin, spec.scraped),
        };
        Self {
            id,
            membership: Membership::Member,
            seat: 0,
            load: Load::new(spec.slots),
            health,
            serves: spec.serves,
            identity: rendezvous::identity(&spec.name),
            schedule,
            metrics: true,
            last_good_scrape: None,
            name: spec.name,
            picks: 0,
            traffic: Window::new(Duration::from_secs(1)),
        }
    }

    /// When time alone changes something about it next.
    pub(crate) fn deadline(&self, settings: &HealthSettings) -> Option<Time> {
        let scrape = if self.wants_scrapes() { self.schedule.deadline() } else { None };
        [scrape, self.health.deadline(settings)].into_iter().flatten().min()
    }

    /// A drained replica is of interest only while requests run there: it may be gone for good.
    pub(crate) fn wants_scrapes(&self) -> bool {
        self.health.health() != Health::Draining || self.load.inflight() > 0
    }
}
