//! Requests that can go to the same replicas.

use crate::ids::{KeyIndex, ModelId, ReplicaId};
use crate::pick::PickRequest;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Never given out twice by a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineId(pub(super) u64);

/// Replicas that a request has tried, in order of their ids.
pub(crate) type Tried = SmallVec<[ReplicaId; 4]>;

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) model: Option<ModelId>,
    pub(crate) tried: Tried,
    /// The only replica that they can go to.
    pub(crate) only: Option<ReplicaId>,
    /// They do not wait for a replica to come back.
    pub(crate) has_fallback: bool,
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
    pub(super) fn new(request: &PickRequest<'_>, tried: Tried) -> Self {
        let PickRequest { model, only, has_fallback, .. } = *request;
        Self { model, tried, only, has_fallback, heads: BTreeSet::new() }
    }

    /// Its requests can go where this one can, and wait as long.
    pub(super) fn takes(&self, request: &PickRequest<'_>, tried: &Tried) -> bool {
        let PickRequest { model, only, has_fallback, .. } = *request;
        (self.model, self.only, self.has_fallback) == (model, only, has_fallback) && self.tried == *tried
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

/// The tried replicas as a line knows them: a set.
pub(super) fn tried(replicas: &[ReplicaId]) -> Tried {
    let mut tried = Tried::from_slice(replicas);
    tried.sort_unstable();
    tried.dedup();
    tried
}
