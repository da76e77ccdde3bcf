//! An early first token.

use super::{Candidate, known_or_average};

/// Times below this, in seconds, are the same: nobody feels them.
const LEAST: f64 = 0.02;

/// 1 / predicted time to first token: half the time is twice the share. A replica of which nothing is predicted is
/// taken for an average one; where nothing is predicted of any, it abstains.
pub(super) fn score(candidates: &mut [Candidate]) {
    known_or_average(candidates, |candidate| {
        candidate.foreseen.map(|foreseen| 1.0 / foreseen.ttft.max(LEAST))
    });
}
