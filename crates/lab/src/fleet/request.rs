//! One request and where it stands.

use super::host::{Met, Spoil};
use super::{Job, JobId, Outcome, Record};
use sluicegate_core::{AttemptFailure, Attempts, ReplicaId, Time};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Request {
    pub(super) job: Job,
    pub(super) attempts: Attempts,
    pub(super) phase: Phase,
    pub(super) record: Record,
    /// How far the attempt that runs has come.
    pub(super) contact: Contact,
    /// How the answer of the attempt that runs is to go wrong.
    pub(super) spoil: Option<Spoil>,
    /// How the last attempt failed.
    failure: Option<AttemptFailure>,
    /// The last status that a replica gave, in a head or in a first event: it is worth more to the client than a later
    /// failure that says nothing.
    said: Option<u16>,
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

/// How far an attempt without a byte of its answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contact {
    /// The connection is not made.
    Connecting,
    /// The request has been sent whole.
    Read,
    /// The answer's head has come: a stream's comes before its first event is there.
    Head,
}

impl Contact {
    pub(super) fn of(met: Met, stream: bool) -> Self {
        match met {
            Met::NotConnected => Self::Connecting,
            Met::Served(_) if stream => Self::Head,
            Met::Served(_) | Met::Held | Met::Fails(_) => Self::Read,
        }
    }
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
            attempts: Attempts::of(job.key),
            job,
            contact: Contact::Connecting,
            spoil: None,
            phase: Phase::Idle,
            record,
            failure: None,
            said: None,
            fallen_back: None,
        }
    }

    /// An attempt has failed.
    pub(super) fn failed(&mut self, failure: AttemptFailure) {
        self.failure = Some(failure);
        if let AttemptFailure::Status(status) | AttemptFailure::ErrorEvent(status) = failure {
            self.said = Some(status);
        }
    }

    /// It is for the fallback now, where nothing has been tried.
    pub(super) fn begin_anew(&mut self, attempts: Attempts) {
        (self.attempts, self.failure, self.said) = (attempts, None, None);
    }

    /// The last status that a replica gave.
    pub(super) fn said(&self) -> Option<u16> {
        self.said
    }

    /// How it ends where no attempt is left, as the data plane has it; `None`: none was made.
    pub(super) fn outcome_so_far(&self) -> Option<Outcome> {
        let failure = self.failure?;
        if let Some(said) = self.said {
            let of_client = said < 500 && said != 429;
            return Some(if of_client { Outcome::ClientError } else { Outcome::UpstreamError });
        }
        Some(match failure {
            AttemptFailure::Refused | AttemptFailure::ConnectFailed => Outcome::NoReplica,
            AttemptFailure::ReplicaDied { .. } | AttemptFailure::Gone if !self.attempts.is_suspect() => {
                Outcome::NoReplica
            }
            _ => Outcome::UpstreamError,
        })
    }
}
