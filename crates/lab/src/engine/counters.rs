//! What a replica tells about itself.

/// Gauges and running totals, with the meaning of vLLM's metrics of like names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests in the batch.
    pub running: u32,
    /// Requests in the queue, pre-empted ones included.
    pub waiting: u32,
    /// KV blocks that running requests hold; cached blocks nobody holds are free.
    pub kv_blocks_used: u32,
    /// KV blocks of the replica.
    pub kv_blocks: u32,
    /// Prompt tokens of requests whose prefill is complete, cached ones included.
    pub prompt_tokens: u64,
    /// Those of them that came from the prefix cache.
    pub prompt_tokens_cached: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Prompt tokens looked up in the prefix cache, once per request.
    pub prefix_queries: u64,
    /// Those of them that were found.
    pub prefix_hits: u64,
    /// Requests that ended with `FinishReason::Stop`.
    pub finished_stop: u64,
    /// Requests that ended with `FinishReason::Length`.
    pub finished_length: u64,
    /// Requests whose caller aborted them. vLLM counts a client that left nowhere.
    pub aborted: u64,
    /// Requests refused because too many were in flight.
    pub refused: u64,
    /// Requests thrown out of the batch for want of blocks, to be computed again.
    pub preemptions: u64,
    /// Steps begun.
    pub steps: u64,
    /// Tokens computed by all steps, recomputation included.
    pub step_tokens: u64,
}

impl Counters {
    /// The part of KV blocks in use, 0 to 1.
    #[must_use]
    pub fn kv_usage(&self) -> f64 {
        if self.kv_blocks == 0 { 0.0 } else { f64::from(self.kv_blocks_used) / f64::from(self.kv_blocks) }
    }
}
