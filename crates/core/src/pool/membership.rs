//! Which replicas the pool has: they come, are drained, and leave.

use super::Pool;
use crate::board::Row;
use crate::effect::Effect;
use crate::health::{Health, HealthRecord};
use crate::ids::ReplicaId;
use crate::predict::Predictor;
use crate::queue::Stir;
use crate::replica::{Membership, Replica, ReplicaSpec};
use crate::time::Time;
use std::collections::VecDeque;

/// Replicas that are gone whose health history is kept, in case they come back; the one gone longest goes first.
const MOST_GONE: usize = 1000;

/// The health history of replicas that are gone, by name, the one gone longest first.
#[derive(Debug, Default)]
pub(super) struct Gone(VecDeque<(String, HealthRecord)>);

impl Gone {
    fn keep(&mut self, name: String, health: HealthRecord) {
        self.0.retain(|(known, _)| *known != name);
        if self.0.len() >= MOST_GONE {
            self.0.pop_front();
        }
        self.0.push_back((name, health));
    }

    fn take(&mut self, name: &str) -> Option<HealthRecord> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        self.0.remove(at).map(|(_, health)| health)
    }
}

impl Pool {
    /// Adds a replica: STARTING and due for a scrape at once, or, if it is hosted, LIVE. One of this name that is
    /// leaving stays instead, under its own id. One that is gone comes back as a discovered one under a new id, with
    /// its health history, a running cooldown included.
    pub fn add(&mut self, now: Time, spec: ReplicaSpec) -> ReplicaId {
        let now = self.advance(now);
        if let Some(id) = self.stay(now, &spec.name) {
            return id;
        }
        let id = ReplicaId(self.next);
        self.next = self.next.saturating_add(1);
        let history = self.gone.take(&spec.name);
        let mut replica = Replica::new(now, id, spec, history);
        replica.seat = self.predictor.as_mut().map_or(0, Predictor::add_replica);
        self.board.push(Row::of(&replica, &self.settings));
        self.slotted += usize::from(replica.load.slots().is_some());
        self.replicas.push(replica);
        self.pins.add_replica(id);
        self.stir = Stir::All;
        self.start_scrape(now, id);
        self.settle(now);
        id
    }

    /// Takes these replicas out for good, together: each drains, and when its last lease is back it is gone
    /// ([`Effect::Removed`]). Its id is never used again; its health history is kept under its name for a bounded
    /// number of replicas.
    ///
    /// While others stay and none of them is LIVE, those that are in service go on serving until one is, or until they
    /// are out of service themselves. Returns how many do.
    pub fn remove(&mut self, now: Time, ids: &[ReplicaId]) -> usize {
        let now = self.advance(now);
        for id in ids {
            if let Some(replica) = self.replica_mut(*id)
                && replica.membership == Membership::Member
            {
                replica.membership = Membership::Outgoing;
                self.outgoing += 1;
            }
        }
        self.settle(now);
        self.outgoing
    }

    /// Those of the removed that need not stay in service drain.
    pub(super) fn relieve(&mut self, now: Time) {
        let stay = || self.replicas.iter().filter(|replica| replica.membership == Membership::Member);
        let needed = stay().next().is_some() && stay().all(|replica| replica.health.health() != Health::Live);
        let goes = |replica: &&Replica| {
            replica.membership == Membership::Outgoing && !(needed && replica.health.in_service())
        };
        let going: Vec<ReplicaId> = self.replicas.iter().filter(goes).map(|replica| replica.id).collect();
        for id in going {
            self.outgoing -= 1;
            self.take_out(now, id);
        }
    }

    fn take_out(&mut self, now: Time, id: ReplicaId) {
        let Some(replica) = self.replica_mut(id) else { return };
        replica.membership = Membership::Leaving { drained: replica.health.health() == Health::Draining };
        let step = replica.health.drain(now, id);
        self.apply(now, id, step);
        self.start_scrape(now, id);
        self.let_go(id);
    }

    /// No new requests; running ones finish, pins are released. It is scraped while requests run there.
    pub fn drain(&mut self, now: Time, id: ReplicaId) {
        self.note_if_leaving(id, true);
        self.step(now, id, |now, replica, _| replica.health.drain(now, id));
    }

    /// Ends a drain: the replica is STARTING again (a hosted one LIVE), with its health history, a running cooldown
    /// included. One that was removed goes on leaving, but would come back undrained.
    pub fn undrain(&mut self, now: Time, id: ReplicaId) {
        if self.note_if_leaving(id, false) {
            return;
        }
        self.step(now, id, |now, replica, _| {
            let step = replica.health.undrain(now, id);
            if step.transition.is_some() {
                replica.schedule.at_once(now);
            }
            step
        });
    }

    /// What an administrator says of one that is leaving counts if it comes back. False: it is not leaving.
    fn note_if_leaving(&mut self, id: ReplicaId, word: bool) -> bool {
        match self.replica_mut(id).map(|replica| &mut replica.membership) {
            Some(Membership::Leaving { drained }) => {
                *drained = word;
                true
            }
            Some(Membership::Member | Membership::Outgoing) | None => false,
        }
    }

    /// The replica of this name that was removed, is still there, and now stays.
    fn stay(&mut self, now: Time, name: &str) -> Option<ReplicaId> {
        let removed =
            |replica: &&mut Replica| replica.membership != Membership::Member && replica.name == name;
        let replica = self.replicas.iter_mut().find(removed)?;
        let (id, before) = (replica.id, std::mem::replace(&mut replica.membership, Membership::Member));
        match before {
            Membership::Leaving { drained: false } => self.undrain(now, id),
            Membership::Leaving { drained: true } | Membership::Member => {}
            Membership::Outgoing => {
                self.outgoing -= 1;
                self.settle(now);
            }
        }
        Some(id)
    }

    /// Forgets a replica that is leaving and has no lease out.
    pub(super) fn let_go(&mut self, id: ReplicaId) {
        let Some(place) = self.place(id) else { return };
        let replica = &self.replicas[place];
        if !matches!(replica.membership, Membership::Leaving { .. }) || replica.load.inflight() > 0 {
            return;
        }
        let replica = self.replicas.remove(place);
        self.board.remove(place);
        self.pins.remove_replica(id);
        self.predictor.iter_mut().for_each(|predictor| predictor.remove_replica(replica.seat));
        self.slotted -= usize::from(replica.load.slots().is_some());
        // The turn stays with the same replica; of the one that left it goes to the one before.
        if self.turn >= place {
            self.turn = self.turn.checked_sub(1).unwrap_or(self.board.len().saturating_sub(1));
        }
        self.gone.keep(replica.name, replica.health);
        self.stir = Stir::All;
        self.effects.push_back(Effect::Removed(id));
    }
}
