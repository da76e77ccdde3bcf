//! The approximate radix tree with thresholds, as the documentation of the SGLang and vLLM routers publishes it.
//!
//! While the fleet is in balance a request goes where the largest part of its prompt has been sent before, if that is more
//! than a threshold, else to the replica with the smallest tree. Out of balance it goes where the fewest requests are
//! open. The tree is over blocks here, over characters there.

use super::mirror::Mirror;
use super::{Books, Pick, Rival};
use crate::fleet::Ask;
use sluicegate_core::Time;

/// Part of a prompt that must be known at a replica.
const CACHE_THRESHOLD: f64 = 0.3;
/// Out of balance: the busiest has this many requests more than the idlest,
const BALANCE_ABS: u32 = 64;
/// and this many times as many.
const BALANCE_REL: f64 = 1.5;
/// Tokens a replica's tree remembers: 2^26 characters at four to the token.
const TREE_TOKENS: usize = (1 << 26) / 4;

/// A tree for each replica.
#[derive(Clone, Debug)]
pub struct CacheAware {
    trees: Vec<Mirror>,
    block_tokens: u32,
}

impl CacheAware {
    /// For so many replicas, prompts known in blocks of so many tokens.
    #[must_use]
    pub fn new(replicas: usize, block_tokens: u32) -> Self {
        let block_tokens = block_tokens.max(1);
        Self { trees: vec![Mirror::new(TREE_TOKENS / block_tokens as usize); replicas], block_tokens }
    }

    fn by_prefix(&self, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let open = || {
            books.open_to(ask).filter_map(|(index, account)| Some((index, account, self.trees.get(index)?)))
        };
        let matched = |tree: &Mirror| tree.matched(ask.prompt_blocks());
        let best = open()
            .map(|(index, _, tree)| (matched(tree), index))
            .max_by_key(|(blocks, index)| (*blocks, std::cmp::Reverse(*index)))?;
        let cached = (best.0 as u32).saturating_mul(self.block_tokens);
        if f64::from(cached) > CACHE_THRESHOLD * f64::from(ask.job.prompt_tokens) {
            return Some(Pick { replica: best.1, cached });
        }
        open()
            .min_by_key(|(_, account, tree)| (tree.len(), account.inflight))
            .map(|(index, ..)| Pick::of(index))
    }
}

impl Rival for CacheAware {
    fn name(&self) -> &'static str {
        "cache_aware"
    }

    fn choose(&mut self, _: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        let loads = || books.open_to(ask).map(|(_, account)| account.inflight);
        let (most, least) = (loads().max()?, loads().min()?);
        let unbalanced = most - least > BALANCE_ABS && f64::from(most) > BALANCE_REL * f64::from(least);
        let pick = if unbalanced {
            books.open_to(ask).min_by_key(|(_, account)| account.inflight).map(|(index, _)| Pick::of(index))
        } else {
            self.by_prefix(ask, books)
        }?;
        if let Some(tree) = self.trees.get_mut(pick.replica) {
            tree.note(ask.prompt_blocks());
        }
        Some(pick)
    }
}
