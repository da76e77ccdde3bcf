//! Choosing a replica: the mode's rule, and what comes before and after every rule. Pure: reads the pools and changes
//! nothing, so that a choice can be explained without being made, and allocates nothing.

mod affinity;
mod branch;
mod survey;

use crate::ids::{ReplicaId, Session, TargetIndex};
use crate::lease::Holds;
use crate::modes::{self, Mode};
use crate::pick::{NoReplica, PickRequest, Reason};
use crate::pins::PinKey;
use crate::policies::Candidate;
use crate::prng;
use crate::settings::AffinityMode;
use crate::time::Time;
pub(crate) use affinity::LastTurn;
pub(crate) use branch::{Branch, Place, Scope, View};
pub(crate) use survey::{Load, Survey, exclusion};

/// Most pins that one choice removes: a dead one of each kind in two pools. Others are found by a later choice, or by
/// the sweep.
const MOST_REMOVED: usize = 4;

/// What was decided, and what it does to the pins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// The branch that the replica is in.
    pub(crate) branch: usize,
    pub(crate) replica: ReplicaId,
    /// Where it was chosen along with the replica.
    pub(crate) target: Option<TargetIndex>,
    pub(crate) reason: Reason,
    pub(crate) spilled: bool,
    pub(crate) holds: Holds,
    /// Blocks of the prompt that the replica knows, where the choice looked.
    pub(crate) depth: Option<u32>,
    /// Only a choice by load or in turn takes a turn: followed pins would otherwise decide where everybody else goes.
    pub(crate) takes_turn: bool,
    /// The random word was used.
    pub(crate) rolled: bool,
    pub(crate) pins: PinChanges,
}

/// What a choice does to pins at once, each in the branch that it stands at.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PinChanges {
    /// Counted as spilled.
    pub(crate) spill: Option<(usize, PinKey)>,
    /// Removed: dead ones on sight, a prefix pin at its second spill, one that moves to another pool.
    removed: [Option<(usize, PinKey)>; MOST_REMOVED],
}

impl PinChanges {
    pub(crate) fn removed(&self) -> impl Iterator<Item = (usize, PinKey)> {
        self.removed.into_iter().flatten()
    }

    fn remove(&mut self, branch: usize, key: PinKey) {
        if let Some(free) = self.removed.iter_mut().find(|place| place.is_none()) {
            *free = Some((branch, key));
        }
    }
}

/// Chooses among the replicas of all branches, which agree on everything of their requests that is not a pool's own.
/// `scratch` is room for what a mode has to note of each candidate.
pub(crate) fn choose(
    field: &[Branch<'_>],
    now: Time,
    scope: Scope,
    scratch: &mut Vec<Candidate>,
) -> Result<Choice, NoReplica> {
    let Some(first) = field.first() else { return Err(NoReplica::NoneKnown) };
    let bound = field.iter().any(|branch| branch.request.only.is_some());
    match first.request.mode {
        Mode::RoundRobin if !bound => modes::round_robin(field, scope),
        Mode::Predictive if !bound => modes::by_cost(field, now, scope),
        Mode::Policy(scoring) if !bound => modes::by_policies(field, now, scope, scoring, scratch),
        Mode::Adaptive | Mode::Weighted(_) | Mode::RoundRobin | Mode::Predictive | Mode::Policy(_) => {
            five_steps(field, first, now, scope, bound)
        }
    }
}

/// The five steps of mode `adaptive`. With `bound` there is one candidate at most.
fn five_steps(
    field: &[Branch<'_>],
    first: &Branch<'_>,
    now: Time,
    scope: Scope,
    bound: bool,
) -> Result<Choice, NoReplica> {
    let survey = Survey::of(field, scope);
    let Some(least) = survey.least_loaded() else {
        return without_candidates(field, &survey, scope);
    };
    let by_load = Choice::by_load(&least, first.request.mode.by_load());
    if bound {
        // Nothing was chosen: no pin is followed, made or moved, and nobody's turn is taken.
        return Ok(Choice { reason: Reason::Pinned, takes_turn: false, ..by_load });
    }
    match first.view.settings.affinity.mode {
        AffinityMode::Pins => Ok(affinity::by_pins(field, first.request, now, scope, &least, by_load)),
        AffinityMode::Consistent => Ok(affinity::by_rendezvous(field, first, scope, &least, by_load)),
        AffinityMode::Off => Ok(by_load),
    }
}

/// Step 5: a random EJECTED replica that this request has not tried, if nothing better is known.
pub(crate) fn without_candidates(
    field: &[Branch<'_>],
    survey: &Survey,
    scope: Scope,
) -> Result<Choice, NoReplica> {
    let allowed = field.first().is_some_and(|branch| !branch.request.has_fallback);
    if allowed && scope != Scope::WithRoom && survey.in_service == 0 && survey.ejected > 0 {
        let roll = field.first().map_or(0, |branch| branch.view.roll);
        let nth = prng::below(roll, survey.ejected);
        let ejected = field
            .iter()
            .enumerate()
            .flat_map(|(at, branch)| branch.ejected(scope).map(move |index| (at, branch.view.id(index))));
        if let Some((branch, replica)) = ejected.into_iter().nth(nth) {
            return Ok(Choice { rolled: true, ..Choice::of(branch, replica, Reason::LastResort) });
        }
    }
    Err(match (survey.known, survey.tried, scope) {
        (0, _, _) => NoReplica::NoneKnown,
        (_, 0, Scope::Anywhere | Scope::WithSlot) => NoReplica::NotReady,
        _ => NoReplica::AllTried,
    })
}

impl Choice {
    /// A choice that touches no pins, no turn and no randomness.
    pub(crate) fn of(branch: usize, replica: ReplicaId, reason: Reason) -> Self {
        Self {
            branch,
            replica,
            target: None,
            reason,
            spilled: false,
            holds: Holds::default(),
            depth: None,
            takes_turn: false,
            rolled: false,
            pins: PinChanges::default(),
        }
    }

    pub(crate) fn by_load(least: &Load, reason: Reason) -> Self {
        let chosen = Self::of(least.branch, least.id, reason);
        Self { takes_turn: true, ..chosen }
    }
}

/// Whether a session may be followed now, and how far above the least loaded replica.
fn session_slack(session: Session, configured: u32) -> Option<u32> {
    match session {
        Session::Explicit(_) => Some(configured),
        Session::Conversation { continued, .. } => continued.then_some(0),
    }
}

/// The choice within one pool.
pub(crate) fn choose_in(
    view: View<'_>,
    now: Time,
    request: &PickRequest<'_>,
    scope: Scope,
) -> Result<Choice, NoReplica> {
    choose(&[Branch::alone(view, request)], now, scope, &mut Vec::new())
}
