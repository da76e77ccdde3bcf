//! A choice put into words, without making it.

mod words;

use crate::choose::{Branch, Choice, LastTurn, Scope, Survey, choose, exclusion};
use crate::health::Health;
use crate::ids::{ReplicaId, TargetIndex};
use crate::modes::{self, Mode};
use crate::pick::{NoReplica, Reason};
use crate::policies::Policy;
use crate::predict::{Prediction, Terms};
use crate::snapshot::requests;
use crate::time::Time;
use std::time::Duration;

/// What would be done with a request and why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// What would be chosen, or why nothing is.
    pub outcome: Result<Chosen, NoPlace>,
    /// Every replica of every target with the numbers seen and why it was left out.
    pub candidates: Vec<Candidate>,
    /// The choice's steps in words, and the queue's part.
    pub steps: Vec<String>,
}

/// What a pick would choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The lane, by its place in the list.
    pub lane: usize,
    /// The target; `None`: whichever of the pool's targets has its turn.
    pub target: Option<TargetIndex>,
    /// The replica.
    pub replica: ReplicaId,
    /// Why.
    pub reason: Reason,
    /// A living pin points elsewhere.
    pub spilled: bool,
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
    /// It would be held back: every candidate has more prefill queued than its [`PickRequest::hold`](field@crate::PickRequest::hold).
    Held {
        /// As in `Waits`.
        ahead: usize,
    },
    /// It would be turned away: as many of its route wait as may.
    Full {
        /// As in [`Admission::Full`](crate::Admission::Full).
        retry_after: Duration,
    },
}

/// A replica under one target, as a choice sees it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The lane, by its place in the list.
    pub lane: usize,
    /// Whose replica.
    pub target: TargetIndex,
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
    /// Mode `policy`: what each policy adds to its total. Empty where it was left out.
    pub parts: Vec<(Policy, f64)>,
    /// Mode `predictive`: what its cost is made of. `None` where it was left out for another reason than `hold`.
    pub predicted: Option<Predicted>,
}

/// What a request is predicted to cost at one replica: [`Predicted::cost`] is `wait + prefill * (1 + delays) + 0.05 *
/// slowed`. Times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Blocks of the prompt that the replica is taken to have in its cache.
    pub known_blocks: u32,
    /// Until the engine begins with the request.
    pub wait: f64,
    /// Its own prefill, without what is forgiven.
    pub prefill: f64,
    /// Prefill that does not count, for a shared beginning to spread.
    pub forgiven: f64,
    /// What a second of its prefill delays those who come after.
    pub delays: f64,
    /// By which decoding is slowed, its own and that of others.
    pub slowed: f64,
    /// The lowest one is chosen; those within 20 ms of it are the same.
    pub cost: f64,
}

/// The target that the request keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) target: TargetIndex,
    /// Why no other.
    pub(crate) not: &'static str,
}

