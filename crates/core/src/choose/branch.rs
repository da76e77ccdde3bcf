//! One pool as a choice reads it.

use crate::board::{self, Row};
use crate::health::Health;
use crate::ids::{ReplicaId, TargetIndex};
use crate::pick::{NoReplica, PickRequest};
use crate::pins::PinTable;
use crate::predict::Predictor;
use crate::replica::Replica;
use crate::settings::PoolSettings;
use std::time::Duration;

/// What a choice reads of a pool.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) settings: &'a PoolSettings,
    pub(crate) replicas: &'a [Replica],
    /// What a choice reads of each of them.
    pub(crate) board: &'a [Row],
    pub(crate) pins: &'a PinTable,
    /// Where the pool's settings ask for one.
    pub(crate) predictor: Option<&'a Predictor>,
    /// The replica that the pool's last choice by load went to: ties go to those after it.
    pub(crate) turn: usize,
    /// A random word, in case one is needed.
    pub(crate) roll: u64,
}

impl View<'_> {
    pub(crate) fn id(&self, index: usize) -> ReplicaId {
        self.board[index].id
    }

    pub(crate) fn place(&self, id: ReplicaId) -> Option<usize> {
        board::place(self.board, id)
    }
}

/// Where a pool's replicas stand among those of all branches, for whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The number of its first replica.
    pub(crate) base: usize,
    /// Replicas of all branches.
    pub(crate) total: usize,
    /// The number of the replica that had the last turn.
    pub(crate) turn: usize,
}

/// A pool that a request may go to, for one target or several.
#[derive(Clone, Copy)]
pub(crate) struct Branch<'a> {
    pub(crate) view: View<'a>,
    pub(crate) request: &'a PickRequest<'a>,
    pub(crate) targets: &'a [TargetIndex],
    place: Place,
}

/// Where a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Whatever the mode says.
    Anywhere,
    /// The same, over replicas that have a free slot or whose slots are not known.
    WithSlot,
    /// Only to a LIVE replica with nothing waiting and, where slots are known, a free one.
    WithRoom,
}

impl Scope {
    pub(crate) fn covers(self, row: &Row) -> bool {
        self == Self::Anywhere || row.has_slot
    }
}

impl<'a> Branch<'a> {
    pub(crate) fn new(
        view: View<'a>,
        request: &'a PickRequest<'a>,
        targets: &'a [TargetIndex],
        place: Place,
    ) -> Self {
        Self { view, request, targets, place }
    }

    /// The only branch there is.
    pub(crate) fn alone(view: View<'a>, request: &'a PickRequest<'a>) -> Self {
        let place = Place { base: 0, total: view.board.len(), turn: view.turn };
        Self::new(view, request, &[TargetIndex(0)], place)
    }

    /// The branch for one of its targets alone, without other pools; without one to keep to, as it is.
    pub(crate) fn towards(&self, target: Option<TargetIndex>) -> Option<Self> {
        let Some(target) = target else { return Some(*self) };
        let own = self.targets.iter().find(|own| **own == target)?;
        Some(Self { targets: std::slice::from_ref(own), ..Self::alone(self.view, self.request) })
    }

    /// Serves the model and has not failed this request.
    pub(crate) fn asked(&self, index: usize) -> bool {
        self.serves(index) && !self.has_tried(index)
    }

    pub(crate) fn serves(&self, index: usize) -> bool {
        self.request.may_go_to(self.view.id(index))
            && self.view.board[index].serves(&self.view.replicas[index], self.request.model)
    }

    pub(crate) fn has_tried(&self, index: usize) -> bool {
        !self.request.tried.is_empty() && self.request.tried.contains(&self.view.id(index))
    }

    /// While all candidates have more prefill queued than this the request waits.
    pub(crate) fn hold(&self, scope: Scope) -> Option<Duration> {
        self.request.hold().filter(|_| scope == Scope::WithSlot)
    }

    pub(crate) fn probing_has_room(&self, row: &Row) -> bool {
        row.inflight < self.view.settings.health.probing_max_inflight
    }

    /// Replicas of the pool that share its traffic.
    pub(crate) fn in_service(&self) -> usize {
        let in_service = |row: &&Row| matches!(row.health, Health::Live | Health::Probing);
        self.view.board.iter().filter(in_service).count()
    }

    /// How long it is until this replica's turn: the one after the last one chosen comes first, that one last.
    pub(crate) fn distance(&self, index: usize) -> usize {
        let Place { base, total, turn } = self.place;
        let number = base + index;
        if number > turn { number - turn } else { number + total - turn }
    }

    /// EJECTED replicas in scope that this request has not tried.
    pub(super) fn ejected(&self, scope: Scope) -> impl Iterator<Item = usize> {
        let ejected = move |(index, row): &(usize, &Row)| {
            row.health == Health::Ejected && scope.covers(row) && self.asked(*index)
        };
        self.view.board.iter().enumerate().filter(ejected).map(|(index, _)| index)
    }

    /// Whether waiting can help: some replica could ever take the request.
    pub(crate) fn hope(&self) -> Result<(), NoReplica> {
        let (mut known, mut tried) = (false, false);
        for (index, row) in self.view.board.iter().enumerate() {
            if !self.serves(index) {
                continue;
            }
            known = true;
            if self.has_tried(index) {
                tried = true;
            } else if self.is_hope(row) {
                return Ok(());
            }
        }
        Err(match (known, tried) {
            (false, _) => NoReplica::NoneKnown,
            (true, false) => NoReplica::NotReady,
            (true, true) => NoReplica::AllTried,
        })
    }

    /// A request that has somewhere else to go does not wait for a replica to come back.
    fn is_hope(&self, row: &Row) -> bool {
        match row.health {
            Health::Live | Health::Probing => true,
            Health::Starting | Health::Ejected => !self.request.has_fallback,
            Health::Draining => false,
        }
    }

    /// Whether the replica may be the one that has a slot for the request: a cheap look before a choice.
    pub(crate) fn may_take(&self, id: ReplicaId) -> bool {
        let Some(index) = self.view.place(id) else { return false };
        let row = &self.view.board[index];
        let in_use = match row.health {
            Health::Live => true,
            Health::Ejected => !self.request.has_fallback,
            Health::Probing => self.probing_has_room(row),
            Health::Starting | Health::Draining => false,
        };
        in_use && row.has_slot && self.asked(index)
    }
}
