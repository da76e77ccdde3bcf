//! What would become of a request, without its becoming so.

use super::{Lane, Turns, both, is_fit, with_field};
use crate::choose::{Scope, choose};
use crate::explain::{self, Due, Explanation, NoPlace};
use crate::modes::Mode;
use crate::queue::Waiting;
use crate::time::Time;

impl Turns {
    /// What would be done with a new request and why, reserving nothing: by [`Self::admit`] with something to wait
    /// under, else by [`Self::pick`].
    #[must_use]
    pub fn explain(&self, now: Time, lanes: &[Lane<'_, '_>], waiting: Option<Waiting>) -> Explanation {
        let now = lanes.iter().map(|lane| lane.pool.latest(now)).max().unwrap_or(now);
        let mut scope = if waiting.is_some() { Scope::WithSlot } else { Scope::Anywhere };
        let due = self.due(now, lanes, scope);
        if let (Mode::Policy(_), None) = (Mode::of(lanes), due) {
            // Totals are made over all candidates, and the best one's slot is free.
            scope = Scope::Anywhere;
        }
        let told = with_field(lanes, self.turn, |field| explain::explain(field, now, due, scope));
        let (Err(NoPlace::NoReplica(_)), Some(waiting)) = (told.outcome, waiting) else { return told };
        let kept = |lane: &&Lane<'_, '_>| due.is_none_or(|due| lane.targets.contains(&due.target));
        let queued = lanes
            .iter()
            .filter(kept)
            .filter(|lane| lane.pool.has_slots() || lane.pool.holds_back(&lane.request));
        let why = queued.map(|lane| lane.pool.no_place(now, &lane.request, waiting)).reduce(best);
        match why {
            Some(why) => told.without_place(why),
            None => told,
        }
    }

    /// The target that the request keeps to, if it keeps to one.
    fn due(&self, now: Time, lanes: &[Lane<'_, '_>], scope: Scope) -> Option<Due> {
        if lanes.iter().any(|lane| lane.request.only.is_some()) {
            return None;
        }
        match Mode::of(lanes) {
            Mode::Weighted(shares) => {
                let target = self.credits.clone().next(shares, |target| is_fit(lanes, target, scope))?;
                Some(Due { target, not: "another target has its turn" })
            }
            Mode::Policy(_) if scope == Scope::WithSlot => {
                let choice = with_field(lanes, self.turn, |field| {
                    choose(field, now, Scope::Anywhere, &mut Vec::new())
                });
                let choice = choice.ok()?;
                let free = lanes.get(choice.branch)?.pool.has_slot(choice.replica);
                let target = choice.target.filter(|_| !free)?;
                Some(Due { target, not: "another target has the largest total" })
            }
            Mode::Adaptive | Mode::Predictive | Mode::RoundRobin | Mode::Policy(_) => None,
        }
    }
}

/// The better of two pools' answers: the request is in both.
fn best(a: NoPlace, b: NoPlace) -> NoPlace {
    match (a, b) {
        (NoPlace::Held { ahead: a }, NoPlace::Held { ahead: b } | NoPlace::Waits { ahead: b })
        | (NoPlace::Waits { ahead: a }, NoPlace::Held { ahead: b }) => NoPlace::Held { ahead: a.min(b) },
        (held @ NoPlace::Held { .. }, _) | (_, held @ NoPlace::Held { .. }) => held,
        (NoPlace::Waits { ahead: a }, NoPlace::Waits { ahead: b }) => NoPlace::Waits { ahead: a.min(b) },
        (waits @ NoPlace::Waits { .. }, _) | (_, waits @ NoPlace::Waits { .. }) => waits,
        (NoPlace::Full { retry_after: a }, NoPlace::Full { retry_after: b }) => {
            NoPlace::Full { retry_after: a.min(b) }
        }
        (full @ NoPlace::Full { .. }, _) | (_, full @ NoPlace::Full { .. }) => full,
        (NoPlace::NoReplica(a), NoPlace::NoReplica(b)) => NoPlace::NoReplica(both(a, b)),
    }
}
