//! A short queue, in the engine and on the way to it.

use super::Candidate;
use crate::snapshot::requests;

/// 1 / (1 + `effective_waiting`).
pub(super) fn score(candidates: &mut [Candidate]) {
    for candidate in candidates {
        candidate.score = 1.0 / (1.0 + requests(candidate.waiting));
    }
}
