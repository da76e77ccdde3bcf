//! One request's attempts, up to the first byte that reaches its client.

use super::RetryBudget;
use crate::ids::{KeyIndex, ReplicaId};
use crate::settings::RetrySettings;
use crate::time::Time;
use crate::verdict::{Failure, Verdict};
use smallvec::SmallVec;

/// How an attempt failed before anything reached the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// Connection refused.
    Refused,
    /// The connection ended before an answer to the whole request, and a new one is refused: the process is gone, and it
    /// may be this request that ended it.
    Gone,
    /// Any other failure to connect, connect timeout included.
    ConnectFailed,
    /// The connection ended before an answer.
    Reset {
        /// The request had been sent completely.
        sent_whole: bool,
    },
    /// The replica's own status.
    Status(u16),
    /// The first event of the stream is an error with this code.
    ErrorEvent(u16),
    /// The silence or total limit: never retried.
    Timeout,
    /// The replica was declared dead while this request was on its way to it or waited there
    /// ([`Effect::AbortUnanswered`](crate::Effect::AbortUnanswered)): its retry is free of budget.
    ReplicaDied {
        /// The request had been sent completely: it may be what ended the replica.
        sent_whole: bool,
    },
}

/// What comes after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another replica is to be picked. After a 429 with [`Pool::pick_with_room`](crate::Pool::pick_with_room); where
    /// no replica has room the 429 is relayed.
    Retry,
    /// What the replica said is the request's end.
    GiveUp,
}

/// A verdict to book against a replica with [`Pool::book`](crate::Pool::book).
pub type Booking<R = ReplicaId> = (R, Verdict);

/// One request's attempts: what has been tried, which booking is still open, what comes next. `R` is what the caller
/// names a replica by: more than its id where a request may go to several pools.
#[derive(Clone, Debug)]
pub struct Attempts<R = ReplicaId> {
    /// Whose retries they are.
    key: KeyIndex,
    tried: SmallVec<[R; 4]>,
    blame: Blame<R>,
    spilled_429: bool,
}

/// Whose fault a 500, 502, 504 or reset after a complete send was.
#[derive(Clone, Copy, Debug)]
enum Blame<R> {
    None,
    /// Open until a replay's verdict; never booked if there is none.
    Open {
        replica: R,
        failure: Failure,
    },
    /// As open, of a replica that is out of service for it already: nothing is left to book.
    Gone,
    /// Two replicas failed it alike: the request's own.
    Suspect,
}

/// What a failure is to the rules.
enum Kind {
    /// Retried free of budget.
    Free(Verdict),
    /// Retried within the budget.
    Budgeted(Verdict),
    /// After a complete send: the replica's fault or the request's.
    Doubtful(Failure),
    /// The process is gone, and the request may be why: retried free of budget, with an eye on it.
    Gone(Verdict),
    /// A 429.
    Full,
    /// Never retried.
    Final(Verdict),
}

impl<R> Default for Attempts<R> {
    fn default() -> Self {
        Self { key: KeyIndex(0), tried: SmallVec::new(), blame: Blame::None, spilled_429: false }
    }
}

impl<R: Copy> Attempts<R> {
    /// A request that has not been tried yet, where there are no keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A request of this key that has not been tried yet.
    #[must_use]
    pub fn of(key: KeyIndex) -> Self {
        Self { key, ..Self::default() }
    }

    /// The replicas tried so far, for [`PickRequest::tried`](crate::PickRequest::tried).
    #[must_use]
    pub fn tried(&self) -> &[R] {
        &self.tried
    }

