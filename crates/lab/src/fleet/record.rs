//! What comes out: how each request fared, and what happened on the way.

use super::JobId;
use sluicegate_core::{ReplicaId, Time, Transition};
use std::time::Duration;

/// How one request fared. Made when it has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Which request.
    pub job: JobId,
    /// When it arrived.
    pub arrival: Time,
    /// The replica of the last attempt.
    pub replica: Option<ReplicaId>,
    /// Why that one was chosen: a reason of the usage line, or the name of a rival.
    pub reason: &'static str,
    /// When the last attempt began.
    pub sent: Option<Time>,
    /// When the first byte reached the client.
    pub first_byte: Option<Time>,
    /// When it was over.
    pub end: Time,
    /// Time in the gateway's queue, over all attempts.
    pub queued: Duration,
    /// Attempts made.
    pub attempts: u32,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Those of them that the last replica had in its cache.
    pub cached_tokens: u32,
    /// Tokens generated for it by the last replica.
    pub output_tokens: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl Record {
    /// From arrival to first byte; `None` where none came.
    #[must_use]
    pub fn ttft(&self) -> Option<Duration> {
        Some(self.first_byte?.since(self.arrival))
    }

    /// From arrival to the end.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.end.since(self.arrival)
    }
}

/// How a request ended, in the words of the usage line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// A whole good answer.
    Ok,
    /// A 4xx of the engine.
    ClientError,
    /// The queue was full, or the wait too long.
    RejectedQueue,
    /// It equals one that failed two replicas alike a moment ago.
    RejectedPoison,
    /// No attempt succeeded.
    UpstreamError,
    /// The answer broke off after its first byte.
    UpstreamAborted,
    /// Its client left.
    ClientGone,
    /// Its client left while it waited for a slot.
    ClientGoneQueued,
    /// Its stream fell silent.
    TimeoutSilence,
    /// It took longer than it may.
    TimeoutTotal,
    /// No replica could take it.
    NoReplica,
}

impl Outcome {
    /// The name in usage lines.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientError => "client_error",
            Self::RejectedQueue => "rejected_queue",
            Self::RejectedPoison => "rejected_poison",
            Self::UpstreamError => "upstream_error",
            Self::UpstreamAborted => "upstream_aborted",
            Self::ClientGone => "client_gone",
            Self::ClientGoneQueued => "client_gone_queued",
            Self::TimeoutSilence => "timeout_silence",
            Self::TimeoutTotal => "timeout_total",
            Self::NoReplica => "no_replica",
        }
    }
}

/// Something that happened in a run, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Happening {
    /// An attempt began.
    Sent {
        /// When.
        at: Time,
        /// Which request.
        job: JobId,
        /// Where it went.
        replica: ReplicaId,
        /// Why there.
        reason: &'static str,
    },
    /// The first byte reached the client.
    FirstByte {
        /// When.
        at: Time,
        /// Which request.
        job: JobId,
        /// From where.
        replica: ReplicaId,
    },
    /// A request is over.
    Ended(Record),
    /// A replica's health changed, in the decider's eyes.
    Transition(Transition),
}
