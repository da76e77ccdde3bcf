//! A choice carried out: the place is taken, the pins follow, and the first byte says that it was a good one.

use super::Pool;
use crate::choose::{Choice, PinChanges};
use crate::ids::{ReplicaId, Weight};
use crate::lease::{Hold, Lease, OnAnswer};
use crate::load::REQUEST;
use crate::pick::{PickRequest, Picked};
use crate::queue::Waiting;
use crate::time::Time;

impl Pool {
    /// The first answer byte is on its way to the client: pins are made, renewed or moved. Only a LIVE replica takes
    /// pins.
    pub fn answered(&mut self, now: Time, lease: &mut Lease) {
        let now = self.advance(now);
        let Some(place) = self.place(lease.replica) else { return };
        let replica = &mut self.replicas[place];
        replica.health.answer_begun(now);
        let first = !std::mem::replace(&mut lease.answered, true);
        let unqueued = first && replica.load.unqueued(lease.sent_after);
        if let (Some(predictor), Some(sent)) = (&mut self.predictor, lease.sent) {
            predictor.answered(now, replica.seat, sent);
        }
        if replica.health.takes_pins() {
            for hold in [lease.holds.session, lease.holds.prefix].into_iter().flatten() {
                self.hold(now, hold, lease.replica);
            }
        }
        if unqueued {
            // It may have been the last one in the way of a slot.
            self.refresh(lease.replica);
        }
        self.settle(now);
    }

    /// All that a choice within this pool alone does.
    pub(super) fn settle_on(
        &mut self,
        now: Time,
        request: &PickRequest<'_>,
        choice: &Choice,
        waiting: Option<Waiting>,
    ) -> Picked {
        self.change_pins(choice.branch, &choice.pins);
        if choice.rolled {
            self.roll();
        }
        self.reserve(now, request, choice, waiting)
    }

    /// Does to the pins what a choice says of this pool, which is the choice's `branch`.
    pub(crate) fn change_pins(&mut self, branch: usize, changes: &PinChanges) {
        let own = |(at, _): &(usize, _)| *at == branch;
        changes.removed().filter(own).for_each(|(_, key)| self.pins.remove(key));
        changes.spill.into_iter().filter(own).for_each(|(_, key)| self.pins.spill(key));
    }

    /// The random word has been used.
    pub(crate) fn roll(&mut self) {
        self.prng.next();
    }

    /// Takes the place that was chosen, and charges it where requests may have to wait.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        now: Time,
        request: &PickRequest<'_>,
        choice: &Choice,
        waiting: Option<Waiting>,
    ) -> Picked {
        let place = self.place(choice.replica).unwrap_or_default();
        if choice.takes_turn {
            self.turn = place;
        }
        let weight = Weight(request.weight.0.max(REQUEST));
        let replica = &mut self.replicas[place];
        replica.picks += 1;
        replica.traffic.add(now);
        let sent_after = replica.load.reserve(weight);
        self.leases.count += 1;
        self.leases.weight += weight.0;
        let lease = Lease {
            replica: choice.replica,
            weight,
            sent_at: now,
            sent_after,
            answered: false,
            era: replica.health.era(),
            holds: choice.holds,
            sent: self
                .predictor
                .as_mut()
                .and_then(|predictor| predictor.sent(now, replica.seat, &request.prompt, choice.depth)),
            charge: waiting
                .filter(|_| self.has_slots() || request.hold.is_some())
                .map(|waiting| self.charge(now, waiting)),
        };
        self.update_row(choice.replica);
        Picked { lease, replica: choice.replica, reason: choice.reason, spilled: choice.spilled }
    }

    fn hold(&mut self, now: Time, hold: Hold, replica: ReplicaId) {
        let exists = self.pins.is_living(now, hold.key);
        match hold.on_answer {
            OnAnswer::Move => self.pins.bind(now, hold.key, replica),
            OnAnswer::Make | OnAnswer::Renew if !exists => self.pins.bind(now, hold.key, replica),
            OnAnswer::Renew => self.pins.renew(now, hold.key, replica),
            OnAnswer::Make => {}
        }
    }
}
