//! One request and where it stands.

use super::{Job, JobId, Outcome, Record};
use sluicegate_core::{AttemptFailure, Attempts, ReplicaId, Time};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) job: Job,
    pub(super) attempts: Attempts,
    pub(super) phase: Phase,
    pub(super) record: Record,
    /// How the last attempt failed.
    pub(super) failure: Option<AttemptFailure>,
    /// When a token of it was generated last.
    pub(super) last_token: Time,
    /// It has gone to the fallback, and this is what the targets had come to.
    pub(super) fallen_back: Option<First>,
}

/// What the targets came to.
#[derive(Clone, Copy, Debug)]
pub(super) struct First {
    pub(super) outcome: Outcome,
    pub(super) replica: Option<ReplicaId>,
    pub(super) reason: &'static str,
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not arrived, or is between two attempts.
    Idle,
    /// It waits for a slot.
    Waiting {
        since: Time,
    },
    /// It is at a replica.
    Sent {
        replica: ReplicaId,
        answered: bool,
    },
    Over,
}

impl Request {
    pub(super) fn new(id: JobId, job: Job) -> Self {
        let record = Record {
            job: id,
            arrival: job.arrives,
            replica: None,
            reason: "",
            sent: None,
            first_byte: None,
            end: job.arrives,
            queued: Duration::ZERO,
            attempts: 0,
            prompt_tokens: job.prompt_tokens,
            cached_tokens: 0,
            output_tokens: 0,
            outcome: Outcome::Ok,
        };
        Self {
            last_token: job.arrives,
            job,
            attempts: Attempts::new(),
            phase: Phase::Idle,
            record,
            failure: None,
            fallen_back: None,
        }
    }
}
