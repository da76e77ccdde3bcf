//! Which replicas a pool has: those of its configuration always, others as a source of replicas says.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sluicegate_core::{Health, Origin, ReplicaId, ReplicaSnapshot, ReplicaSpec, Serves, Time};

use super::{Control, Pool, Replica};
use crate::plan::{ReplicaPlan, Slots};

/// Most replicas that a source may give a pool: a list that is longer is a mistake, and is not taken.
pub const MOST_REPLICAS: usize = 1000;

/// The replicas that did not come with the configuration, by name, and what new ones begin with.
#[derive(Debug)]
pub(super) struct Members {
    discovered: Mutex<HashMap<Arc<str>, ReplicaId>>,
    serves: Serves,
}

/// What became of a new list of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// It is what the pool has now.
    Applied {
        /// Replicas that it has more than before.
        added: usize,
        /// Replicas that drain and are gone when their last request has ended.
        removed: usize,
        /// Of those, and of those of earlier lists, how many serve on until one that stays is LIVE.
        serving_on: usize,
    },
    /// The list was empty: the replicas stay as they were, since nobody means to have none.
    KeptForEmpty,
    /// The list has more than [`MOST_REPLICAS`]: the replicas stay as they were.
    KeptForTooMany,
}

impl Members {
    pub(super) fn new(serves: &Serves) -> Self {
        Self { discovered: Mutex::default(), serves: serves.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, ReplicaId>> {
        self.discovered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Makes `wanted` the pool's replicas, next to those of its configuration. One that is not among them any more
    /// drains: its requests run to their end. Before that it goes on serving while none that stays is LIVE. One that is
    /// new proves itself first, unless none that stays is LIVE. Names tell replicas apart; the second of a name is left
    /// out.
    pub fn set_replicas(&self, wanted: &[ReplicaPlan]) -> Update {
        let configured = |name: &str| self.plan.replicas.iter().any(|url| *url.text == *name);
        match wanted.len() {
            0 => return Update::KeptForEmpty,
            n if n > MOST_REPLICAS => return Update::KeptForTooMany,
            _ => {}
        }
        let names: HashSet<&str> = wanted.iter().map(|replica| &*replica.url.text).collect();
        let mut discovered = self.members.lock();
        let gone: Vec<_> =
            discovered.extract_if(|name, _| !names.contains(&**name)).map(|(_, id)| id).collect();
        let mut added = 0;
        let serving_on = self.with_core(Control::Always, |core, now| {
            let stays = |r: &ReplicaSnapshot| r.health == Health::Live && !gone.contains(&r.id);
            // Who has nobody to prove itself next to must not be kept to a request at a time.
            let tried = core.snapshot(now).replicas.iter().any(stays);
            let origin = if tried { Origin::Discovered } else { Origin::Startup };
            for replica in wanted {
                let name = &replica.url.text;
                if !configured(name) && !discovered.contains_key(name) {
                    discovered.insert(Arc::clone(name), self.add(core, now, replica, origin));
                    added += 1;
                }
            }
            // After those that may take over their requests.
            core.remove(now, &gone)
        });
        Update::Applied { added, removed: gone.len(), serving_on }
    }

    /// Those of the configuration, once, when nobody else knows of the pool yet.
    pub(super) fn add_configured(&self) {
        for url in &self.plan.replicas {
            let replica = ReplicaPlan { url: url.clone(), headers: Vec::new() };
            self.with_core(Control::Always, |core, now| self.add(core, now, &replica, Origin::Startup));
        }
    }

    /// Under the core's lock: a replica that can be chosen must be found.
    fn add(
        &self,
        core: &mut sluicegate_core::Pool,
        now: Time,
        plan: &ReplicaPlan,
        origin: Origin,
    ) -> ReplicaId {
        let slots = match self.plan.slots {
            Slots::Fixed(n) => Some(n),
            Slots::Unknown | Slots::Ask => None,
        };
        let (scraped, serves) = (!self.plan.hosted, self.members.serves.clone());
        let spec = ReplicaSpec { name: plan.url.text.to_string(), origin, scraped, slots, serves };
        let id = core.add(now, spec);
        // One that was leaving has stayed.
        if self.replica(id).is_none() {
            let new = Arc::new(Replica::new(id, plan));
            self.replicas.rcu(|known| {
                let mut all = Vec::with_capacity(known.len() + 1);
                all.extend(known.iter().cloned());
                all.push(Arc::clone(&new));
                all
            });
        }
        id
    }

    /// The replica is gone: its idle connections are closed by the threads that keep them.
    pub(crate) fn forget(&self, id: ReplicaId) {
        let Some(replica) = self.replica(id) else { return };
        self.replicas.rcu(|known| known.iter().filter(|r| r.id != id).cloned().collect::<Vec<_>>());
        replica.gone.store(true, Ordering::Relaxed);
    }

    /// The replicas that are there, in order of their ids.
    pub(crate) fn replicas(&self) -> Arc<Vec<Arc<Replica>>> {
        self.replicas.load_full()
    }

    /// Takes no lock. As long as nothing was removed, id and place are the same number.
    pub(crate) fn replica(&self, id: ReplicaId) -> Option<Arc<Replica>> {
        let known = self.replicas.load();
        let place = match known.get(id.0 as usize) {
            Some(replica) if replica.id == id => id.0 as usize,
            _ => known.binary_search_by_key(&id, |replica| replica.id).ok()?,
        };
        known.get(place).cloned()
    }
}

#[cfg(test)]
mod tests;
