//! Steps 1 to 3: who could serve, who has room, who is least loaded. One pass, nothing allocated.

use super::{Scope, View};
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::PickRequest;
use crate::replica::Replica;

/// What one look over the pool found.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The least loaded LIVE replica with `effective_waiting` 0: if there is one, only such are candidates.
    pub(crate) no_wait: Option<Load>,
    /// The least loaded of all LIVE replicas, and PROBING ones below their limit.
    pub(crate) any: Option<Load>,
    /// Replicas that serve the model.
    pub(crate) known: usize,
    /// Of those: tried by this request.
    pub(crate) tried: usize,
    /// Of the others: LIVE or PROBING.
    pub(crate) in_service: usize,
    /// Of the others: EJECTED.
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
    Tried,
    Starting,
    Ejected,
    Draining,
    ProbingAtLimit,
    Waiting,
    NoRoom,
}

impl Survey {
    pub(crate) fn of(view: &View<'_>, request: &PickRequest<'_>, scope: Scope) -> Self {
        let mut survey = Self::default();
        for (index, replica) in view.replicas.iter().enumerate() {
            if !replica.serves.serves(request.model) {
                continue;
            }
            survey.known += 1;
            if request.tried.contains(&ReplicaId::from_index(index)) {
                survey.tried += 1;
                continue;
            }
            match replica.health.health() {
                Health::Live => survey.live(view, index, replica, scope),
                Health::Probing => survey.probing(view, index, replica, scope),
                Health::Ejected => survey.ejected += 1,
                Health::Starting | Health::Draining => {}
            }
        }
        survey
    }

    /// The least loaded candidate: its load is the pool's `min_running`.
    pub(crate) fn least_loaded(&self) -> Option<Load> {
        self.no_wait.or(self.any)
    }

    fn live(&mut self, view: &View<'_>, index: usize, replica: &Replica, scope: Scope) {
        self.in_service += 1;
        let load = standing(view, index, replica, false);
        if view.waiting(replica) == 0 && (scope == Scope::Anywhere || has_room(replica)) {
            self.no_wait = smaller(self.no_wait, load);
        }
        if scope == Scope::Anywhere {
            self.any = smaller(self.any, load);
        }
    }

    fn probing(&mut self, view: &View<'_>, index: usize, replica: &Replica, scope: Scope) {
        self.in_service += 1;
        let below = replica.load.inflight() < view.settings.health.probing_max_inflight;
        if below && scope == Scope::Anywhere {
            self.any = smaller(self.any, standing(view, index, replica, true));
        }
    }
}

/// Serves the model and has not failed this request.
pub(super) fn asked(replica: &Replica, index: usize, request: &PickRequest<'_>) -> bool {
    replica.serves.serves(request.model) && !request.tried.contains(&ReplicaId::from_index(index))
}

pub(super) fn has_room(replica: &Replica) -> bool {
    replica.load.free_slot().unwrap_or(true)
}

/// The same tests in words, for an explanation.
pub(crate) fn exclusion(
    view: &View<'_>,
    index: usize,
    request: &PickRequest<'_>,
    survey: &Survey,
    scope: Scope,
) -> Option<Exclusion> {
    let replica = &view.replicas[index];
    if !replica.serves.serves(request.model) {
        return Some(Exclusion::OtherModel);
    }
    if request.tried.contains(&ReplicaId::from_index(index)) {
        return Some(Exclusion::Tried);
    }
    let last_resort = scope == Scope::Anywhere && survey.in_service == 0;
    match replica.health.health() {
        Health::Starting => Some(Exclusion::Starting),
        Health::Draining => Some(Exclusion::Draining),
        Health::Ejected => (!last_resort).then_some(Exclusion::Ejected),
        Health::Live if scope == Scope::WithRoom && !has_room(replica) => Some(Exclusion::NoRoom),
        Health::Live if survey.no_wait.is_some() && view.waiting(replica) > 0 => Some(Exclusion::Waiting),
        Health::Probing if replica.load.inflight() >= view.settings.health.probing_max_inflight => {
            Some(Exclusion::ProbingAtLimit)
        }
        Health::Probing if survey.no_wait.is_some() || scope == Scope::WithRoom => Some(Exclusion::Waiting),
        Health::Live | Health::Probing => None,
    }
}

impl Exclusion {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::OtherModel => "does not serve the model",
            Self::Tried => "already failed this request",
            Self::Starting => "STARTING",
            Self::Ejected => "EJECTED",
            Self::Draining => "DRAINING",
            Self::ProbingAtLimit => "PROBING and at its limit",
            Self::Waiting => "a LIVE replica without a queue exists",
            Self::NoRoom => "no free slot",
        }
    }
}

fn standing(view: &View<'_>, index: usize, replica: &Replica, probing: bool) -> Load {
    // The replica after the last one chosen comes first; the last one chosen comes last.
    let distance =
        if index > view.turn { index - view.turn } else { index + view.replicas.len() - view.turn };
    Load { running: view.running(replica), probing, distance, index }
}

fn smaller(best: Option<Load>, load: Load) -> Option<Load> {
    Some(best.map_or(load, |best| best.min(load)))
}
