//! Places in a pool: who gets one at once, who waits, and who is next when one comes free.

use super::Pool;
use crate::board::Row;
use crate::choose::{Branch, Choice, Scope, choose_in};
use crate::effect::Effect;
use crate::explain::NoPlace;
use crate::health::Health;
use crate::ids::{ReplicaId, Weight};
use crate::lease::Lease;
use crate::pick::{NoReplica, PickRequest, Reason};
use crate::queue::{Admission, Charge, Denial, FlowId, Line, QueueSnapshot, Rank, Stir, Ticket, Waiting};
use crate::time::Time;
use crate::verdict::Verdict;

/// Whether one more can wait.
enum Room {
    Free,
    /// This one gives way to it.
    InPlaceOf(Ticket),
    None,
}

impl Pool {
    /// What becomes of a request that has no place now.
    pub(crate) fn no_place(&self, now: Time, request: &PickRequest<'_>, waiting: Waiting) -> NoPlace {
        let full = match self.room(request, waiting) {
            Err(why) => return NoPlace::NoReplica(why),
            Ok(Room::Free) => false,
            Ok(Room::None | Room::InPlaceOf(_)) if self.sends_on(now, request, waiting.route) => true,
            Ok(Room::None) => {
                return NoPlace::Full { retry_after: self.queue.retry_after(now, waiting.limits) };
            }
            Ok(Room::InPlaceOf(_)) => false,
        };
        let flow = FlowId { priority: waiting.priority, key: waiting.key };
        let rival = |line: &Line| self.compete(&line.request(Weight(0)), request);
        let (fresh, prefill) = (request.tried.is_empty(), self.expected(request));
        let ahead = self.queue.ahead(now, flow, fresh, prefill, rival);
        match self.holds_back(request) {
            // The first in order goes on at once.
            true => NoPlace::Held { ahead: ahead.saturating_sub(usize::from(full)) },
            false => NoPlace::Waits { ahead },
        }
    }

    /// The client of a waiting request has left. False: it does not wait any more; a lease that it was granted is
    /// released by whoever gets it, and goes to the next.
    pub fn leave(&mut self, ticket: Ticket) -> bool {
        let waited = self.queue.remove(ticket).is_some();
        self.queue.tally.left += u64::from(waited);
        self.check();
        waited
    }

    /// What the request cost in truth, in tokens, put in the place of its estimate: for the fairness between keys. To
    /// be called once, before the lease is released. Without it the estimate stands, unless the release says that
    /// the replica failed; a place that was never used cost 0.
    pub fn served(&mut self, lease: &mut Lease, tokens: u64) {
        if let Some(charge) = lease.charge.take() {
            self.queue.correct(charge, tokens);
        }
        self.check();
    }

    /// How many tokens the answer had, where that is known: for predicting how long others decode. To be called
    /// once, before the lease is released.
    pub fn generated(&mut self, tokens: u32) {
        self.predictor.iter_mut().for_each(|predictor| predictor.generated(tokens));
    }

    /// The queue's numbers for metrics and the dashboard.
    #[must_use]
    pub fn queue(&self, now: Time) -> QueueSnapshot {
        let held = |line: &Line| self.holds_back(&line.request(Weight(0)));
        self.queue.snapshot(now.max(self.now), held)
    }

    /// A failed attempt served nobody.
    pub(super) fn uncharge(&mut self, charge: Charge, verdict: Verdict) {
        match verdict {
            Verdict::Success | Verdict::Neutral | Verdict::SilentTimeout => {}
            Verdict::Busy
            | Verdict::Failure(_)
            | Verdict::Refused
            | Verdict::ConnectFailed
            | Verdict::Deferred => self.queue.correct(charge, 0),
        }
    }

