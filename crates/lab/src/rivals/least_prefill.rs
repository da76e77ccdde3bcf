//! Where the least prefill waits. It knows no cache: every prompt counts whole until its first byte.

use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use sluicegate_core::Time;

/// The replica with the fewest prompt tokens that have no first byte yet; of several, the one with the fewest requests,
/// then the next in turn.
#[derive(Clone, Debug, Default)]
pub struct LeastPrefill {
    turn: usize,
}

impl Rival for LeastPrefill {
    fn name(&self) -> &'static str {
        "least_prefill"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let n = books.replicas().max(1);
        let from = self.turn;
        let (replica, _) = books.open_to(ask).min_by_key(|(index, account)| {
            (account.prefill_tokens, account.inflight, (index + n - from) % n)
        })?;
        self.turn = (replica + 1) % n;
        Some(Pick::of(replica))
    }
}
