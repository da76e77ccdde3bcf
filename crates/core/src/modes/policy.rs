//! Mode `policy`: every policy spreads its weight over the candidates by their scores, and the largest total wins.

use super::{Scoring, candidates};
use crate::choose::{Branch, Choice, Scope, Survey, without_candidates};
use crate::pick::{NoReplica, Reason};
use crate::policies::{self, Asked, Candidate, Foreseen, Policy};
use crate::prng;
use crate::time::Time;

/// Totals this close to the largest one, relative to it, are equal: sums of shares differ in their last bits by the
/// order in which they are added. No two totals of the published tables that differ come nearer than a hundred times
/// this.
const TIE: f64 = 1e-12;

/// The candidate with the largest total, a random one of several; in turn where every policy abstains.
pub(crate) fn by_policies(
    field: &[Branch<'_>],
    now: Time,
    scope: Scope,
    scoring: Scoring<'_>,
    scratch: &mut Vec<Candidate>,
) -> Result<Choice, NoReplica> {
    let spoken = scored(field, now, scope, scoring, scratch);
    let best = scratch.iter().map(|candidate| candidate.total).fold(0.0, f64::max);
    let wins = |candidate: &&Candidate| candidate.total >= best * (1.0 - TIE);
    let chosen = |candidate: &Candidate, reason| {
        let id = field[candidate.branch].view.id(candidate.index);
        Choice { target: Some(candidate.target), ..Choice::of(candidate.branch, id, reason) }
    };
    if !spoken {
        let next = scratch.iter().min_by_key(|candidate| (candidate.distance, candidate.target));
        if let Some(candidate) = next {
            return Ok(Choice { takes_turn: true, ..chosen(candidate, Reason::RoundRobin) });
        }
        return without_candidates(field, &Survey::of(field, scope), scope);
    }
    let winners = scratch.iter().filter(wins).count();
    let roll = field.first().map_or(0, |branch| branch.view.roll);
    let nth = prng::below(roll, winners);
    match scratch.iter().filter(wins).nth(nth) {
        Some(candidate) => Ok(Choice { rolled: winners > 1, ..chosen(candidate, Reason::Policy) }),
        None => Err(NoReplica::NotReady),
    }
}

/// Fills `into` with the candidates and their totals. False: every policy abstained, or there is nobody.
fn scored(
    field: &[Branch<'_>],
    now: Time,
    scope: Scope,
    scoring: Scoring<'_>,
    into: &mut Vec<Candidate>,
) -> bool {
    gather(field, now, scope, scoring, into);
    scoring.policies.add_up(&asked(field, scoring), into)
}

/// What one policy adds to each candidate's total, as their score: for an explanation.
pub(crate) fn parts(
    field: &[Branch<'_>],
    now: Time,
    scope: Scope,
    scoring: Scoring<'_>,
    (policy, weight): (Policy, f64),
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    gather(field, now, scope, scoring, &mut candidates);
    policies::add(policy, weight, &asked(field, scoring), &mut candidates);
    candidates
}

fn gather(field: &[Branch<'_>], now: Time, scope: Scope, scoring: Scoring<'_>, into: &mut Vec<Candidate>) {
    into.clear();
    for (at, branch, index) in candidates(field, scope) {
        into.extend(branch.targets.iter().map(|target| Candidate::of(at, branch, index, *target)));
    }
    if scoring.policies.predict() {
        field.iter().enumerate().for_each(|(at, branch)| foresee(at, branch, now, into));
    }
}

/// Adds what is predicted of the replicas of one pool.
fn foresee(at: usize, branch: &Branch<'_>, now: Time, candidates: &mut [Candidate]) {
    let prompt = &branch.request.prompt;
    let Some(predictor) = branch.view.predictor.filter(|_| prompt.tokens > 0) else { return };
    let query = predictor.query(now, prompt, branch.in_service());
    for candidate in candidates.iter_mut().filter(|candidate| candidate.branch == at) {
        let Some(row) = branch.view.board.get(candidate.index) else { continue };
        let prediction = query.predict(row.seat);
        let known = f64::from(prediction.depth) * f64::from(prompt.block_tokens) / f64::from(prompt.tokens);
        candidate.foreseen = Some(Foreseen { known: known.min(1.0), ttft: prediction.ttft() });
    }
}

fn asked<'a>(field: &[Branch<'_>], scoring: Scoring<'a>) -> Asked<'a> {
    let session = field.first().and_then(|branch| branch.request.session).map(|session| session.key());
    Asked { session, decision: scoring.decision }
}