    /// Those who have waited too long are told so.
    pub(super) fn expire(&mut self, now: Time) {
        while let Some(ticket) = self.queue.overdue(now) {
            if self.send_on(now, ticket) {
                continue;
            }
            let Some(waiter) = self.queue.remove(ticket) else { break };
            self.queue.tally.timeouts += 1;
            let retry_after = self.queue.retry_after(now, waiter.waiting.limits);
            self.effects.push_back(Effect::Denied { ticket, why: Denial::QueueTimeout { retry_after } });
        }
    }

    /// Ends every change that may have brought a place or taken the last hope: after it nobody waits for whom there
    /// is a place, or for whom there can never be one.
    #[inline]
    pub(crate) fn settle(&mut self, now: Time) {
        if self.outgoing > 0 {
            self.relieve(now);
        }
        match std::mem::take(&mut self.stir) {
            Stir::Nothing if !self.queue.holds() => {}
            stir => self.give_places(now, stir),
        }
        self.check();
    }

    fn give_places(&mut self, now: Time, stir: Stir) {
        while let Some((ticket, choice)) = self.first_placed(now, true, |line| self.concerns(now, stir, line))
        {
            self.grant(now, ticket, &choice);
        }
        if stir == Stir::All {
            self.deny_hopeless();
        }
    }

    /// Some replica's slots are known: requests may wait here.
    pub(crate) fn has_slots(&self) -> bool {
        self.slotted > 0
    }

    /// Whether the replica has a free slot, or none that are known.
    pub(crate) fn has_slot(&self, id: ReplicaId) -> bool {
        self.place(id).is_some_and(|place| self.board[place].has_slot)
    }

    pub(super) fn charge(&mut self, now: Time, waiting: Waiting) -> Charge {
        let flow = FlowId { priority: waiting.priority, key: waiting.key };
        self.queue.charge(now, flow, waiting.cost_tokens)
    }

    /// Has the request wait, where slots are known and one can come free, or it is held back. `why`: nobody can take it
    /// now.
    pub(crate) fn enqueue(
        &mut self,
        now: Time,
        request: &PickRequest<'_>,
        why: NoReplica,
        waiting: Waiting,
    ) -> Admission {
        let held = self.holds_back(request);
        if !self.has_slots() && !held {
            return Admission::No(why);
        }
        match self.room(request, waiting) {
            Err(why) => return Admission::No(why),
            Ok(Room::None | Room::InPlaceOf(_)) if self.sends_on(now, request, waiting.route) => {
                let ticket = self.push(now, request, waiting);
                if let Some((first, _)) = self.first_held(now, waiting.route) {
                    self.send_on(now, first);
                }
                return Admission::Queued(ticket);
            }
            Ok(Room::None) => {
                self.queue.tally.refused += 1;
                return Admission::Full { retry_after: self.queue.retry_after(now, waiting.limits) };
            }
            Ok(Room::InPlaceOf(ticket)) => self.give_way(now, ticket),
            Ok(Room::Free) => {}
        }
        Admission::Queued(self.push(now, request, waiting))
    }

    fn push(&mut self, now: Time, request: &PickRequest<'_>, waiting: Waiting) -> Ticket {
        self.queue.push(now, request, waiting, self.expected(request))
    }

    /// The queue's room for a request that some replica could ever take.
    fn room(&self, request: &PickRequest<'_>, waiting: Waiting) -> Result<Room, NoReplica> {
        Branch::alone(self.view(), request).hope()?;
        if !self.queue.is_full(waiting.route, waiting.limits) {
            return Ok(Room::Free);
        }
        Ok(self.queue.gives_way(&waiting).map_or(Room::None, Room::InPlaceOf))
    }

    fn give_way(&mut self, now: Time, ticket: Ticket) {
        let Some(waiter) = self.queue.remove(ticket) else { return };
        self.queue.tally.refused += 1;
        let retry_after = self.queue.retry_after(now, waiter.waiting.limits);
        self.effects.push_back(Effect::Denied { ticket, why: Denial::QueueFull { retry_after } });
    }

