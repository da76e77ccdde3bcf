//! What a run showed: everything a measure may look at.

use crate::fleet::{Happening, JobId, Outcome, Record};
use sluicegate_core::{Health, PoolSnapshot, ReplicaId, Time};

/// Everything that was seen in one run.
#[derive(Debug, Default)]
pub struct Seen {
    /// Names of the traffic, by group.
    pub(super) groups: Vec<String>,
    pub(super) replicas: usize,
    /// By job.
    pub(super) jobs: Vec<Origin>,
    pub(super) happenings: Vec<Happening>,
    pub(super) choices: Vec<Choice>,
    pub(super) scrapes: Vec<ScrapeSeen>,
    pub(super) samples: Vec<Sample>,
    /// When a replica was changed by the scenario, and which.
    pub(super) faults: Vec<(Time, ReplicaId)>,
    /// When load from elsewhere began, and where.
    pub(super) elsewhere: Vec<(Time, ReplicaId)>,
    /// Leases, waiting requests, open requests and engine work left when it was over.
    pub(super) left_behind: usize,
    /// The run of one traffic alone, where it was asked for.
    pub(super) alone: Option<Box<Seen>>,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) group: usize,
    /// Number of the conversation in its group.
    pub(super) session: u32,
}

/// One choice, as it was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) job: JobId,
    /// The engine chosen has requests that wait, and another that is up has none.
    pub(super) past_a_free_one: bool,
    /// How much later the first token is predicted there than at the best other place, in milliseconds.
    pub(super) late_ms: Option<f64>,
}

/// One scrape, when its answer came.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScrapeSeen {
    pub(super) at: Time,
    pub(super) replica: ReplicaId,
    pub(super) good: bool,
}

/// The pool's numbers at one moment.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) at: Time,
    pub(super) imbalance: f64,
    pub(super) session_pins: usize,
    pub(super) prefix_pins: usize,
    /// Most pins on a replica that is PROBING.
    pub(super) pins_on_probing: usize,
}

impl Sample {
    pub(super) fn of(at: Time, pool: &PoolSnapshot) -> Self {
        let probing = pool.replicas.iter().filter(|replica| replica.health == Health::Probing);
        Self {
            at,
            imbalance: pool.imbalance_index,
            session_pins: pool.session_pins,
            prefix_pins: pool.prefix_pins,
            pins_on_probing: probing.map(|replica| replica.pins).max().unwrap_or(0),
        }
    }
}

/// An attempt as it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) job: JobId,
    pub(super) replica: ReplicaId,
    pub(super) reason: &'static str,
}

impl Seen {
    fn group(&self, name: Option<&str>) -> Option<usize> {
        self.groups.iter().position(|group| Some(group.as_str()) == name)
    }

    /// Whether the request belongs to this traffic; without a name all do.
    pub(super) fn is_of(&self, job: JobId, name: Option<&str>) -> bool {
        name.is_none() || self.origin(job).is_some_and(|origin| Some(origin.group) == self.group(name))
    }

    pub(super) fn origin(&self, job: JobId) -> Option<Origin> {
        self.jobs.get(job.index()).copied()
    }

    /// Attempts of this traffic, in order.
    pub(super) fn sent<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = Sent> + 'a {
        self.happenings.iter().filter_map(move |happening| match happening {
            Happening::Sent { at, job, replica, reason } if self.is_of(*job, name) => {
                Some(Sent { at: *at, job: *job, replica: *replica, reason })
            }
            _ => None,
        })
    }

    /// The first attempt of each request of this traffic.
    pub(super) fn first_sent<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = Sent> + 'a {
        let mut known = vec![false; self.jobs.len()];
        self.sent(name).filter(move |sent| match known.get_mut(sent.job.index()) {
            Some(known) => !std::mem::replace(known, true),
            None => false,
        })
    }

    /// How requests of this traffic ended.
    pub(super) fn records<'a>(&'a self, name: Option<&'a str>) -> impl Iterator<Item = &'a Record> {
        self.happenings.iter().filter_map(move |happening| match happening {
            Happening::Ended(record) if self.is_of(record.job, name) => Some(record),
            _ => None,
        })
    }

    /// Changes of health.
    pub(super) fn transitions(&self) -> impl Iterator<Item = &sluicegate_core::Transition> {
        self.happenings.iter().filter_map(|happening| match happening {
            Happening::Transition(transition) => Some(transition),
            _ => None,
        })
    }
}

/// The client went by itself.
pub(super) fn left(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::ClientGone | Outcome::ClientGoneQueued)
}
