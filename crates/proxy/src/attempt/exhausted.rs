//! What the client is told when no attempt is left.

use sluicegate_core::AttemptFailure;

use super::reserve::Search;
use super::{Answered, NoAnswer, StoredAnswer};
use crate::refusal::Refusal;

/// The last replica's own error where it gave one, else ours.
pub(super) fn exhausted(
    search: &Search<'_>,
    stored: Option<StoredAnswer>,
    otherwise: Refusal,
) -> Result<Answered, NoAnswer> {
    match (search.last, stored) {
        (None, _) => Err(otherwise.into()),
        (Some(_), Some(answer)) if answer.is_relayable() => Ok(Answered::Stored(answer)),
        (Some(failure), answer) => {
            let retry_after = answer.and_then(|answer| answer.retry_after);
            Err(refusal(failure, search.attempts.is_suspect(), retry_after).into())
        }
    }
}

/// `suspect`: two replicas have failed the request alike, so that there is no telling whether another could be reached.
fn refusal(last: AttemptFailure, suspect: bool, retry_after: Option<u32>) -> Refusal {
    match last {
        AttemptFailure::Status(status) => Refusal::UpstreamStatus { status, retry_after },
        AttemptFailure::ReplicaDied { .. } | AttemptFailure::Gone if suspect => {
            Refusal::Upstream("it died with the request on board")
        }
        AttemptFailure::Refused
        | AttemptFailure::ConnectFailed
        | AttemptFailure::ReplicaDied { .. }
        | AttemptFailure::Gone => Refusal::Unreachable,
        AttemptFailure::Reset { .. } | AttemptFailure::ErrorEvent(_) | AttemptFailure::Timeout => {
            Refusal::Upstream("it closed the connection before its answer")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_two_replicas_died_of_is_answered_502_and_one_that_found_none_503() {
        let died = AttemptFailure::ReplicaDied { sent_whole: true };
        for (last, suspect, status) in [
            (died, true, 502),
            (AttemptFailure::Gone, true, 502),
            (died, false, 503),
            (AttemptFailure::Gone, false, 503),
            (AttemptFailure::Refused, true, 503),
            (AttemptFailure::ConnectFailed, false, 503),
            (AttemptFailure::Reset { sent_whole: true }, true, 502),
            (AttemptFailure::Status(504), true, 504),
        ] {
            assert_eq!(refusal(last, suspect, None).status(), status, "{last:?}, suspected: {suspect}");
        }
    }
}
