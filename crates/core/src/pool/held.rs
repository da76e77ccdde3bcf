//! Late binding: requests that wait while every candidate has more than so much prefill queued.
//!
//! They wait in the queue like those for whom no slot is free, under the same bounds, and in the same order but for
//! who of a key goes first. Holding back turns nobody away: where a request would be, for a full queue or the end of its
//! wait, somebody goes on who has a place but for that.

use super::Pool;
use crate::board::Row;
use crate::choose::{Branch, Choice, Scope, Survey};
use crate::health::Health;
use crate::ids::{RouteIndex, Weight};
use crate::pick::PickRequest;
use crate::predict::Predictor;
use crate::queue::{Line, Ticket};
use crate::time::Time;

impl Pool {
    /// Somebody waits whose request may be held back: then whatever changes what a replica has queued may move
    /// [`Pool::next_deadline`].
    #[must_use]
    pub fn holds(&self) -> bool {
        self.queue.holds()
    }

    /// The request would have a place but for its hold, where there is none with it.
    pub(crate) fn holds_back(&self, request: &PickRequest<'_>) -> bool {
        let branch = Branch::alone(self.view(), request);
        request.hold().is_some() && Survey::of(&[branch], Scope::WithSlot).least_loaded().is_some()
    }

    /// As many of the route wait as may: whoever of those held back is first in order goes on, whatever is queued.
    /// `None`: none of them would have a place.
    pub(super) fn first_held(&self, now: Time, route: RouteIndex) -> Option<(Ticket, Choice)> {
        self.first_placed(now, false, |line| line.held.is_some_and(|held| held.route == route))
    }

    /// Seconds of prefill that decide which request of a key goes first: none where that is not held back.
    pub(super) fn expected(&self, request: &PickRequest<'_>) -> f64 {
        let predictor = self.predictor.as_ref().filter(|_| request.hold().is_some());
        predictor.map_or(0.0, |predictor| predictor.expected(&request.prompt))
    }

    /// Whether a newcomer to a full route has somebody sent on, itself perhaps, in the place of being turned away.
    pub(super) fn sends_on(&self, now: Time, request: &PickRequest<'_>, route: RouteIndex) -> bool {
        request.hold().is_some() && (self.holds_back(request) || self.first_held(now, route).is_some())
    }

    /// One that was held back goes on, whatever is queued. False: it was not, or has no place for another reason.
    pub(super) fn send_on(&mut self, now: Time, ticket: Ticket) -> bool {
        let line = self.queue.line_of(ticket).filter(|line| line.held.is_some());
        let choice = line.and_then(|line| self.place_for(now, line, ticket, false));
        if let Some(choice) = &choice {
            self.queue.tally.sent_on += 1;
            self.grant(now, ticket, choice);
        }
        choice.is_some()
    }

    /// Whether some replica may have a place for the line's requests: a cheap look before a choice.
    pub(super) fn may_place(&self, now: Time, line: &Line) -> bool {
        let Some(held) = line.held else { return true };
        let hold = held.hold.as_secs_f64();
        let request = line.request(Weight(0));
        let branch = Branch::alone(self.view(), &request);
        let little = |row: &Row| {
            let queued = |predictor: &Predictor| predictor.queued(now, row.seat);
            row.health == Health::Ejected || self.predictor.as_ref().map(queued).is_some_and(|q| q <= hold)
        };
        self.board.iter().any(|row| branch.may_take(row.id) && little(row))
    }

    /// When time alone will have brought one of those held back a place.
    pub(super) fn held_deadline(&self) -> Option<Time> {
        let predictor = self.predictor.as_ref()?;
        let of_line = |line: &Line| {
            let hold = line.held?.hold;
            let request = line.request(Weight(0));
            let branch = Branch::alone(self.view(), &request);
            let open = |row: &&Row| row.health != Health::Ejected && branch.may_take(row.id);
            let down = |row: &Row| predictor.comes_down_to(self.now, row.seat, hold);
            self.board.iter().filter(open).filter_map(down).min()
        };
        self.queue.held().filter_map(of_line).min()
    }
}
