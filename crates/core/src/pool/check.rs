//! The pool's invariants, checked after every change in debug builds.

use super::Pool;
use crate::board::Row;
use crate::choose::{Branch, Scope, choose_in};
use crate::health::Health;
use crate::ids::{ReplicaId, Weight};
use crate::queue::Stir;
use crate::replica::Membership;

impl Pool {
    /// Panics where the pool contradicts itself: leases and the replicas' books differ, a replica that is not LIVE
    /// holds pins, the pin table's lists disagree, somebody waits for whom there is a place. Debug builds call it after every change.
    pub fn check_invariants(&self) {
        let inflight: u64 = self.replicas.iter().map(|replica| u64::from(replica.load.inflight())).sum();
        assert_eq!(inflight, self.leases.count, "requests in flight are the leases that are out");
        let weight: u64 = self.replicas.iter().map(|replica| replica.load.weight()).sum();
        assert_eq!(weight, self.leases.weight, "weight in flight is that of the leases that are out");
        assert_eq!(self.board.len(), self.replicas.len(), "a row for each replica");
        let ordered = self.board.windows(2).all(|pair| pair[0].id < pair[1].id);
        assert!(ordered, "rows are in order of their ids");
        for (replica, row) in self.replicas.iter().zip(&self.board) {
            let leaves = matches!(replica.membership, Membership::Leaving { .. });
            assert!(!leaves || replica.load.inflight() > 0, "a removed replica without leases is gone");
            assert!(!leaves || replica.health.health() == Health::Draining, "a removed replica drains");
            assert_eq!(*row, Row::of(replica, &self.settings), "a row is what its replica says");
            replica.load.check();
            replica.health.check();
            if let Some(predictor) = &self.predictor {
                let inflight = replica.load.inflight() as usize;
                assert_eq!(predictor.open(replica.seat), inflight, "the ledger holds the requests in flight");
            }
            let hosted = !replica.health.is_scraped();
            assert!(!hosted || replica.schedule.outstanding().is_none(), "a hosted replica is never scraped");
        }
        self.check_outgoing();
        self.check_queue();
        self.pins.check(self.now, |id: ReplicaId| {
            self.place(id).is_some_and(|place| self.replicas[place].health.takes_pins())
        });
    }

    fn check_outgoing(&self) {
        let of =
            |wanted: Membership| self.replicas.iter().filter(move |replica| replica.membership == wanted);
        let outgoing = of(Membership::Outgoing).count();
        assert_eq!(outgoing, self.outgoing, "replicas that wait for one that stays");
        if outgoing > 0 {
            assert!(of(Membership::Outgoing).all(|replica| replica.health.in_service()), "they serve");
            assert!(of(Membership::Member).next().is_some(), "somebody is to come");
            let live = of(Membership::Member).any(|replica| replica.health.health() == Health::Live);
            assert!(!live, "nobody has come");
        }
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
