//! The question and the answer of choosing a replica.

use crate::ids::{ModelId, ReplicaId, Session, Weight};
use crate::lease::Lease;
use crate::modes::Mode;
use std::time::Duration;

/// What a choice depends on.
#[derive(Clone, Copy, Debug, Default)]
pub struct PickRequest<'a> {
    /// Only replicas that serve it; `None`: all.
    pub model: Option<ModelId>,
    /// What the request weighs; below one request it counts as one.
    pub weight: Weight,
    /// Its session, if any source named one.
    pub session: Option<Session>,
    /// Hash of its system prompt's head, if it has one.
    pub prefix: Option<u64>,
    /// Replicas this request has already failed on.
    pub tried: &'a [ReplicaId],
    /// The only replica that can serve it, whatever its load: what it needs is nowhere else. `None`: any.
    pub only: Option<ReplicaId>,
    /// What there is to read, as far as it can be foreseen.
    pub prompt: Prompt<'a>,
    /// How one of the candidates is chosen.
    pub mode: Mode<'a>,
    /// Late binding, in mode `predictive` alone: while every candidate has more prefill queued than this,
    /// [`Pool::admit`](crate::Pool::admit) has the request wait. `None`: it does not wait for that. Nor does one that is
    /// bound to its only replica.
    pub hold: Option<Duration>,
    /// It has somewhere else to go: where nothing is LIVE or PROBING no EJECTED replica is taken, and none is waited
    /// for.
    pub has_fallback: bool,
}

/// What a request asks an engine to read, as far as it can be foreseen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prompt<'a> {
    /// Estimated length in tokens.
    pub tokens: u32,
    /// Hashes of its leading whole pieces of equal size, each chained to the one before: equal hashes mean an equal whole
    /// beginning. Empty: nothing is foreseen of caches.
    pub blocks: &'a [u64],
    /// Estimated tokens in one of these pieces.
    pub block_tokens: u32,
    /// The answer is no stream: its first byte comes with its last, and says nothing of when the prompt was read.
    pub whole_answer: bool,
}

impl PickRequest<'_> {
    /// Its hold, where it has one that counts.
    pub(crate) fn hold(&self) -> Option<Duration> {
        self.hold.filter(|_| matches!(self.mode, Mode::Predictive) && self.only.is_none())
    }

    /// Not bound to another replica.
    pub(crate) fn may_go_to(&self, id: ReplicaId) -> bool {
        self.only.is_none_or(|only| only == id)
    }
}

/// Why a replica was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The session's warm replica (`consistent`: the first one in the session's order that is usable).
    AffinitySession,
    /// The prompt prefix's warm replica (`consistent`: likewise).
    AffinityPrefix,
    /// The least loaded one.
    Load,
    /// The least loaded one of the target whose share it was.
    Weighted,
    /// The one with the largest total of its policies' scores.
    Policy,
    /// The one whose turn it was.
    RoundRobin,
    /// The one with the lowest predicted cost.
    Predicted,
    /// No other target of the route could serve; given by whoever has tried them.
    Fallback,
    /// The least loaded one, and the pin moves there.
    Rebind,
    /// Nothing is LIVE or PROBING: a random EJECTED one.
    LastResort,
    /// The only one that can serve the request ([`PickRequest::only`]).
    Pinned,
}

impl Reason {
    /// The stable name for usage lines, metrics and the dashboard.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AffinitySession => "affinity_session",
            Self::AffinityPrefix => "affinity_prefix",
            Self::Load => "load",
            Self::Weighted => "weighted",
            Self::Policy => "policy",
            Self::RoundRobin => "round_robin",
            Self::Predicted => "predicted",
            Self::Fallback => "fallback",
            Self::Rebind => "rebind",
            Self::LastResort => "last_resort",
            Self::Pinned => "pinned",
        }
    }
}

/// A choice, reserved.
#[derive(Debug, PartialEq)]
pub struct Picked {
    /// The reserved place.
    pub lease: Lease,
    /// The replica chosen.
    pub replica: ReplicaId,
    /// Why.
    pub reason: Reason,
    /// A living pin pointed elsewhere (`consistent`: the key's owner was not usable).
    pub spilled: bool,
}

/// Why no replica was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReplica {
    /// The pool has no replica (that serves the model).
    #[error("no replica is known")]
    NoneKnown,
    /// Replicas are known, but each is starting, draining, or probing and at its limit.
    #[error("no replica is ready")]
    NotReady,
    /// Every replica that could serve has been tried by this request (or, asked for one with room, has none).
    #[error("every replica that could serve has been tried")]
    AllTried,
}
