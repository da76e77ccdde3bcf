//! Admission on the bench: who has a place, who waits, who was told what.

use crate::bench::{Bench, request};
use sluicegate_core::*;
use std::time::Duration;

/// A request of a key: route 0, class 0, 100 tokens, the default bounds.
pub(crate) fn by(key: u32) -> Waiting {
    Waiting {
        key: KeyIndex(key),
        route: RouteIndex(0),
        priority: 0,
        cost_tokens: 100,
        limits: QueueLimits::default(),
    }
}

pub(crate) fn bounded(max_length: usize, max_wait: Duration) -> Waiting {
    Waiting { limits: QueueLimits { max_length, max_wait }, ..by(0) }
}

/// What happened to waiting requests, in order.
#[derive(Debug)]
pub(crate) enum Told {
    Granted(Ticket, Picked),
    Denied(Ticket, Denial),
}

impl Bench {
    /// LIVE replicas with so many slots each.
    pub(crate) fn slotted(slots: &[u32]) -> Self {
        let mut bench = Self::live(slots.len(), PoolSettings::default());
        for (id, slots) in (0..).zip(slots) {
            bench.pool.set_slots(ReplicaId(id), Some(*slots));
        }
        bench
    }

    pub(crate) fn admit(&mut self, waiting: Waiting) -> Admission {
        self.pool.admit(self.now, &request(), waiting)
    }

    pub(crate) fn placed(&mut self, waiting: Waiting) -> Picked {
        self.placed_for(&request(), waiting)
    }

    pub(crate) fn placed_for(&mut self, request: &PickRequest<'_>, waiting: Waiting) -> Picked {
        match self.pool.admit(self.now, request, waiting) {
            Admission::Picked(picked) => picked,
            other => panic!("no place: {other:?}"),
        }
    }

    pub(crate) fn queued(&mut self, waiting: Waiting) -> Ticket {
        self.queued_for(&request(), waiting)
    }

    pub(crate) fn queued_for(&mut self, request: &PickRequest<'_>, waiting: Waiting) -> Ticket {
        match self.pool.admit(self.now, request, waiting) {
            Admission::Queued(ticket) => ticket,
            other => panic!("does not wait: {other:?}"),
        }
    }

    /// Takes every place that there is, for key 99.
    pub(crate) fn fill(&mut self) -> Vec<Lease> {
        let mut leases = Vec::new();
        loop {
            match self.admit(Waiting { limits: QueueLimits { max_length: 0, ..by(0).limits }, ..by(99) }) {
                Admission::Picked(picked) => leases.push(picked.lease),
                Admission::Full { .. } => return leases,
                other => panic!("neither full nor placed: {other:?}"),
            }
        }
    }

    pub(crate) fn told(&mut self) -> Vec<Told> {
        let told = |effect| match effect {
            Effect::Granted { ticket, picked } => Some(Told::Granted(ticket, picked)),
            Effect::Denied { ticket, why } => Some(Told::Denied(ticket, why)),
            _ => None,
        };
        self.take_effects().into_iter().filter_map(told).collect()
    }

    /// Those who were given a place since the last call; nobody was denied one.
    pub(crate) fn grants(&mut self) -> Vec<(Ticket, Picked)> {
        let granted = |told| match told {
            Told::Granted(ticket, picked) => (ticket, picked),
            Told::Denied(ticket, why) => panic!("{ticket:?} was denied a place: {why:?}"),
        };
        self.told().into_iter().map(granted).collect()
    }

    pub(crate) fn tickets(&mut self) -> Vec<Ticket> {
        self.grants().into_iter().map(|(ticket, _)| ticket).collect()
    }

    /// Gives the lease back and serves whoever gets the place, each at once, until nobody does: in which order.
    pub(crate) fn serve_all(&mut self, lease: Lease) -> Vec<Ticket> {
        let (mut lease, mut order) = (Some(lease), Vec::new());
        while let Some(open) = lease.take() {
            self.end(open, Verdict::Success);
            for (ticket, picked) in self.grants() {
                order.push(ticket);
                assert!(lease.replace(picked.lease).is_none(), "one place at a time");
            }
        }
        order
    }

    pub(crate) fn waiting(&self) -> usize {
        self.pool.queue(self.now).waiting.iter().map(|depth| depth.waiting).sum()
    }
}
