//! Mode `round_robin`: a plain cycle over LIVE replicas, whatever their load.

use super::candidates;
use crate::choose::{Branch, Choice, Scope, Survey, without_candidates};
use crate::pick::{NoReplica, Reason};

/// The candidate whose turn comes next.
pub(crate) fn round_robin(field: &[Branch<'_>], scope: Scope) -> Result<Choice, NoReplica> {
    let next = candidates(field, scope).min_by_key(|(_, branch, index)| branch.distance(*index));
    match next {
        Some((at, branch, index)) => {
            let chosen = Choice::of(at, branch.view.id(index), Reason::RoundRobin);
            Ok(Choice { takes_turn: true, ..chosen })
        }
        None => without_candidates(field, &Survey::of(field, scope), scope),
    }
}