    /// Attempts so far.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.tried.len()).unwrap_or(u32::MAX)
    }

    /// Two replicas have failed the request alike: it is refused from now on rather than tried again.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        matches!(self.blame, Blame::Suspect)
    }

    /// An attempt begins.
    pub fn started(&mut self, replica: R) {
        self.tried.push(replica);
    }

    /// The attempt failed: the verdict to release its lease with, and whether to go on.
    ///
    /// A doubtful failure (a reset, 500, 502 or 504 after a complete send) is `Deferred`: it may be the replica's fault
    /// or the request's, and only a replay tells. It is booked when [`Attempts::answered`] says that another replica
    /// did better, and otherwise never: not where attempts, budget, time or replicas are used up before, and not where
    /// the replay ends without a verdict (refused, 503, 429, a timeout, a 4xx). Else a client whose requests fail
    /// everywhere could eject replicas whenever there is no room for replays. Where the settings allow no replay at all
    /// (one attempt, no budget, a status that is not retried) nobody could ever give a second opinion: there the
    /// failure is the replica's own at once.
    pub fn failed(
        &mut self,
        now: Time,
        failure: AttemptFailure,
        settings: &RetrySettings,
        budget: &mut RetryBudget,
    ) -> (Verdict, Next) {
        let kind = Kind::of(failure, settings);
        self.weigh(&kind);
        if self.is_suspect() {
            return (Verdict::Deferred, Next::GiveUp);
        }
        let more = self.count() < settings.attempts;
        match kind {
            Kind::Final(verdict) => (verdict, Next::GiveUp),
            Kind::Free(verdict) => (verdict, next(more)),
            Kind::Gone(verdict) => {
                self.blame = Blame::Gone;
                (verdict, next(more))
            }
            Kind::Budgeted(verdict) => (verdict, next(more && budget.take(now, self.key))),
            Kind::Full => {
                let first = settings.spill_429 && !self.spilled_429;
                let go_on = more && first && budget.take(now, self.key);
                self.spilled_429 = true;
                (Verdict::Neutral, next(go_on))
            }
            Kind::Doubtful(failure) if !replayable(failure, settings) => {
                (Verdict::Failure(failure), Next::GiveUp)
            }
            Kind::Doubtful(failure) => {
                if let Some(replica) = self.tried.last() {
                    self.blame = Blame::Open { replica: *replica, failure };
                }
                (Verdict::Deferred, next(more && budget.take(now, self.key)))
            }
        }
    }

    /// The attempt was answered well: the failure of an earlier replica, if one is open, is now that one's own.
    #[must_use = "to be booked"]
    pub fn answered(&mut self) -> Option<Booking<R>> {
        match std::mem::replace(&mut self.blame, Blame::None) {
            Blame::Open { replica, failure } => Some((replica, Verdict::Failure(failure))),
            Blame::None | Blame::Gone | Blame::Suspect => None,
        }
    }

    /// What this failure says about an earlier one that is still open.
    fn weigh(&mut self, kind: &Kind) {
        if !matches!(self.blame, Blame::Open { .. } | Blame::Gone) {
            return;
        }
        match kind {
            // A replica that died with the replay on board was most likely killed by it.
            Kind::Doubtful(_) | Kind::Gone(_) => self.blame = Blame::Suspect,
            // It may have been executed, and nobody will know how well.
            Kind::Final(_) => self.blame = Blame::None,
            // The replay did not reach an engine: the next one may.
            Kind::Free(_) | Kind::Budgeted(_) | Kind::Full => {}
        }
    }
}

impl Kind {
    fn of(failure: AttemptFailure, settings: &RetrySettings) -> Self {
        match failure {
            AttemptFailure::Refused => Self::Free(Verdict::Refused),
            AttemptFailure::Gone => Self::Gone(Verdict::Refused),
            AttemptFailure::ConnectFailed => Self::Free(Verdict::ConnectFailed),
            AttemptFailure::ReplicaDied { sent_whole: false } => Self::Free(Verdict::Neutral),
            AttemptFailure::ReplicaDied { sent_whole: true } => Self::Gone(Verdict::Neutral),
            AttemptFailure::Timeout => Self::Final(Verdict::SilentTimeout),
            AttemptFailure::Reset { sent_whole: false } => Self::Budgeted(Verdict::Failure(Failure::Reset)),
            AttemptFailure::Reset { sent_whole: true } => Self::Doubtful(Failure::Reset),
            AttemptFailure::Status(429) | AttemptFailure::ErrorEvent(429) => Self::Full,
            AttemptFailure::Status(status @ (500 | 502 | 504)) => Self::Doubtful(Failure::Status(status)),
            AttemptFailure::ErrorEvent(code @ (500 | 502 | 504)) => Self::Doubtful(Failure::ErrorEvent(code)),
            AttemptFailure::Status(status) => {
                let verdict = if status == 503 { Verdict::Busy } else { Verdict::Neutral };
                let retried = status >= 500 && settings.on_status.contains(&status);
                if retried { Self::Budgeted(verdict) } else { Self::Final(verdict) }
            }
            AttemptFailure::ErrorEvent(503) => Self::Budgeted(Verdict::Busy),
            AttemptFailure::ErrorEvent(500..=599) => Self::Budgeted(Verdict::Neutral),
            AttemptFailure::ErrorEvent(_) => Self::Final(Verdict::Neutral),
        }
    }
}

/// Whether the settings let such a failure be replayed at all.
fn replayable(failure: Failure, settings: &RetrySettings) -> bool {
    let budget = settings.budget > 0.0 || settings.budget_per_second > 0;
    let retried = match failure {
        Failure::Status(status) => settings.on_status.contains(&status),
        Failure::Reset | Failure::ErrorEvent(_) => true,
    };
    settings.attempts > 1 && budget && retried
}

fn next(go_on: bool) -> Next {
    if go_on { Next::Retry } else { Next::GiveUp }
}

#[cfg(test)]
mod tests;
