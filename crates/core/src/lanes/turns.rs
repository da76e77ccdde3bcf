//! What a route remembers from one choice to the next, and its way through the lanes.

use super::{Entry, Lane, Placed, both, enqueue, is_fit, lane_of, reserve, with_field};
use crate::choose::{Choice, Scope, choose};
use crate::ids::TargetIndex;
use crate::modes::{Credits, Mode, Shares};
use crate::pick::NoReplica;
use crate::policies::Candidate;
use crate::prng::mix;
use crate::queue::Waiting;
use crate::time::Time;

/// What a route remembers from one choice to the next: whose turn it is, and what each target is owed. To be locked
/// before the pools.
#[derive(Debug, Default)]
pub struct Turns {
    /// The replica that the last choice by load went to, counted through the lanes, where there are several.
    pub(super) turn: usize,
    /// Choices among several targets of one pool.
    serial: usize,
    pub(super) credits: Credits,
    scratch: Vec<Candidate>,
}

impl Turns {
    /// Chooses over all lanes and reserves, without a slot. `aim`: the target that the request went to before, in mode
    /// `weighted`; the choice sets it. Allocates nothing once it has seen as many candidates.
    ///
    /// # Errors
    /// [`NoReplica`] says why nobody can take the request now.
    pub fn pick(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        aim: &mut Option<TargetIndex>,
    ) -> Result<Placed, NoReplica> {
        placed(self.enter(now, lanes, aim, Scope::Anywhere, None))
    }

    /// Like [`Self::pick`], but only among LIVE replicas with nothing waiting and, where slots are known, a free one.
    ///
    /// # Errors
    /// [`NoReplica::AllTried`] where no replica has room.
    pub fn pick_with_room(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        aim: &mut Option<TargetIndex>,
    ) -> Result<Placed, NoReplica> {
        placed(self.enter(now, lanes, aim, Scope::WithRoom, None))
    }

    /// Gives the request a place, or has it wait for one, as [`Pool::admit`](crate::Pool::admit) does for one pool. In
    /// mode `weighted` it waits for the slots of its target, in mode `policy` for those of the target with the largest
    /// total, else for those of every pool.
    pub fn admit(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        aim: &mut Option<TargetIndex>,
        waiting: Waiting,
    ) -> Entry {
        self.enter(now, lanes, aim, Scope::WithSlot, Some(waiting))
    }

    fn enter(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        aim: &mut Option<TargetIndex>,
        scope: Scope,
        waiting: Option<Waiting>,
    ) -> Entry {
        let now = lanes.iter_mut().map(|lane| lane.pool.advance(now)).max().unwrap_or(now);
        // Whoever time alone has brought a place is not overtaken.
        lanes.iter_mut().for_each(|lane| lane.pool.settle(now));
        let bound = lanes.iter().any(|lane| lane.request.only.is_some());
        let entry = match Mode::of(lanes) {
            Mode::Weighted(shares) if !bound => self.by_share(now, lanes, shares, aim, scope, waiting),
            Mode::Policy(_) if !bound && scope == Scope::WithSlot => self.by_total(now, lanes, waiting),
            Mode::Adaptive | Mode::Predictive | Mode::RoundRobin | Mode::Weighted(_) | Mode::Policy(_) => {
                self.anywhere(now, lanes, scope, waiting)
            }
        };
        lanes.iter_mut().for_each(|lane| lane.pool.settle(now));
        entry
    }

    /// The target whose turn it is; one that the request has failed at is kept while it has somebody else.
    fn by_share(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        shares: &Shares,
        aim: &mut Option<TargetIndex>,
        scope: Scope,
        waiting: Option<Waiting>,
    ) -> Entry {
        let fit = |target| is_fit(lanes, target, scope);
        let due = match *aim {
            Some(target) if fit(target) => Some(target),
            Some(_) => self.credits.after(shares, fit),
            None => self.credits.next(shares, fit),
        };
        if let Some(target) = due {
            *aim = Some(target);
            return self.towards(now, lanes, target, scope, waiting);
        }
        // Nobody is in service: whoever is the last resort, or is waited for.
        let mut none = None;
        for target in shares.in_play() {
            match self.towards(now, lanes, target, scope, waiting) {
                Entry::No(why) => none = Some(none.map_or(why, |other| both(why, other))),
                entry => {
                    *aim = Some(target);
                    return entry;
                }
            }
        }
        Entry::No(none.unwrap_or(NoReplica::NoneKnown))
    }

