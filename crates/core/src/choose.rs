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
    /// All five steps, over replicas that have a free slot or whose slots are not known.
    WithSlot,
    /// Only to a LIVE replica with nothing waiting and, where slots are known, a free one.
    WithRoom,
}

impl Scope {
    fn covers(self, row: &Row) -> bool {
        self == Self::Anywhere || row.has_slot
    }
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
        if request.only.is_some() {
            // Nothing was chosen: no pin is followed, made or moved, and nobody's turn is taken.
            return Ok(Choice {
                reason: Reason::Pinned,
                ..Choice::by_load(ReplicaId::from_index(least.index))
            });
        }
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
        request.may_go_to(index) && self.board[index].serves(&self.replicas[index], request.model)
    }

    /// Whether waiting can help: some replica could ever take the request.
    pub(crate) fn hope(&self, request: &PickRequest<'_>) -> Result<(), NoReplica> {
        let (mut known, mut tried) = (false, false);
        for (index, row) in self.board.iter().enumerate() {
            if !self.serves(index, request) {
                continue;
            }
            known = true;
            if request.tried.contains(&ReplicaId::from_index(index)) {
                tried = true;
            } else if row.health != Health::Draining {
                return Ok(());
            }
        }
        Err(match (known, tried) {
            (false, _) => NoReplica::NoneKnown,
            (true, false) => NoReplica::NotReady,
            (true, true) => NoReplica::AllTried,
        })
    }

    /// Whether the replica may be the one that has a slot for the request: a cheap look before a choice.
    pub(crate) fn may_take(&self, id: ReplicaId, request: &PickRequest<'_>) -> bool {
        let row = &self.board[id.index()];
        let in_use = match row.health {
            Health::Live | Health::Ejected => true,
            Health::Probing => row.inflight < self.settings.health.probing_max_inflight,
            Health::Starting | Health::Draining => false,
        };
        in_use && row.has_slot && self.asked(id.index(), request)
    }

    /// Step 5: a random EJECTED replica that this request has not tried, if nothing better is known.
    fn without_candidates(
        &self,
        survey: &Survey,
        request: &PickRequest<'_>,
        scope: Scope,
    ) -> Result<Choice, NoReplica> {
        if scope != Scope::WithRoom && survey.in_service == 0 && survey.ejected > 0 {
            let ejected = |index: &usize| {
                let row = &self.board[*index];
                row.health == Health::Ejected && scope.covers(row) && self.asked(*index, request)
            };
            let nth = prng::below(self.roll, survey.ejected);
            if let Some(index) = (0..self.board.len()).filter(ejected).nth(nth) {
                let choice = Choice::by_load(ReplicaId::from_index(index));
                return Ok(Choice { reason: Reason::LastResort, ..choice });
            }
        }
        Err(match (survey.known, survey.tried, scope) {
            (0, _, _) => NoReplica::NoneKnown,
            (_, 0, Scope::Anywhere | Scope::WithSlot) => NoReplica::NotReady,
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
