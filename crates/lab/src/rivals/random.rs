//! Any, by chance.

use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use crate::rng::SeededRng;
use sluicegate_core::Time;

/// Each replica with the same probability.
#[derive(Clone, Debug)]
pub struct Random {
    rng: SeededRng,
}

impl Random {
    /// Its choices follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rng: SeededRng::new(seed) }
    }
}

impl Rival for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let open = books.open_to(ask).count() as u64;
        let at = usize::try_from(self.rng.below(open)).unwrap_or(0);
        books.open_to(ask).nth(at).map(|(replica, _)| Pick::of(replica))
    }
}
