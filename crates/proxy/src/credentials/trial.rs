//! What a replica's answer says of the credential that it was asked with, and whether another one is to be tried.
//!
//! - 401: the credential is not known. It rests, and the next is tried. Once all are refused so, the answer is between
//!   gateway and replica: the client would take it for a word on its own key.
//! - 403: the credential may not do it, or nobody may do it: content policies answer so. The next one tells; if it is
//!   forbidden the same, the request is the suspect, the answer is relayed and neither rests.
//! - 429: the credential has used up its share. It rests for its `Retry-After`, and the next is tried.

use sluicegate_core::Time;
use smallvec::SmallVec;

use super::{Chosen, Credentials};

/// Requests after a 403 at the most: a forbidden prompt must not go round all of a provider's accounts.
const REPLAYS_OF_A_403: u32 = 2;

/// One request's way through the credentials of its pool. `A` is what it was answered.
pub(crate) struct Trial<'a, A> {
    credentials: &'a Credentials,
    tried: SmallVec<[usize; 4]>,
    /// The first 403, and whose: not judged yet.
    forbidden: Option<(usize, A)>,
    /// The last 429.
    full: Option<A>,
    replays_left: u32,
    /// A good answer proves the credential.
    proves: bool,
}

/// What a replica said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Said {
    pub(crate) status: u16,
    /// In seconds; None where there is none, or where it is a date.
    pub(crate) retry_after: Option<u32>,
}

/// What becomes of the request.
pub(crate) enum Judged<A> {
    /// This is its answer.
    Answered(A),
    /// It is to be sent again with this one.
    Again(Chosen),
    /// Every credential was refused with 401: the gateway has none that is good.
    Refused,
}

impl<'a, A> Trial<'a, A> {
    pub(crate) fn new(credentials: &'a Credentials) -> Self {
        let (tried, replays_left) = (SmallVec::new(), u32::MAX);
        Self { credentials, tried, forbidden: None, full: None, replays_left, proves: true }
    }

    /// Of a path that engines answer well to anybody: vLLM asks for its key under `/v1` alone.
    pub(crate) fn of_probe(credentials: &'a Credentials) -> Self {
        Self { proves: false, ..Self::new(credentials) }
    }

    /// Judges the `answer` to what was sent with `chosen`. `said` is None where it is no answer: the connection broke,
    /// or the client left.
    pub(crate) fn judge(&mut self, chosen: &Chosen, said: Option<Said>, answer: A, now: Time) -> Judged<A> {
        let index = chosen.index;
        match said.map(|said| said.status) {
            Some(401) if self.credentials.ours => self.credentials.refused(index, 401, now),
            Some(403) if self.forbidden.is_some() => return Judged::Answered(answer),
            Some(403) => {
                self.forbidden = Some((index, answer));
                self.replays_left = REPLAYS_OF_A_403;
            }
            Some(429) => {
                let retry_after = said.and_then(|said| said.retry_after);
                self.credentials.used_up(index, retry_after, now);
                self.full = Some(answer);
            }
            status => {
                self.passed(index, status, now);
                return Judged::Answered(answer);
            }
        }
        self.tried.push(index);
        if self.replays_left > 0
            && let Some(other) = self.credentials.another(&self.tried, now)
        {
            self.replays_left -= 1;
            return Judged::Again(other);
        }
        // When to come again is worth most.
        let answer = self.full.take().or(self.forbidden.take().map(|(_, answer)| answer));
        answer.map_or(Judged::Refused, Judged::Answered)
    }

    /// This credential let the request in: what forbade it before was the other credential's own limit.
    fn passed(&mut self, index: usize, status: Option<u16>, now: Time) {
        if let Some((forbidden, _)) = self.forbidden.take()
            && status.is_some_and(|status| status < 500)
        {
            self.credentials.refused(forbidden, 403, now);
        }
        if self.proves && status.is_some_and(|status| status < 400) {
            self.credentials.accepted(index);
        }
    }
}

#[cfg(test)]
mod tests;
