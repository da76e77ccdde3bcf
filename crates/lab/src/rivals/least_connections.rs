//! Where the fewest requests are open.

use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use sluicegate_core::Time;

/// The replica with the fewest own open requests; of several, the next in turn.
#[derive(Clone, Debug, Default)]
pub struct LeastConnections {
    turn: usize,
}

impl Rival for LeastConnections {
    fn name(&self) -> &'static str {
        "least_connections"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let n = books.replicas().max(1);
        let from = self.turn;
        let (replica, _) =
            books.open_to(ask).min_by_key(|(index, account)| (account.inflight, (index + n - from) % n))?;
        self.turn = (replica + 1) % n;
        Some(Pick::of(replica))
    }
}
