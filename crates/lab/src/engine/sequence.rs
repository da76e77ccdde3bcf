//! One request while it is at the replica.

use super::blocks::{BlockId, BlockPool};
use super::request::{Output, Request, RequestId};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestId,
    request: Request,
    submitted: Duration,
    admission: Option<Admission>,
    blocks: Vec<BlockId>,
    /// Leading blocks that have been offered to the prefix cache.
    published: usize,
    /// Tokens whose KV is in `blocks`.
    computed: u32,
    generated: u32,
    /// Tokens that the step under way computes.
    pub(super) scheduled: u32,
}

/// The first time the request left the waiting queue; a pre-empted one keeps it.
#[derive(Clone, Copy, Debug)]
struct Admission {
    at: Duration,
    cached_tokens: u32,
}

impl Sequence {
    pub(super) fn new(id: RequestId, mut request: Request, submitted: Duration) -> Self {
        request.prompt_tokens = request.prompt_tokens.max(1);
        request.output_tokens = request.output_tokens.max(1);
        Self {
            id,
            request,
            submitted,
            admission: None,
            blocks: Vec::new(),
            published: 0,
            computed: 0,
            generated: 0,
            scheduled: 0,
        }
    }

    /// Tokens that exist: the prompt and what was generated.
    pub(super) fn known(&self) -> u32 {
        self.request.prompt_tokens.saturating_add(self.generated)
    }

    /// Tokens that must be computed before the next one can be sampled; 1 while decoding.
    pub(super) fn missing(&self) -> u32 {
        self.known() - self.computed
    }

    pub(super) fn computed(&self) -> u32 {
        self.computed
    }

    pub(super) fn prompt_tokens(&self) -> u32 {
        self.request.prompt_tokens
    }

    /// Past its first token and with only the last one missing.
    pub(super) fn is_decoding(&self) -> bool {
        self.generated > 0 && self.missing() == 1
    }

    pub(super) fn was_admitted(&self) -> bool {
        self.admission.is_some()
    }

    #[cfg(test)]
    pub(super) fn blocks(&self) -> &[BlockId] {
        &self.blocks
    }

    /// Hashes that the prefix cache may be asked for. At least one token must be computed to sample from, so the block
    /// with the last known token is never among them (as in vLLM).
    pub(super) fn cacheable(&self, block_tokens: u32) -> &[u64] {
        let whole = (self.known() - 1) / block_tokens;
        let end = self.request.block_hashes.len().min(whole as usize);
        self.request.block_hashes.get(..end).unwrap_or_default()
    }

    /// Leaves the waiting queue with these cached blocks, already held.
    pub(super) fn admit(&mut self, at: Duration, hits: Vec<BlockId>, block_tokens: u32) {
        self.computed = hits.len() as u32 * block_tokens;
        self.published = hits.len();
        self.blocks = hits;
        if self.admission.is_none() {
            self.admission = Some(Admission { at, cached_tokens: self.computed });
        }
    }

    pub(super) fn cached_tokens(&self) -> u32 {
        self.admission.map_or(0, |admission| admission.cached_tokens)
    }

    /// Puts `tokens` tokens into the step, with blocks for them. False, and nothing changed, where too few are free.
    /// Whole blocks are published at once, so that a request admitted to the same step can share them (as in vLLM).
    pub(super) fn schedule(&mut self, tokens: u32, block_tokens: u32, pool: &mut BlockPool) -> bool {
        let after = self.computed + tokens;
        let wanted = after.div_ceil(block_tokens).saturating_sub(self.blocks.len() as u32);
        if wanted > pool.free() {
            return false;
        }
        self.blocks.extend((0..wanted).map_while(|_| pool.take()));
        let whole = ((after / block_tokens) as usize).min(self.request.block_hashes.len());
        let full = self.blocks.iter().zip(&self.request.block_hashes).take(whole).skip(self.published);
        for (&block, &hash) in full {
            pool.publish(block, hash);
        }
        self.published = self.published.max(whole);
        self.scheduled = tokens;
        true
    }

    /// The step is over. A token, where all known ones are computed now.
    pub(super) fn complete(&mut self, at: Duration) -> Option<Output> {
        self.computed += self.scheduled;
        self.scheduled = 0;
        if self.missing() > 0 {
            return None;
        }
        self.generated += 1;
        let finish = (self.generated >= self.request.output_tokens).then_some(self.request.finish);
        Some(Output {
            id: self.id,
            at,
            generated: self.generated,
            cached_tokens: self.cached_tokens(),
            submitted: self.submitted,
            admitted: self.admission.map_or(self.submitted, |admission| admission.at),
            finish,
        })
    }

    /// Gives every block back, the last one first, so that the cache loses the ends of prefixes before their beginnings.
    /// What was generated is kept: a pre-empted request computes it again as if it were prompt.
    pub(super) fn release(&mut self, pool: &mut BlockPool) {
        while let Some(block) = self.blocks.pop() {
            pool.release(block);
        }
        (self.computed, self.published, self.scheduled) = (0, 0, 0);
    }
}
