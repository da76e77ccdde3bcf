//! One after the other.

use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use sluicegate_core::Time;

/// Each replica in turn.
#[derive(Clone, Debug, Default)]
pub struct RoundRobin {
    next: usize,
}

impl Rival for RoundRobin {
    fn name(&self) -> &'static str {
        "round_robin"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let n = books.replicas().max(1);
        let from = self.next;
        let (replica, _) = books.open_to(ask).min_by_key(|(index, _)| (index + n - from) % n)?;
        self.next = (replica + 1) % n;
        Some(Pick::of(replica))
    }
}
