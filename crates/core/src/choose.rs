//! The five steps of choosing a replica. Pure: reads the pool and changes nothing, so that a choice can be explained
//! without being made, and allocates nothing.

mod affinity;
mod survey;

use crate::board::Row;
use crate::health::Health;
use crate::ids::{ReplicaId, Session};
use crate::lease::Holds;
use crate::pick::{NoReplica, PickRequest, Reason};
use crate::pins::{PinKey, PinTable};
use crate::prng;
use crate::replica::Replica;
use crate::settings::{AffinityMode, PoolSettings};
use crate::time::Time;
pub(crate) use survey::{Survey, exclusion};

/// What a choice reads.
pub(crate) struct View<'a> {
    pub(crate) settings: &'a PoolSettings,
    pub(crate) replicas: &'a [Replica],
    /// What a choice reads of each of them.
    pub(crate) board: &'a [Row],
    pub(crate) pins: &'a PinTable,
    /// The replica that the last choice by load went to: ties go to those after it.
    pub(crate) turn: usize,
    /// A random word, in case one is needed.
    pub(crate) roll: u64,
}

/// What was decided, and what it does to the pins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) replica: ReplicaId,
    pub(crate) reason: Reason,
    pub(crate) spilled: bool,
    pub(crate) holds: Holds,
    /// A pin that is counted as spilled now.
    pub(crate) spill: Option<PinKey>,
    /// Pins that are removed now: dead ones on sight, and a prefix pin at its second spill.
    pub(crate) remove: [Option<PinKey>; 2],
}

/// Where a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All five steps.
    Anywhere,
    /// Only to a LIVE replica with nothing waiting and, where slots are known, a free one.
    WithRoom,
}

impl View<'_> {
    pub(crate) fn choose(
        &self,
        now: Time,
        request: &PickRequest<'_>,
        scope: Scope,
    ) -> Result<Choice, NoReplica> {
        let survey = Survey::of(self, request, scope);
        let Some(least) = survey.least_loaded() else {
            return self.without_candidates(&survey, request, scope);
        };
        match self.settings.affinity.mode {
            AffinityMode::Pins => Ok(affinity::by_pins(self, now, request, scope, least)),
            AffinityMode::Consistent => Ok(affinity::by_rendezvous(self, request, scope, least)),
            AffinityMode::Off => Ok(Choice::by_load(ReplicaId::from_index(least.index))),
        }
    }

    /// Serves the model and has not failed this request.
    fn asked(&self, index: usize, request: &PickRequest<'_>) -> bool {
        self.serves(index, request) && !request.tried.contains(&ReplicaId::from_index(index))
    }

    fn serves(&self, index: usize, request: &PickRequest<'_>) -> bool {
        self.board[index].serves(&self.replicas[index], request.model)
    }

    /// Step 5: a random EJECTED replica that this request has not tried, if nothing better is known.
    fn without_candidates(
        &self,
        survey: &Survey,
        request: &PickRequest<'_>,
        scope: Scope,
    ) -> Result<Choice, NoReplica> {
        if scope == Scope::Anywhere && survey.in_service == 0 && survey.ejected > 0 {
            let ejected =
                |index: &usize| self.board[*index].health == Health::Ejected && self.asked(*index, request);
            let nth = prng::below(self.roll, survey.ejected);
            if let Some(index) = (0..self.board.len()).filter(ejected).nth(nth) {
                let choice = Choice::by_load(ReplicaId::from_index(index));
                return Ok(Choice { reason: Reason::LastResort, ..choice });
            }
        }
        Err(match (survey.known, survey.tried, scope) {
            (0, _, _) => NoReplica::NoneKnown,
            (_, 0, Scope::Anywhere) => NoReplica::NotReady,
            _ => NoReplica::AllTried,
        })
    }
}

impl Choice {
    fn by_load(replica: ReplicaId) -> Self {
        let reason = Reason::Load;
        Self { replica, reason, spilled: false, holds: Holds::default(), spill: None, remove: [None; 2] }
    }

    /// Only a choice by load takes a turn: followed pins would otherwise decide where everybody else goes.
    pub(crate) fn takes_turn(&self) -> bool {
        matches!(self.reason, Reason::Load | Reason::Rebind)
    }
}

/// Whether a session may be followed now, and how far above the least loaded replica.
fn session_slack(session: Session, configured: u32) -> Option<u32> {
    match session {
        Session::Explicit(_) => Some(configured),
        Session::Conversation { continued, .. } => continued.then_some(0),
    }
}
