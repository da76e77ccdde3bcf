//! The replica that the session's hash names first, then second, ...: no table, the same at every gateway.

use super::{Asked, Candidate};
use crate::rendezvous;

/// Ranks that have a score: 2^-64 of a share is lost in the last bit of any total.
const RANKS: usize = 64;

/// 2^-rank by the rendezvous hash of the session key. Without a key it abstains.
pub(super) fn score(asked: &Asked<'_>, candidates: &mut [Candidate]) {
    candidates.iter_mut().for_each(|candidate| candidate.score = 0.0);
    let Some(key) = asked.session else { return };
    let hash = |candidate: &Candidate| std::cmp::Reverse(rendezvous::score(key, candidate.identity));
    if candidates.len() > RANKS {
        candidates.select_nth_unstable_by_key(RANKS, hash);
    }
    let ranked = candidates.len().min(RANKS);
    let Some(first) = candidates.get_mut(..ranked) else { return };
    first.sort_unstable_by_key(hash);
    let mut score = 1.0;
    for candidate in first {
        candidate.score = score;
        score /= 2.0;
    }
}