    /// Whether there is a replica that both could go to.
    fn compete(&self, one: &PickRequest<'_>, other: &PickRequest<'_>) -> bool {
        let serves = |index: usize, request: &PickRequest<'_>| {
            request.may_go_to(self.board[index].id)
                && self.board[index].serves(&self.replicas[index], request.model)
                && !request.tried.contains(&self.board[index].id)
        };
        let in_use = |index: usize| self.board[index].health != Health::Draining;
        (0..self.board.len()).any(|index| in_use(index) && serves(index, one) && serves(index, other))
    }

    /// The first in order of those in these lines who can have a place now, and which. `held`: only where no more is
    /// queued than their hold allows.
    pub(super) fn first_placed(
        &self,
        now: Time,
        held: bool,
        of: impl Fn(&Line) -> bool,
    ) -> Option<(Ticket, Choice)> {
        let mut best: Option<((Rank, Time, Ticket), Choice)> = None;
        for (id, line) in self.queue.lines() {
            let Some(rank) = line.first() else { continue };
            let Some((due, ticket)) = self.queue.at(id, rank) else { continue };
            // A key may be first in several lines: there its request that is due first goes first.
            let turn = (rank, due, ticket);
            if best.as_ref().is_some_and(|(best, _)| *best < turn) || !of(line) {
                continue;
            }
            if let Some(choice) = self.place_for(now, line, ticket, held) {
                best = Some((turn, choice));
            }
        }
        best.map(|((.., ticket), choice)| (ticket, choice))
    }

    /// The place that this one of the line can have now.
    pub(super) fn place_for(&self, now: Time, line: &Line, ticket: Ticket, held: bool) -> Option<Choice> {
        let (request, by_load) = self.queue.request(line, ticket)?;
        let request = PickRequest { hold: request.hold.filter(|_| held), ..request };
        let choice = choose_in(self.view(), now, &request, Scope::WithSlot).ok()?;
        let reason = if choice.reason == Reason::Load { by_load } else { choice.reason };
        Some(Choice { reason, ..choice })
    }

    /// Whether the change may have brought this line a place. What is queued changes with time alone, too.
    fn concerns(&self, now: Time, stir: Stir, line: &Line) -> bool {
        match stir {
            _ if line.held.is_some() => self.may_place(now, line),
            Stir::Nothing => false,
            Stir::One(replica) => Branch::alone(self.view(), &line.request(Weight(0))).may_take(replica),
            Stir::All => true,
        }
    }

    pub(super) fn grant(&mut self, now: Time, ticket: Ticket, choice: &Choice) {
        let Some(waiter) = self.queue.remove(ticket) else { return };
        let picked = self.settle_on(now, &waiter.request(), choice, Some(waiter.waiting));
        self.queue.tally.grants += 1;
        self.effects.push_back(Effect::Granted { ticket, picked });
    }

    fn deny_hopeless(&mut self) {
        let hopeless: Vec<(Ticket, NoReplica)> = {
            let view = self.view();
            let lost = |(id, line): (_, &Line)| {
                let why = Branch::alone(view, &line.request(Weight(0))).hope().err()?;
                Some(self.queue.of_line(id).into_iter().map(move |ticket| (ticket, why)))
            };
            self.queue.lines().filter_map(lost).flatten().collect()
        };
        for (ticket, why) in hopeless {
            self.queue.remove(ticket);
            self.queue.tally.denied += 1;
            self.effects.push_back(Effect::Denied { ticket, why: Denial::NoReplica(why) });
        }
    }

    /// The replica's line on the board changed from `before`: remembered until places are given out.
    pub(super) fn stirred(&mut self, id: ReplicaId, before: Row) {
        let Some(after) = self.place(id).map(|place| &self.board[place]) else { return };
        if before == *after {
            return;
        }
        let one = Stir::One(id);
        self.stir = if before.health != after.health || ![Stir::Nothing, one].contains(&self.stir) {
            Stir::All
        } else {
            one
        };
    }
}
