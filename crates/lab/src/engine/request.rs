//! What goes into a replica and what comes out.

use std::time::Duration;

/// A request's name, chosen by the caller; unique among those in flight at one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// How a request ended by itself. A request that its caller aborts ends without a reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model ended its answer.
    Stop,
    /// The answer reached its token limit.
    Length,
}

/// One request, its outcome decided beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Tokens of the prompt; 0 counts as 1.
    pub prompt_tokens: u32,
    /// Tokens of the answer; 0 counts as 1.
    pub output_tokens: u32,
    /// How it is to end after `output_tokens`.
    pub finish: FinishReason,
    /// Chained hashes of the leading whole blocks of prompt and answer together: equal hashes mean an equal whole
    /// prefix. May be shorter than the request; blocks beyond are never found again. Hashes inside the answer let the
    /// next turn of a conversation find it.
    pub block_hashes: Vec<u64>,
}

impl Request {
    /// A request that shares nothing with any other.
    #[must_use]
    pub fn unique(prompt_tokens: u32, output_tokens: u32) -> Self {
        Self { prompt_tokens, output_tokens, finish: FinishReason::Length, block_hashes: Vec::new() }
    }
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests are in flight as `max_num_queued` allows.
    #[error("too many requests in flight")]
    QueueFull,
    /// Prompt and answer need more KV blocks than the replica has: it could never finish.
    #[error("the request needs {needed} KV blocks of {available}")]
    TooLarge {
        /// Blocks of prompt and answer together.
        needed: u32,
        /// Blocks of the replica.
        available: u32,
    },
    /// The id is in flight already.
    #[error("the request id is already in flight")]
    DuplicateId,
}

/// One generated token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The request.
    pub id: RequestId,
    /// When the token was there: the end of its step.
    pub at: Duration,
    /// Tokens generated so far, this one included; 1 is the first.
    pub generated: u32,
    /// Prompt tokens that the prefix cache supplied at the request's first admission, whole blocks.
    pub cached_tokens: u32,
    /// When the request was submitted.
    pub submitted: Duration,
    /// When it was first taken from the waiting queue.
    pub admitted: Duration,
    /// The last token carries how the request ended.
    pub finish: Option<FinishReason>,
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Tokens of the prompt and of the answer so far.
    pub known: u32,
    /// Those of them whose KV is computed; for one that waits, those that the cache would supply now.
    pub computed: u32,
    /// It is in the batch.
    pub running: bool,
    /// It is past its first token and in a step computes one token only.
    pub decoding: bool,
}
