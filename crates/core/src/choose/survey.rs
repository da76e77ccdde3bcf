//! Steps 1 to 3: who could serve, who has room, who is least loaded. One pass, nothing allocated.

use super::{Branch, Scope};
use crate::board::Row;
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::modes::Mode;

/// What one look over all branches found.
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
    /// Of those: LIVE.
    pub(crate) live: usize,
    /// Of the others: EJECTED, and in scope.
    pub(crate) ejected: usize,
}

/// A candidate's standing: the smallest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Load {
    /// Thousandths of a request.
    pub(crate) running: u64,
    probing: bool,
    /// How long it is until its turn.
    distance: usize,
    pub(crate) branch: usize,
    pub(crate) id: ReplicaId,
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
    Probing,
    ProbingAtLimit,
    Waiting,
}

impl Survey {
    pub(crate) fn of(field: &[Branch<'_>], scope: Scope) -> Self {
        let mut survey = Self::default();
        for (at, branch) in field.iter().enumerate() {
            survey.look_at(at, branch, scope);
        }
        survey
    }

    fn look_at(&mut self, at: usize, branch: &Branch<'_>, scope: Scope) {
        for (index, row) in branch.view.board.iter().enumerate() {
            if !branch.serves(index) {
                continue;
            }
            self.known += 1;
            if branch.has_tried(index) {
                self.tried += 1;
                continue;
            }
            match row.health {
                Health::Live => self.live(at, branch, index, row, scope),
                Health::Probing => self.probing(at, branch, index, row, scope),
                Health::Ejected => self.ejected += usize::from(scope.covers(row)),
                Health::Starting | Health::Draining => {}
            }
        }
    }

    /// The least loaded candidate: its load is the pool's `min_running`.
    pub(crate) fn least_loaded(&self) -> Option<Load> {
        self.no_wait.or(self.any)
    }

    fn live(&mut self, at: usize, branch: &Branch<'_>, index: usize, row: &Row, scope: Scope) {
        self.in_service += 1;
        self.live += 1;
        if !scope.covers(row) {
            return;
        }
        if row.waiting == 0 {
            offer(&mut self.no_wait, at, branch, index, row);
        } else if self.no_wait.is_none() && scope != Scope::WithRoom {
            offer(&mut self.any, at, branch, index, row);
        }
    }

    fn probing(&mut self, at: usize, branch: &Branch<'_>, index: usize, row: &Row, scope: Scope) {
        self.in_service += 1;
        if branch.probing_has_room(row) && scope != Scope::WithRoom && scope.covers(row) {
            offer(&mut self.any, at, branch, index, row);
        }
    }
}

/// Why a replica is no candidate for a pick from anywhere, for an explanation.
pub(crate) fn exclusion(branch: &Branch<'_>, index: usize, survey: &Survey) -> Option<Exclusion> {
    let row = &branch.view.board[index];
    if !branch.request.may_go_to(branch.view.id(index)) {
        return Some(Exclusion::NotTheOnly);
    }
    if !branch.serves(index) {
        return Some(Exclusion::OtherModel);
    }
    if branch.has_tried(index) {
        return Some(Exclusion::Tried);
    }
    let steps = branch.request.mode.takes_five_steps();
    let queues_count = !matches!(branch.request.mode, Mode::Predictive);
    match row.health {
        Health::Starting => Some(Exclusion::Starting),
        Health::Draining => Some(Exclusion::Draining),
        Health::Ejected => {
            let out = survey.in_service > 0 || branch.request.has_fallback;
            out.then_some(Exclusion::Ejected)
        }
        Health::Live if steps && survey.no_wait.is_some() && row.waiting > 0 => Some(Exclusion::Waiting),
        Health::Probing if !branch.probing_has_room(row) => Some(Exclusion::ProbingAtLimit),
        Health::Probing if steps && survey.no_wait.is_some() => Some(Exclusion::Waiting),
        Health::Probing if !steps && queues_count && survey.live > 0 => Some(Exclusion::Probing),
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
            Self::Probing => "PROBING, and a LIVE replica exists",
            Self::ProbingAtLimit => "PROBING and at its limit",
            Self::Waiting => "a LIVE replica without a queue exists",
        }
    }
}

/// Keeps the smaller one. Most replicas of a large pool lose by their load alone.
fn offer(best: &mut Option<Load>, at: usize, branch: &Branch<'_>, index: usize, row: &Row) {
    if best.as_ref().is_some_and(|best| row.running > best.running) {
        return;
    }
    let (probing, distance) = (row.health == Health::Probing, branch.distance(index));
    let load = Load { running: row.running, probing, distance, branch: at, id: row.id };
    if best.as_ref().is_none_or(|best| load < *best) {
        *best = Some(load);
    }
}
