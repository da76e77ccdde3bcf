//! Two by chance, of them the one with fewer requests: Mitzenmacher, "The Power of Two Choices in Randomized Load
//! Balancing", IEEE TPDS 12(10), 2001.

use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use crate::rng::SeededRng;
use sluicegate_core::Time;

/// The less loaded of two different replicas.
#[derive(Clone, Debug)]
pub struct PowerOfTwo {
    rng: SeededRng,
}

impl PowerOfTwo {
    /// Its choices follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: SeededRng::new(seed) }
    }
}

impl Rival for PowerOfTwo {
    fn name(&self) -> &'static str {
        "power_of_two"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let open = books.open_to(ask).count();
        let mut draw = |bound: usize| usize::try_from(self.rng.below(bound as u64)).unwrap_or(0);
        let first = draw(open);
        let second = (first + 1 + draw(open.saturating_sub(1))) % open.max(1);
        let (one, other) = (books.open_to(ask).nth(first)?, books.open_to(ask).nth(second)?);
        let (replica, _) = if other.1.inflight < one.1.inflight { other } else { one };
        Some(Pick::of(replica))
    }
}
