//! Prefix-overlap cost, as the design of NVIDIA's Dynamo router publishes it: blocks to be prefilled there, those that are
//! queued included, plus blocks that would be decoded from; the lowest sum wins. The engines tell the router what
//! they cache (KV events), so it knows the caches as they are.

use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use sluicegate_core::Time;

/// How much a block to be prefilled counts against one to be decoded from: the published default.
const OVERLAP_WEIGHT: f64 = 1.0;

/// The cost of prefill and decode blocks.
#[derive(Clone, Debug)]
pub struct Overlap {
    block_tokens: u32,
}

impl Overlap {
    /// Blocks of so many tokens.
    #[must_use]
    pub fn new(block_tokens: u32) -> Self {
        Self { block_tokens: block_tokens.max(1) }
    }
}

impl Rival for Overlap {
    fn name(&self) -> &'static str {
        "overlap"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let prompt = ask.job.prompt_tokens;
        let block = f64::from(self.block_tokens);
        let costs = books.open_to(ask).filter_map(|(index, account)| {
            let known = ask.hosts.get(index)?.engine().cached_blocks(ask.prompt_blocks()) as u32;
            let cached = known.saturating_mul(self.block_tokens).min(prompt);
            let prefill = (account.prefill_tokens + u64::from(prompt - cached)) as f64 / block;
            let decode = (account.prompt_tokens + u64::from(prompt)) as f64 / block;
            Some((OVERLAP_WEIGHT * prefill + decode, Pick { replica: index, cached }))
        });
        costs.min_by(|(one, _), (other, _)| one.total_cmp(other)).map(|(_, pick)| pick)
    }
}
