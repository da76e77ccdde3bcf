//! Few own requests in flight.

use super::Candidate;

/// 1 / (1 + in flight).
pub(super) fn score(candidates: &mut [Candidate]) {
    for candidate in candidates {
        candidate.score = 1.0 / (1.0 + f64::from(candidate.inflight));
    }
}
