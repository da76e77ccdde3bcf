//! Consistent hashing with bounded loads: Mirrokni, Thorup and Zadimoghaddam, SODA 2018. A replica that has more than its
//! bounded share of the open requests is passed over for the next on the ring.

use super::{Books, Pick, Rival, session_key};
use crate::fleet::Ask;
use crate::rng::mix;
use sluicegate_core::Time;

/// Points of each replica on the ring.
const POINTS: u64 = 100;
/// A replica takes at most this many times the mean of open requests: 125 % is the usual choice.
const BOUND: f64 = 1.25;

/// The ring.
#[derive(Clone, Debug)]
pub struct BoundedHash {
    /// Points and their replicas, in order of points.
    ring: Vec<(u64, usize)>,
}

impl BoundedHash {
    /// For so many replicas.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        let points = |replica: usize| {
            (0..POINTS).map(move |point| (mix(mix(replica as u64).wrapping_add(point)), replica))
        };
        let mut ring: Vec<(u64, usize)> = (0..replicas).flat_map(points).collect();
        ring.sort_unstable();
        Self { ring }
    }
}

impl Rival for BoundedHash {
    fn name(&self) -> &'static str {
        "bounded_hash"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        // A request without a session is a session of its own.
        let key = mix(session_key(ask).unwrap_or_else(|| mix(u64::from(ask.id.0)) | 1));
        let mean = f64::from(books.inflight() + 1) / books.replicas().max(1) as f64;
        let most = (mean * BOUND).ceil() as u32;
        let has_room = |replica: usize| {
            books.open_to(ask).any(|(index, account)| index == replica && account.inflight < most)
        };
        let from = self.ring.partition_point(|(point, _)| *point < key);
        let (before, after) = self.ring.split_at(from);
        let found =
            after.iter().chain(before).map(|(_, replica)| *replica).find(|replica| has_room(*replica));
        found.or_else(|| books.open_to(ask).map(|(index, _)| index).next()).map(Pick::of)
    }
}
