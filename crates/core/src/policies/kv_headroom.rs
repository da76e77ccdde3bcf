//! Much room in the KV cache.

use super::{Candidate, known_or_average};

/// The free part of the KV cache. An engine that does not tell it is taken for an average one; where none tells it, it
/// abstains.
pub(super) fn score(candidates: &mut [Candidate]) {
    known_or_average(candidates, |candidate| {
        let used = f64::from(candidate.kv_used?);
        used.is_finite().then(|| 1.0 - used.clamp(0.0, 1.0))
    });
}
