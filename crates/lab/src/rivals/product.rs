//! Prefill times batch size: Zhang et al., "Simple is Better: Multiplication May Be All You Need for LLM Request
//! Scheduling" (LMetric), arXiv 2603.15202. Tokens to be prefilled there, those that are queued included, times
//! requests that would be open; the lowest product wins. Caches are guessed from what was sent.

use super::mirror::Mirror;
use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use sluicegate_core::Time;

/// The product of prefill tokens and requests.
#[derive(Clone, Debug)]
pub struct Product {
    caches: Vec<Mirror>,
    block_tokens: u32,
    turn: usize,
}

impl Product {
    /// For so many replicas whose caches hold `blocks` blocks of `block_tokens` tokens.
    #[must_use]
    pub fn new(replicas: usize, blocks: u32, block_tokens: u32) -> Self {
        Self { caches: vec![Mirror::new(blocks as usize); replicas], block_tokens, turn: 0 }
    }
}

impl Rival for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let (prompt, blocks) = (ask.job.prompt_tokens, ask.prompt_blocks());
        let (n, from) = (books.replicas().max(1), self.turn);
        let products = books.open_to(ask).filter_map(|(index, account)| {
            let known = self.caches.get(index)?.matched(blocks) as u32;
            let cached = known.saturating_mul(self.block_tokens).min(prompt);
            let tokens = account.prefill_tokens + u64::from(prompt - cached);
            let product = tokens * u64::from(account.inflight + 1);
            Some(((product, (index + n - from) % n), Pick { replica: index, cached }))
        });
        let (_, pick) = products.min_by_key(|(key, _)| *key)?;
        self.turn = (pick.replica + 1) % n;
        self.caches.get_mut(pick.replica)?.note(blocks);
        Some(pick)
    }
}
