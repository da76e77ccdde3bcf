//! Steps 1 to 3: who could serve, who has room, who is least loaded. One pass, nothing allocated.

use super::{Scope, View};
use crate::board::Row;
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::PickRequest;

/// What one look over the pool found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The least loaded LIVE replica with `effective_waiting` 0: if there is one, only such are candidates.
    pub(crate) no_wait: Option<Load>,
    /// The least loaded of the other LIVE replicas, and PROBING ones below their limit. Of interest only without the
    /// former, and not complete with it.
    pub(crate) any: Option<Load>,
    /// Replicas that serve the model.
    pub(crate) known: usize,
    /// Of those: tried by this request.
    pub(crate) tried: usize,
    /// Of the others: LIVE or PROBING.
    pub(crate) in_service: usize,
    /// Of the others: EJECTED, and in scope.
    pub(crate) ejected: usize,
}

/// A candidate's standing: the smallest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// Thousandths of a request.
    pub(crate) running: u64,
    probing: bool,
    /// How long it is until this one's turn.
    distance: usize,
    pub(crate) index: usize,
}

/// Why a replica is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exclusion {
    OtherModel,
    NotTheOnly,
    Tried,
    Starting,
    Ejected,
    Draining,
    ProbingAtLimit,
    Waiting,
}

impl Survey {
    pub(crate) fn of(view: &View<'_>, request: &PickRequest<'_>, scope: Scope) -> Self {
        let mut survey = Self::default();
        for (index, row) in view.board.iter().enumerate() {
            if !view.serves(index, request) {
                continue;
            }
            survey.known += 1;
            if !request.tried.is_empty() && request.tried.contains(&ReplicaId::from_index(index)) {
                survey.tried += 1;
                continue;
            }
            match row.health {
                Health::Live => survey.live(view, index, row, scope),
                Health::Probing => survey.probing(view, index, row, scope),
                Health::Ejected => survey.ejected += usize::from(scope.covers(row)),
                Health::Starting | Health::Draining => {}
            }
        }
        survey
    }

    /// The least loaded candidate: its load is the pool's `min_running`.
    pub(crate) fn least_loaded(&self) -> Option<Load> {
        self.no_wait.or(self.any)
    }

    fn live(&mut self, view: &View<'_>, index: usize, row: &Row, scope: Scope) {
        self.in_service += 1;
        if !scope.covers(row) {
            return;
        }
        if row.waiting == 0 {
            offer(&mut self.no_wait, view, index, row);
        } else if self.no_wait.is_none() && scope != Scope::WithRoom {
            offer(&mut self.any, view, index, row);
        }
    }

    fn probing(&mut self, view: &View<'_>, index: usize, row: &Row, scope: Scope) {
        self.in_service += 1;
        let below = row.inflight < view.settings.health.probing_max_inflight;
        if below && scope != Scope::WithRoom && scope.covers(row) {
            offer(&mut self.any, view, index, row);
        }
    }
}

/// Why a replica is no candidate for a pick from anywhere, for an explanation.
pub(crate) fn exclusion(
    view: &View<'_>,
    index: usize,
    request: &PickRequest<'_>,
    survey: &Survey,
) -> Option<Exclusion> {
    let row = &view.board[index];
    if !request.may_go_to(index) {
        return Some(Exclusion::NotTheOnly);
    }
    if !view.serves(index, request) {
        return Some(Exclusion::OtherModel);
    }
    if request.tried.contains(&ReplicaId::from_index(index)) {
        return Some(Exclusion::Tried);
    }
    match row.health {
        Health::Starting => Some(Exclusion::Starting),
        Health::Draining => Some(Exclusion::Draining),
        Health::Ejected => (survey.in_service > 0).then_some(Exclusion::Ejected),
        Health::Live if survey.no_wait.is_some() && row.waiting > 0 => Some(Exclusion::Waiting),
        Health::Probing if row.inflight >= view.settings.health.probing_max_inflight => {
            Some(Exclusion::ProbingAtLimit)
        }
        Health::Probing if survey.no_wait.is_some() => Some(Exclusion::Waiting),
        Health::Live | Health::Probing => None,
    }
}

impl Exclusion {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OtherModel => "does not serve the model",
            Self::NotTheOnly => "not the one that the request is bound to",
            Self::Tried => "already failed this request",
            Self::Starting => "STARTING",
            Self::Ejected => "EJECTED",
            Self::Draining => "DRAINING",
            Self::ProbingAtLimit => "PROBING and at its limit",
            Self::Waiting => "a LIVE replica without a queue exists",
        }
    }
}

/// Keeps the smaller one. Most replicas of a large pool lose by their load alone.
fn offer(best: &mut Option<Load>, view: &View<'_>, index: usize, row: &Row) {
    if best.as_ref().is_some_and(|best| row.running > best.running) {
        return;
    }
    // The replica after the last one chosen comes first; the last one chosen comes last.
    let distance = if index > view.turn { index - view.turn } else { index + view.board.len() - view.turn };
    let load = Load { running: row.running, probing: row.health == Health::Probing, distance, index };
    if best.as_ref().is_none_or(|best| load < *best) {
        *best = Some(load);
    }
}
