//! Mode `predictive`: the lowest predicted cost, to this request and to everybody else.

use crate::choose::{Branch, Choice, Scope, Survey, without_candidates};
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::pick::{NoReplica, Reason};
use crate::predict::{Standing, Ties};
use crate::time::Time;
use std::cmp::Reverse;

/// The cheapest candidate; of those that cost the same the one that knows most of the prompt, then the one with the fewest
/// requests in flight, then the one whose turn it is.
pub(crate) fn by_cost(field: &[Branch<'_>], now: Time, scope: Scope) -> Result<Choice, NoReplica> {
    let mut ties = Ties::default();
    for (at, branch) in field.iter().enumerate() {
        offer(at, branch, now, scope, &mut ties);
    }
    match ties.winner() {
        Some(((branch, id), standing)) => {
            let chosen = Choice::of(branch, id, Reason::Predicted);
            Ok(Choice { takes_turn: true, depth: Some(standing.depth.0), ..chosen })
        }
        None => without_candidates(field, &Survey::of(field, scope), scope),
    }
}

fn offer(at: usize, branch: &Branch<'_>, now: Time, scope: Scope, ties: &mut Ties<(usize, ReplicaId)>) {
    let Some(predictor) = branch.view.predictor else { return };
    let query = predictor.query(now, &branch.request.prompt, branch.in_service());
    for (index, row) in branch.view.board.iter().enumerate() {
        let probing = row.health == Health::Probing;
        let open = match row.health {
            Health::Live => scope != Scope::WithRoom || row.waiting == 0,
            Health::Probing => scope != Scope::WithRoom && branch.probing_has_room(row),
            Health::Starting | Health::Ejected | Health::Draining => false,
        };
        if !open || !scope.covers(row) || !branch.asked(index) {
            continue;
        }
        let limit = ties.limit().unwrap_or(f64::INFINITY);
        let Some(prediction) = query.predict_below(row.seat, limit) else { continue };
        let (depth, distance) = (Reverse(prediction.depth), branch.distance(index));
        let standing = Standing { depth, inflight: row.inflight, probing, distance };
        ties.offer(prediction.terms.cost(), standing, (at, row.id));
    }
}
