//! Requests that can go to the same replicas.

use crate::ids::{KeyIndex, ModelId, ReplicaId, RouteIndex};
use crate::modes::Mode;
use crate::pick::PickRequest;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

/// Never given out twice by a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineId(pub(super) u64);

/// Replicas that a request has tried, in order of their ids.
pub(crate) type Tried = SmallVec<[ReplicaId; 4]>;

/// Late binding: its requests wait, also for want of a replica with little enough prefill queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) hold: Duration,
    /// The only route that they are of: where as many wait as may, one of its own goes on.
    pub(crate) route: RouteIndex,
}

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) model: Option<ModelId>,
    pub(crate) tried: Tried,
    /// The only replica that they can go to.
    pub(crate) only: Option<ReplicaId>,
    /// They do not wait for a replica to come back.
    pub(crate) has_fallback: bool,
    /// They go where they cost least; the others by the five steps.
    pub(crate) by_cost: bool,
    pub(crate) held: Option<Held>,
    /// Of each key (in each class) that waits here one, and of the retries all.
    pub(super) heads: BTreeSet<Rank>,
}

/// Whose turn it is: the smallest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(super) class: Reverse<i32>,
    /// False for a retry.
    pub(super) fresh: bool,
    /// The key's virtual token counter; zero for a retry.
    pub(super) counter: u64,
    /// When the key last had its turn or began to wait; for a retry its ticket.
    pub(super) turn: u64,
    pub(super) key: KeyIndex,
}

impl Line {
    pub(super) fn new(request: &PickRequest<'_>, tried: Tried, route: RouteIndex) -> Self {
        let PickRequest { model, only, has_fallback, .. } = *request;
        let (by_cost, held) = (by_cost(request), held(request, route));
        Self { model, tried, only, has_fallback, by_cost, held, heads: BTreeSet::new() }
    }

    /// Its requests can go where this one can, and wait as long.
    pub(super) fn takes(&self, request: &PickRequest<'_>, tried: &Tried, route: RouteIndex) -> bool {
        let PickRequest { model, only, has_fallback, .. } = *request;
        let same = (self.model, self.only, self.has_fallback) == (model, only, has_fallback);
        let chosen_alike = (self.by_cost, self.held) == (by_cost(request), held(request, route));
        same && chosen_alike && self.tried == *tried
    }

    /// Who is first here. A line without anybody is removed, so there is always one.
    pub(crate) fn first(&self) -> Option<Rank> {
        self.heads.first().copied()
    }

    /// The least counter of the keys of a class that wait here.
    pub(super) fn least(&self, class: i32) -> Option<u64> {
        let class = Reverse(class);
        let from = Rank { class, fresh: true, counter: 0, turn: 0, key: KeyIndex(0) };
        self.heads.range(from..).next().filter(|rank| rank.class == class).map(|rank| rank.counter)
    }
}

fn by_cost(request: &PickRequest<'_>) -> bool {
    matches!(request.mode, Mode::Predictive)
}

fn held(request: &PickRequest<'_>, route: RouteIndex) -> Option<Held> {
    request.hold().map(|hold| Held { hold, route })
}

/// The tried replicas as a line knows them: a set.
pub(super) fn tried(replicas: &[ReplicaId]) -> Tried {
    let mut tried = Tried::from_slice(replicas);
    tried.sort_unstable();
    tried.dedup();
    tried
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Weight;

    #[test]
    fn those_who_go_where_it_costs_least_wait_in_a_line_of_their_own_and_get_their_places_by_cost() {
        let asks = |mode| PickRequest { mode, ..PickRequest::default() };
        for (mode, by_cost) in [(Mode::Predictive, true), (Mode::Adaptive, false), (Mode::RoundRobin, false)]
        {
            let line = Line::new(&asks(mode), Tried::new(), RouteIndex(0));
            let takes = |mode| line.takes(&asks(mode), &Tried::new(), RouteIndex(0));
            assert_eq!((takes(Mode::Predictive), takes(Mode::Adaptive)), (by_cost, !by_cost));
            assert_eq!(matches!(line.request(Weight(0)).mode, Mode::Predictive), by_cost);
        }
    }
}
