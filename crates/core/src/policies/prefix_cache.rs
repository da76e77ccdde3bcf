//! Much of the prompt known from earlier requests.

use super::Candidate;

/// The part of the prompt that the replica is taken to have in its cache. Where nobody knows any of it, it abstains.
pub(super) fn score(candidates: &mut [Candidate]) {
    for candidate in candidates {
        candidate.score = candidate.foreseen.map_or(0.0, |foreseen| foreseen.known);
    }
}
