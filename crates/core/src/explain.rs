//! A choice put into words, without making it.

use crate::choose::{Choice, Scope, Survey, View, exclusion};
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::{NoReplica, PickRequest, Reason};
use crate::snapshot::requests;
use crate::time::Time;

/// What a pick would do and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The replica, the reason and whether a pin spilled; or why there is none.
    pub outcome: Result<(ReplicaId, Reason, bool), NoReplica>,
    /// Every replica with the numbers seen and why it was left out.
    pub candidates: Vec<Candidate>,
    /// The five steps in words.
    pub steps: Vec<String>,
}

/// A replica as a choice sees it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Which one.
    pub replica: ReplicaId,
    /// Its base URL.
    pub name: String,
    /// Its health.
    pub health: Health,
    /// `effective_running`, in requests.
    pub effective_running: f64,
    /// `effective_waiting`, in requests.
    pub effective_waiting: f64,
    /// Own open requests.
    pub inflight: u32,
    /// Why it was left out; `None`: it was a candidate.
    pub excluded: Option<&'static str>,
}

pub(crate) fn explain(view: &View<'_>, now: Time, request: &PickRequest<'_>) -> Explanation {
    let scope = Scope::Anywhere;
    let survey = Survey::of(view, request, scope);
    let candidates: Vec<Candidate> = view
        .replicas
        .iter()
        .enumerate()
        .map(|(index, replica)| Candidate {
            replica: ReplicaId::from_index(index),
            name: replica.name.clone(),
            health: replica.health.health(),
            effective_running: requests(view.board[index].running),
            effective_waiting: requests(view.board[index].waiting),
            inflight: replica.load.inflight(),
            excluded: exclusion(view, index, request, &survey).map(|why| why.as_str()),
        })
        .collect();
    let choice = view.choose(now, request, scope);
    let steps = steps(view, &survey, &candidates, choice.as_ref());
    Explanation { outcome: choice.map(|c| (c.replica, c.reason, c.spilled)), candidates, steps }
}

fn steps(
    view: &View<'_>,
    survey: &Survey,
    candidates: &[Candidate],
    choice: Result<&Choice, &NoReplica>,
) -> Vec<String> {
    let name = |id: ReplicaId| candidates.get(id.index()).map_or("?", |candidate| candidate.name.as_str());
    let mut steps = vec![format!(
        "pool: {} of {} replicas serve the model, {} of them tried, {} LIVE or PROBING",
        survey.known,
        view.replicas.len(),
        survey.tried,
        survey.in_service
    )];
    let open = candidates.iter().filter(|candidate| candidate.excluded.is_none()).count();
    steps.push(if survey.no_wait.is_some() {
        format!("no-wait: {open} LIVE without a queue, only they are candidates")
    } else {
        format!("no-wait: no LIVE replica is without a queue, {open} candidates")
    });
    if let Some(least) = survey.least_loaded() {
        let at = name(ReplicaId::from_index(least.index));
        steps.push(format!("least loaded: {at} with {:.3} running", requests(least.running)));
    }
    match choice {
        Err(none) => steps.push(format!("fallback: {none}")),
        Ok(choice) if choice.reason == Reason::LastResort => {
            steps.push(format!("fallback: a random EJECTED replica, {}", name(choice.replica)));
        }
        Ok(choice) => steps.push(format!("pin: {}, goes to {}", pin_words(choice), name(choice.replica))),
    }
    steps
}

fn pin_words(choice: &Choice) -> &'static str {
    match (choice.reason, choice.spilled) {
        (Reason::AffinitySession, false) => "the session's replica is usable",
        (Reason::AffinityPrefix, false) => "the prefix's replica is usable",
        (Reason::AffinitySession | Reason::AffinityPrefix, true) => {
            "the owner is not usable, the next one is"
        }
        (Reason::Pinned, _) => "bound to the only replica that can serve it",
        (Reason::Rebind, _) => "not usable, moves to the least loaded",
        (_, true) => "not usable, spilled to the least loaded",
        (_, false) => "none to follow",
    }
}
