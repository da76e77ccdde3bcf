//! What every choice reads of every replica, side by side: a choice among a thousand replicas touches these few
//! kilobytes and not their records. Derived from the records after each change, and checked against them.

use crate::health::Health;
use crate::ids::{ModelId, ReplicaId, Serves};
use crate::replica::Replica;
use crate::settings::PoolSettings;
use crate::time::Time;

/// Where the replica's line is. Lines are in order of their ids; as long as nothing was removed, id and place are the
/// same number.
#[inline]
pub(crate) fn place(board: &[Row], id: ReplicaId) -> Option<usize> {
    match board.get(id.index()) {
        Some(row) if row.id == id => Some(id.index()),
        _ => board.binary_search_by_key(&id, |row| row.id).ok(),
    }
}

/// One replica's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: ReplicaId,
    /// Its place in what is predicted.
    pub(crate) seat: usize,
    /// `effective_running`, in thousandths.
    pub(crate) running: u64,
    /// `effective_waiting`, in thousandths.
    pub(crate) waiting: u64,
    /// For rendezvous hashing.
    pub(crate) identity: u64,
    /// When time alone changes something about it next.
    pub(crate) deadline: Option<Time>,
    pub(crate) inflight: u32,
    pub(crate) health: Health,
    /// No slot is known to be taken by the last request that fits.
    pub(crate) has_slot: bool,
    serves_all: bool,
}

impl Row {
    pub(crate) fn of(replica: &Replica, settings: &PoolSettings) -> Self {
        let load = &replica.load;
        Self {
            id: replica.id,
            seat: replica.seat,
            running: load.effective_running(settings.load_source),
            waiting: load.effective_waiting(settings.load_source, settings.waiting_counts),
            identity: replica.identity,
            deadline: replica.deadline(&settings.health),
            inflight: load.inflight(),
            health: replica.health.health(),
            has_slot: load.free_slot().unwrap_or(true),
            serves_all: replica.serves == Serves::All,
        }
    }

    pub(crate) fn serves(&self, replica: &Replica, model: Option<ModelId>) -> bool {
        self.serves_all || replica.serves.serves(model)
    }
}