    /// The candidate with the largest total, whose slots are full or not; then the next best of its target that has a
    /// free one.
    fn by_total(&mut self, now: Time, lanes: &mut [Lane<'_, '_>], waiting: Option<Waiting>) -> Entry {
        let best = self.choose(now, lanes, Scope::Anywhere);
        match best.as_ref().map(|choice| (choice, choice.target)) {
            Ok((choice, Some(target))) => {
                let free = lanes.get(choice.branch).is_some_and(|lane| lane.pool.has_slot(choice.replica));
                match free {
                    true => self.take(now, lanes, choice, waiting),
                    false => self.towards(now, lanes, target, Scope::WithSlot, waiting),
                }
            }
            _ => self.anywhere(now, lanes, Scope::WithSlot, waiting),
        }
    }

    fn towards(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        target: TargetIndex,
        scope: Scope,
        waiting: Option<Waiting>,
    ) -> Entry {
        let at = lane_of(lanes, target);
        let lane = at.and_then(|at| Some((at, lanes.get_mut(at)?.only(target)?)));
        match lane {
            Some((at, lane)) => self.anywhere(now, &mut [lane], scope, waiting).at(at),
            None => Entry::No(NoReplica::NoneKnown),
        }
    }

    fn anywhere(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        scope: Scope,
        waiting: Option<Waiting>,
    ) -> Entry {
        match (self.choose(now, lanes, scope), waiting) {
            (Ok(choice), _) => self.take(now, lanes, &choice, waiting),
            (Err(why), Some(waiting)) => {
                let session = session(lanes);
                enqueue(lanes, now, why, waiting, |targets| self.one_of(targets, session))
            }
            (Err(why), None) => Entry::No(why),
        }
    }

    fn choose(&mut self, now: Time, lanes: &[Lane<'_, '_>], scope: Scope) -> Result<Choice, NoReplica> {
        let scratch = &mut self.scratch;
        with_field(lanes, self.turn, |field| choose(field, now, scope, scratch))
    }

    fn take(
        &mut self,
        now: Time,
        lanes: &mut [Lane<'_, '_>],
        choice: &Choice,
        waiting: Option<Waiting>,
    ) -> Entry {
        if choice.takes_turn && lanes.len() > 1 {
            let before = lanes.iter().take(choice.branch).map(|lane| lane.pool.size()).sum::<usize>();
            let place = lanes.get(choice.branch).and_then(|lane| lane.pool.view().place(choice.replica));
            self.turn = before + place.unwrap_or(0);
        }
        let session = session(lanes);
        let targets = lanes.get(choice.branch).map_or(&[][..], |lane| lane.targets);
        let target = choice.target.unwrap_or_else(|| self.one_of(targets, session));
        match reserve(lanes, now, choice, waiting) {
            Some(picked) => Entry::Placed(Placed { lane: choice.branch, target, picked }),
            None => Entry::No(NoReplica::NoneKnown),
        }
    }

    /// Which model of a replica that serves several: a session stays with one, others take turns.
    fn one_of(&mut self, targets: &[TargetIndex], session: Option<u64>) -> TargetIndex {
        let many = targets.len().max(1);
        let nth = match session {
            _ if many == 1 => 0,
            Some(key) => usize::try_from(mix(key) % many as u64).unwrap_or(0),
            None => {
                self.serial = self.serial.wrapping_add(1);
                self.serial % many
            }
        };
        targets.get(nth).copied().unwrap_or_default()
    }
}

impl<'r> Mode<'r> {
    /// The mode of the request, which is the same in every lane.
    pub(super) fn of(lanes: &[Lane<'_, 'r>]) -> Self {
        lanes.first().map_or(Self::Adaptive, |lane| lane.request.mode)
    }
}

fn session(lanes: &[Lane<'_, '_>]) -> Option<u64> {
    lanes.first().and_then(|lane| lane.request.session).map(|session| session.key())
}

fn placed(entry: Entry) -> Result<Placed, NoReplica> {
    match entry {
        Entry::Placed(placed) => Ok(placed),
        Entry::No(why) => Err(why),
        // Only with something to wait under.
        Entry::Queued(_) | Entry::Full { .. } => Err(NoReplica::NotReady),
    }
}
