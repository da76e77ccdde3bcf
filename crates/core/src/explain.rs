//! A choice put into words, without making it.

use crate::choose::{Choice, Scope, Survey, View, exclusion};
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::{NoReplica, PickRequest, Reason};
use crate::snapshot::requests;
use crate::time::Time;
use std::time::Duration;

/// What would be done with a request and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The replica, the reason and whether a pin spilled; or why there is none.
    pub outcome: Result<(ReplicaId, Reason, bool), NoPlace>,
    /// Every replica with the numbers seen and why it was left out.
    pub candidates: Vec<Candidate>,
    /// The five steps in words, and the queue's part.
    pub steps: Vec<String>,
}

/// Why a request would get no place at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// No replica can take it.
    NoReplica(NoReplica),
    /// It would wait for a slot.
    Waits {
        /// Requests that wait now and are served before it, if nobody else comes or leaves and each costs as many
        /// tokens as were expected.
        ahead: usize,
    },
    /// It would be turned away: as many of its route wait as may.
    Full {
        /// As in [`Admission::Full`](crate::Admission::Full).
        retry_after: Duration,
    },
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

/// What a choice in this scope would be: one that finds nothing says that there is no replica.
pub(crate) fn explain(view: &View<'_>, now: Time, request: &PickRequest<'_>, scope: Scope) -> Explanation {
    let without_slot = |index: usize| scope == Scope::WithSlot && !view.board[index].has_slot;
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
            excluded: exclusion(view, index, request, &survey)
                .map(|why| why.as_str())
                .or_else(|| without_slot(index).then_some("no free slot")),
        })
        .collect();
    let choice = view.choose(now, request, scope);
    let steps = steps(view, scope, &survey, &candidates, choice.as_ref());
    let outcome = choice.map(|c| (c.replica, c.reason, c.spilled)).map_err(NoPlace::NoReplica);
    Explanation { outcome, candidates, steps }
}

impl Explanation {
    /// The same where no replica has a free slot: what the queue makes of it takes the place of the last step.
    pub(crate) fn without_slot(mut self, why: NoPlace) -> Self {
        self.steps.pop();
        self.steps.push(match why {
            NoPlace::NoReplica(none) => format!("fallback: {none}"),
            NoPlace::Waits { ahead } => format!("queue: waits for a slot, {ahead} before it"),
            NoPlace::Full { .. } => "queue: full, as many requests of the route wait as may".into(),
        });
        Self { outcome: Err(why), ..self }
    }
}

fn steps(
    view: &View<'_>,
    scope: Scope,
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
    let room =
        if scope == Scope::Anywhere { "without a queue" } else { "without a queue and with a free slot" };
    steps.push(if survey.no_wait.is_some() {
        format!("no-wait: {open} LIVE {room}, only they are candidates")
    } else {
        format!("no-wait: no LIVE replica is {room}, {open} candidates")
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
