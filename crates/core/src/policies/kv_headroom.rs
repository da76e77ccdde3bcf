//! Much room in the KV cache.

use super::Candidate;

/// The free part of the KV cache. An engine that does not tell it is taken for an average one of those that do: it is
/// neither sought nor shunned. Where none tells it abstains.
pub(super) fn score(candidates: &mut [Candidate]) {
    let free = |candidate: &Candidate| {
        let used = f64::from(candidate.kv_used?);
        used.is_finite().then(|| 1.0 - used.clamp(0.0, 1.0))
    };
    let known = || candidates.iter().filter_map(free);
    let (sum, count) = (known().sum::<f64>(), known().count());
    let average = if count == 0 { 0.0 } else { sum / count as f64 };
    for candidate in candidates {
        candidate.score = free(candidate).unwrap_or(average);
    }
}