/// What a choice in this scope would be: one that finds nothing says that there is no replica.
pub(crate) fn explain(field: &[Branch<'_>], now: Time, due: Option<Due>, scope: Scope) -> Explanation {
    let target = due.map(|due| due.target);
    let mut candidates: Vec<Candidate> = field.iter().enumerate().flat_map(of_branch).collect();
    let asked: Vec<Branch<'_>> = field.iter().filter_map(|branch| branch.towards(target)).collect();
    let lanes: Vec<usize> = (0..field.len())
        .filter(|lane| field.get(*lane).is_some_and(|branch| branch.towards(target).is_some()))
        .collect();
    let survey = Survey::of(&asked, scope);
    for candidate in &mut candidates {
        candidate.excluded = match (due, field.get(candidate.lane)) {
            (Some(due), _) if candidate.target != due.target => Some(due.not),
            (_, Some(branch)) => excluded(branch, candidate.replica, &survey, scope),
            (_, None) => None,
        };
    }
    score(&asked, now, scope, &mut candidates);
    predict(field, now, scope, &mut candidates);
    let choice = choose(&asked, now, scope, &mut Vec::new());
    let steps = words::steps(&asked, scope, &survey, &candidates, choice.as_ref());
    let chosen = |c: Choice| Chosen {
        lane: lanes.get(c.branch).copied().unwrap_or(c.branch),
        target: c.target.or(target).or_else(|| only_target(&asked, c.branch)),
        replica: c.replica,
        reason: c.reason,
        spilled: c.spilled,
    };
    Explanation { outcome: choice.map(chosen).map_err(NoPlace::NoReplica), candidates, steps }
}

impl Explanation {
    /// The same where no replica has a place: what the queue makes of it takes the place of the last step.
    pub(crate) fn without_place(mut self, why: NoPlace) -> Self {
        self.steps.pop();
        self.steps.push(match why {
            NoPlace::NoReplica(none) => format!("fallback: {none}"),
            NoPlace::Waits { ahead } => format!("queue: waits for a slot, {ahead} before it"),
            NoPlace::Held { ahead } => {
                format!(
                    "queue: held back, every candidate has more prefill queued than `hold`; {ahead} before it"
                )
            }
            NoPlace::Full { .. } => "queue: full, as many requests of the route wait as may".into(),
        });
        Self { outcome: Err(why), ..self }
    }
}

fn excluded(branch: &Branch<'_>, id: ReplicaId, survey: &Survey, scope: Scope) -> Option<&'static str> {
    let index = branch.view.place(id)?;
    let without_slot = scope == Scope::WithSlot && !branch.view.board[index].has_slot;
    let why = exclusion(branch, index, survey).map(|why| why.as_str());
    why.or_else(|| without_slot.then_some("no free slot"))
}

fn only_target(field: &[Branch<'_>], lane: usize) -> Option<TargetIndex> {
    match field.get(lane)?.targets {
        [only] => Some(*only),
        _ => None,
    }
}

fn of_branch((lane, branch): (usize, &Branch<'_>)) -> Vec<Candidate> {
    let view = &branch.view;
    let one = |target: TargetIndex, index: usize| Candidate {
        lane,
        target,
        replica: view.id(index),
        name: view.replicas[index].name.clone(),
        health: view.board[index].health,
        effective_running: requests(view.board[index].running),
        effective_waiting: requests(view.board[index].waiting),
        inflight: view.board[index].inflight,
        excluded: None,
        parts: Vec::new(),
        predicted: None,
    };
    let all = |target: &TargetIndex| {
        let target = *target;
        (0..view.board.len()).map(move |index| (target, index))
    };
    branch.targets.iter().flat_map(all).map(|(target, index)| one(target, index)).collect()
}

/// What each candidate would cost. All of them turn out to be none where the request is held back.
fn predict(field: &[Branch<'_>], now: Time, scope: Scope, candidates: &mut [Candidate]) {
    let last = LastTurn::of(field, now);
    for (lane, branch) in field.iter().enumerate() {
        let (Mode::Predictive, Some(predictor)) = (branch.request.mode, branch.view.predictor) else {
            continue;
        };
        let query = modes::question(predictor, now, branch, &last);
        for candidate in candidates.iter_mut().filter(|c| c.lane == lane && c.excluded.is_none()) {
            let row = branch.view.place(candidate.replica).map(|place| &branch.view.board[place]);
            candidate.predicted = row.map(|row| query.predict(row.seat).into());
        }
    }
    let Some(hold) = field.iter().find_map(|branch| branch.hold(scope)) else { return };
    let of_cost = || candidates.iter().filter_map(|candidate| candidate.predicted);
    if of_cost().all(|predicted| predicted.wait > hold.as_secs_f64()) {
        for candidate in candidates.iter_mut().filter(|candidate| candidate.predicted.is_some()) {
            candidate.excluded = Some("more prefill queued than `hold`, as all");
        }
    }
}

impl From<Prediction> for Predicted {
    fn from(Prediction { depth, forgiven, terms, .. }: Prediction) -> Self {
        let Terms { wait, prefill, delays, slowed } = terms;
        Self { known_blocks: depth, wait, prefill, forgiven, delays, slowed, cost: terms.cost() }
    }
}

/// What each policy adds to each candidate. Of targets that the request does not keep to there is nothing to add up.
fn score(field: &[Branch<'_>], now: Time, scope: Scope, candidates: &mut [Candidate]) {
    let Some(Mode::Policy(scoring)) = field.first().map(|branch| branch.request.mode) else { return };
    for (policy, weight) in scoring.policies.each() {
        for part in modes::parts(field, now, scope, scoring, (policy, weight)) {
            let Some(branch) = field.get(part.branch) else { continue };
            let place = (part.target, branch.view.id(part.index));
            let own = |c: &&mut Candidate| (c.target, c.replica) == place;
            if let Some(candidate) = candidates.iter_mut().find(own) {
                candidate.parts.push((policy, part.score));
            }
        }
    }
}
