//! What a replica can do and how long it takes.

use std::time::Duration;

/// The limits and speed of one replica.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Tokens of one KV block; at least 1. vLLM on GPUs: 16.
    pub block_tokens: u32,
    /// KV blocks of the replica, shared by running requests and the prefix cache.
    pub kv_blocks: u32,
    /// Tokens of one step, decode and prefill together; at least 1 (vLLM's `--max-num-batched-tokens`).
    pub max_num_batched_tokens: u32,
    /// Requests of one step; at least 1 (vLLM's `--max-num-seqs`).
    pub max_num_seqs: u32,
    /// Requests in flight, running and waiting together, above which new ones are refused (vLLM's
    /// `--max-num-queued-reqs`, which counts both). `None`: no bound.
    pub max_num_queued: Option<u32>,
    /// How long a step takes.
    pub cost: StepCost,
}

/// The duration of a step: `base`, plus `size * prefill_ns_per_token + size * position * prefill_ns_per_token_position`
/// for each prefill chunk (`position`: the mean number of tokens before a token of the chunk), plus
/// `decode_ns_per_sequence + context * decode_ns_per_context_token` for each decoding request.
#[derive(Clone, Debug, PartialEq)]
pub struct StepCost {
    /// Every step pays this: reading the weights, launching, scheduling.
    pub base: Duration,
    /// Nanoseconds of one prefilled token, without attention.
    pub prefill_ns_per_token: f64,
    /// Nanoseconds that attention adds per prefilled token and token before it.
    pub prefill_ns_per_token_position: f64,
    /// Nanoseconds of one decoding request.
    pub decode_ns_per_sequence: f64,
    /// Nanoseconds that attention adds to a decoding request per token of its context.
    pub decode_ns_per_context_token: f64,
}

impl Profile {
    /// The names that [`Profile::named`] knows.
    pub const NAMES: [&str; 3] = ["8b", "h100", "fast"];

    /// The profile of that name, one of [`Profile::NAMES`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "8b" => Some(Self::gpu_8b()),
            "h100" => Some(Self::h100()),
            "fast" => Some(Self::fast()),
            _ => None,
        }
    }

    /// An 8B-class model in 16 bits on one 48 GB GPU with 0.8 TB/s: weights of 16 GB are read in 20 ms, one token's
    /// KV of 128 KiB in 160 ns, and what the weights leave free holds 192,000 tokens. Prefill runs at 10,000
    /// tokens/s for short prompts and at about 7,000 for ones of 20,000 tokens.
    #[must_use]
    pub fn gpu_8b() -> Self {
        Self {
            block_tokens: 16,
            kv_blocks: 12_000,
            max_num_batched_tokens: 2_048,
            max_num_seqs: 256,
            max_num_queued: None,
            cost: StepCost {
                base: Duration::from_millis(22),
                prefill_ns_per_token: 90_000.0,
                prefill_ns_per_token_position: 4.0,
                decode_ns_per_sequence: 150_000.0,
                decode_ns_per_context_token: 160.0,
            },
        }
    }

    /// An 8B-class model in 16 bits on one 80 GB GPU of the H100 class: 3.35 TB/s read the weights in 5 ms and one token's
    /// KV of 128 KiB in 40 ns, and 52 GB beside weights and activations hold 400,000 tokens. Prefill runs at 27,000
    /// tokens/s for short prompts and at about 22,500 for ones of 16,000 tokens. Of one step vLLM's default on
    /// such a GPU: 8,192 tokens.
    ///
    /// Blocks are of 512 tokens, as the hashes of recorded prompts are: thirty-two of vLLM's together. A request
    /// takes up half a block more on the mean, and is found in the cache in steps of 512 tokens.
    #[must_use]
    pub fn h100() -> Self {
        Self {
            block_tokens: 512,
            kv_blocks: 780,
            max_num_batched_tokens: 8_192,
            max_num_seqs: 256,
            max_num_queued: None,
            cost: StepCost {
                base: Duration::from_micros(7_000),
                prefill_ns_per_token: 37_000.0,
                prefill_ns_per_token_position: 0.9,
                decode_ns_per_sequence: 30_000.0,
                decode_ns_per_context_token: 45.0,
            },
        }
    }

    /// The same shape some hundred times faster: for tests, and for demonstrations that should not wait.
    #[must_use]
    pub fn fast() -> Self {
        Self {
            cost: StepCost {
                base: Duration::from_micros(200),
                prefill_ns_per_token: 400.0,
                prefill_ns_per_token_position: 0.02,
                decode_ns_per_sequence: 1_000.0,
                decode_ns_per_context_token: 1.0,
            },
            ..Self::gpu_8b()
        }
    }

    /// KV blocks that `tokens` tokens occupy.
    pub(super) fn blocks_of(&self, tokens: u32) -> u32 {
        tokens.div_ceil(self.block_tokens)
    }
}

/// Tokens of the largest blocks that fit into those of all of these without a rest; 1 where there are none.
#[must_use]
pub fn common_block_tokens<'p>(profiles: impl Iterator<Item = &'p Profile>) -> u32 {
    fn divisor(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { divisor(b, a % b) }
    }
    profiles.map(|profile| profile.block_tokens.max(1)).reduce(divisor).unwrap_or(1)
}

impl Default for Profile {
    fn default() -> Self {
        Self::gpu_8b()
    }
}

impl StepCost {
    /// Nanoseconds of prefilling `size` tokens behind `position` others.
    pub(crate) fn prefill_ns(&self, size: u32, position: u32) -> f64 {
        let (size, position) = (f64::from(size), f64::from(position));
        let mean_position = position + size / 2.0;
        size * self.prefill_ns_per_token + size * mean_position * self.prefill_ns_per_token_position
    }

    /// Nanoseconds of decoding one token behind `context` others.
    pub(crate) fn decode_ns(&self, context: u32) -> f64 {
        self.decode_ns_per_sequence + f64::from(context) * self.decode_ns_per_context_token
    }

    /// The same, each part taking `factor` times as long.
    #[must_use]
    pub fn slowed(&self, factor: f64) -> Self {
        Self {
            // A factor that makes no sense leaves the base as it is.
            base: Duration::try_from_secs_f64(self.base.as_secs_f64() * factor).unwrap_or(self.base),
            prefill_ns_per_token: self.prefill_ns_per_token * factor,
            prefill_ns_per_token_position: self.prefill_ns_per_token_position * factor,
            decode_ns_per_sequence: self.decode_ns_per_sequence * factor,
            decode_ns_per_context_token: self.decode_ns_per_context_token * factor,
        }
    }

    /// The whole step. Never zero, so that virtual time always moves.
    pub(super) fn step(&self, work_ns: f64) -> Duration {
        // The cast saturates and maps NaN to 0: a nonsensical profile is slow or instant, never a panic.
        (self.base + Duration::from_nanos(work_ns as u64)).max(Duration::from_nanos(1))
    }
}
