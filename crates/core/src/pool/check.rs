//! The pool's invariants, checked after every change in debug builds.

use super::Pool;
use crate::board::Row;
use crate::choose::{Branch, Scope, choose_in};
use crate::ids::{ReplicaId, Weight};
use crate::queue::Stir;

impl Pool {
    /// Panics where the pool contradicts itself: leases and the replicas' books differ, a replica that is not LIVE
    /// holds pins, the pin table's lists disagree, somebody waits for whom there is a place. Debug builds call it after every change.
    pub fn check_invariants(&self) {
        let inflight: u64 = self.replicas.iter().map(|replica| u64::from(replica.load.inflight())).sum();
        assert_eq!(inflight, self.leases.count, "requests in flight are the leases that are out");
        let weight: u64 = self.replicas.iter().map(|replica| replica.load.weight()).sum();
        assert_eq!(weight, self.leases.weight, "weight in flight is that of the leases that are out");
        assert_eq!(self.board.len(), self.replicas.len(), "a row for each replica");
        for (index, (replica, row)) in self.replicas.iter().zip(&self.board).enumerate() {
            assert_eq!(*row, Row::of(replica, &self.settings), "a row is what its replica says");
            replica.load.check();
            replica.health.check();
            if let Some(predictor) = &self.predictor {
                let inflight = replica.load.inflight() as usize;
                assert_eq!(predictor.open(index), inflight, "the ledger holds the requests in flight");
            }
            let hosted = !replica.health.is_scraped();
            assert!(!hosted || replica.schedule.outstanding().is_none(), "a hosted replica is never scraped");
        }
        self.check_queue();
        self.pins.check(self.now, |id: ReplicaId| {
            self.replicas.get(id.index()).is_some_and(|replica| replica.health.takes_pins())
        });
    }

    fn check_queue(&self) {
        let slotted = self.replicas.iter().filter(|replica| replica.load.slots().is_some()).count();
        assert_eq!(slotted, self.slotted, "replicas whose slots are known");
        assert_eq!(self.stir, Stir::Nothing, "places are given out as soon as they are there");
        self.queue.check();
        let view = self.view();
        for (_, line) in self.queue.lines() {
            let request = line.request(Weight(0));
            let place = choose_in(view, self.now, &request, Scope::WithSlot);
            assert!(place.is_err(), "somebody waits and there is a place: {place:?}");
            assert!(Branch::alone(view, &request).hope().is_ok(), "somebody waits for nothing");
        }
    }

    pub(crate) fn check(&self) {
        if cfg!(debug_assertions) {
            self.check_invariants();
        }
    }
}
