//! Always the same replica for a session, whatever its load: rendezvous hashing (Thaler and Ravishankar, IEEE/ACM
//! Transactions on Networking 6(1), 1998).

use super::{Books, Pick, Rival, RoundRobin, session_key};
use crate::fleet::Ask;
use crate::rng::mix;
use sluicegate_core::Time;

/// The session's replica; each in turn for requests without a session.
#[derive(Clone, Debug, Default)]
pub struct SessionHash {
    others: RoundRobin,
}

impl Rival for SessionHash {
    fn name(&self) -> &'static str {
        "session_hash"
    }

    fn choose(&mut self, now: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let Some(key) = session_key(ask) else { return self.others.choose(now, ask, books) };
        let rank = |index: usize| mix(key ^ mix(index as u64));
        books.open_to(ask).max_by_key(|(index, _)| rank(*index)).map(|(replica, _)| Pick::of(replica))
    }
}
