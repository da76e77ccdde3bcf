//! Sessions of recorded requests that carry only hashes of their prompts.

use crate::rng::mix;
use sluicegate_core::Session;
use std::collections::HashMap;

/// A prompt must share so many whole blocks with the end of an earlier one to be its next turn: fewer may be a system
/// prompt that many talks share.
const LEAST_SHARED: usize = 2;

/// Hashes that stand for a whole prefix, made of ids that may stand for a block alone.
#[must_use]
pub fn chained(ids: &[u64]) -> Vec<u64> {
    let next = |hash: &mut u64, id: &u64| {
        *hash = mix(hash.wrapping_add(mix(*id ^ 0x5175_1ce6)));
        Some(*hash)
    };
    ids.iter().scan(0, next).collect()
}

/// Tells which prompt continues which: one whose beginning is the whole of an earlier one is that talk's next turn. The
/// session is then what `auto:conversation` makes of it in the gateway.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    /// The session of each prompt seen, by the chained hash of its last whole block.
    ends: HashMap<u64, u64>,
}

impl Sessions {
    /// The session of the next request in time, whose prompt has these chained hashes. `None` for a prompt that is too
    /// short to tell.
    pub fn of(&mut self, blocks: &[u64]) -> Option<Session> {
        let last = *blocks.get(LEAST_SHARED - 1..)?.last()?;
        let earlier =
            blocks.get(LEAST_SHARED - 1..)?.iter().rev().find_map(|end| self.ends.get(end).copied());
        let hash = earlier.unwrap_or(last);
        self.ends.insert(last, hash);
        Some(Session::Conversation { hash, continued: earlier.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_begins_with_a_whole_earlier_one_is_its_next_turn() {
        let mut sessions = Sessions::default();
        let mut of = |ids: &[u64]| match sessions.of(&chained(ids)) {
            Some(Session::Conversation { hash, continued }) => Some((hash, continued)),
            _ => None,
        };
        let (first, _) = of(&[0, 1, 2]).unwrap();
        assert_eq!(of(&[0, 1, 2, 3, 4]), Some((first, true)));
        assert_eq!(of(&[0, 1, 2, 3, 4, 5]), Some((first, true)));
        let (other, continued) = of(&[0, 1, 9]).unwrap();
        assert!(other != first && !continued, "it shares only a part");
        assert_eq!(of(&[0]), None);
        assert_ne!(chained(&[1, 2])[1], chained(&[3, 2])[1], "a hash stands for the whole prefix");
    }
}
