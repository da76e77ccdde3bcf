//! The pools of a route's targets as one: choosing over all of them and reserving in one of them is one step.

mod alone;
mod told;
mod turns;

use crate::choose::{Branch, Choice, Place, Scope, Survey};
use crate::ids::TargetIndex;
use crate::pick::{NoReplica, PickRequest, Picked};
use crate::pool::Pool;
use crate::queue::{Admission, Ticket, Waiting};
use crate::time::Time;
use smallvec::SmallVec;
use std::time::Duration;
pub use turns::Turns;

/// One pool that a request may go to. A route has a lane for each pool of its targets, in an order that stays.
#[derive(Debug)]
pub struct Lane<'p, 'r> {
    /// The pool, locked by the caller for as long as the lane is.
    pub pool: &'p mut Pool,
    /// The request in this pool's terms. What is not a pool's own is the same in every lane.
    pub request: PickRequest<'r>,
    /// The targets of the route that are in this pool, at least one.
    pub targets: &'r [TargetIndex],
}

/// A place, and whose it is.
#[derive(Debug, PartialEq)]
pub struct Placed {
    /// The lane, by its place in the list.
    pub lane: usize,
    /// The target, whose model the replica is to be asked for.
    pub target: TargetIndex,
    /// The place.
    pub picked: Picked,
}

/// A place in a queue, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// The lane, by its place in the list.
    pub lane: usize,
    /// The target, whose model the replica is to be asked for.
    pub target: TargetIndex,
    /// The place in the queue.
    pub ticket: Ticket,
}

/// What becomes of a request that asks for a place in one of several pools.
#[must_use]
#[derive(Debug)]
pub enum Entry {
    /// It has one.
    Placed(Placed),
    /// It waits in the queues of these pools; the first grant is taken, and it leaves the others.
    Queued(SmallVec<[Awaited; 2]>),
    /// As many of its route wait in every pool as may.
    Full {
        /// As in [`Admission::Full`]: the shortest of all pools.
        retry_after: Duration,
    },
    /// No replica can ever take it.
    No(NoReplica),
}

impl Entry {
    /// The same seen from a list in which its only lane stands at `lane`.
    fn at(mut self, lane: usize) -> Self {
        match &mut self {
            Self::Placed(placed) => placed.lane = lane,
            Self::Queued(queued) => queued.iter_mut().for_each(|awaited| awaited.lane = lane),
            Self::Full { .. } | Self::No(_) => {}
        }
        self
    }
}

impl<'r> Lane<'_, 'r> {
    /// The lane for one of its targets alone.
    fn only(&mut self, target: TargetIndex) -> Option<Lane<'_, 'r>> {
        let own = self.targets.iter().find(|own| **own == target)?;
        Some(Lane { pool: self.pool, request: self.request, targets: std::slice::from_ref(own) })
    }
}

/// The lane that a target is in.
fn lane_of(lanes: &[Lane<'_, '_>], target: TargetIndex) -> Option<usize> {
    lanes.iter().position(|lane| lane.targets.contains(&target))
}

/// Calls `with` on what a choice reads of the lanes. `turn`: whose turn it was last, where there are several.
fn with_field<R>(lanes: &[Lane<'_, '_>], turn: usize, with: impl FnOnce(&[Branch<'_>]) -> R) -> R {
    let total: usize = lanes.iter().map(|lane| lane.pool.size()).sum();
    // Replicas may have been removed since.
    let turn = turn.min(total.saturating_sub(1));
    let mut field: SmallVec<[Branch<'_>; 4]> = SmallVec::new();
    let mut base = 0;
    for lane in lanes {
        let view = lane.pool.view();
        // A pool that is alone has its own turn, which its routes share.
        let turn = if lanes.len() == 1 { view.turn } else { turn };
        field.push(Branch::new(view, &lane.request, lane.targets, Place { base, total, turn }));
        base += lane.pool.size();
    }
    with(&field)
}

/// Reserves what was chosen, and does to the pins of every lane what the choice says. `waiting`: what it is charged by
/// where slots are known.
fn reserve(
    lanes: &mut [Lane<'_, '_>],
    now: Time,
    choice: &Choice,
    waiting: Option<Waiting>,
) -> Option<Picked> {
    for (at, lane) in lanes.iter_mut().enumerate() {
        lane.pool.change_pins(at, &choice.pins);
    }
    if choice.rolled
        && let Some(first) = lanes.first_mut()
    {
        first.pool.roll();
    }
    let lane = lanes.get_mut(choice.branch)?;
    Some(lane.pool.reserve(now, &lane.request, choice, waiting))
}

/// Has the request wait in every lane where that can help. `why`: nobody can take it now.
fn enqueue(
    lanes: &mut [Lane<'_, '_>],
    now: Time,
    why: NoReplica,
    waiting: Waiting,
    mut target: impl FnMut(&[TargetIndex]) -> TargetIndex,
) -> Entry {
    let mut queued = SmallVec::new();
    let mut full: Option<Duration> = None;
    let mut none = None;
    for (at, lane) in lanes.iter_mut().enumerate() {
        match lane.pool.enqueue(now, &lane.request, why, waiting) {
            Admission::Queued(ticket) => {
                queued.push(Awaited { lane: at, target: target(lane.targets), ticket });
            }
            Admission::Full { retry_after } => {
                full = Some(full.map_or(retry_after, |shortest| shortest.min(retry_after)));
            }
            Admission::No(why) => none = Some(none.map_or(why, |other| both(why, other))),
            // Not without a choice.
            Admission::Picked(_) => {}
        }
    }
    match (queued.is_empty(), full) {
        (false, _) => Entry::Queued(queued),
        (true, Some(retry_after)) => Entry::Full { retry_after },
        (true, None) => Entry::No(none.unwrap_or(NoReplica::NoneKnown)),
    }
}

/// What of two pools' reasons is true of both together.
fn both(a: NoReplica, b: NoReplica) -> NoReplica {
    match (a, b) {
        (NoReplica::NotReady, _) | (_, NoReplica::NotReady) => NoReplica::NotReady,
        (NoReplica::AllTried, _) | (_, NoReplica::AllTried) => NoReplica::AllTried,
        (NoReplica::NoneKnown, NoReplica::NoneKnown) => NoReplica::NoneKnown,
    }
}

/// Whether the target can take the request, or has it wait no longer than its slots are taken.
fn is_fit(lanes: &[Lane<'_, '_>], target: TargetIndex, scope: Scope) -> bool {
    let lane = lane_of(lanes, target).and_then(|at| lanes.get(at..=at));
    lane.is_some_and(|lane| {
        let queues = scope == Scope::WithSlot && lane.iter().any(|lane| lane.pool.has_slots());
        let survey = with_field(lane, 0, |field| Survey::of(field, scope));
        survey.least_loaded().is_some() || (queues && survey.in_service > 0)
    })
}
