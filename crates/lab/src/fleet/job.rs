//! What comes in: requests, decided beforehand.

use sluicegate_core::{KeyIndex, RouteIndex, Session, Time};
use std::sync::Arc;
use std::time::Duration;

/// A request's place in its run: an index in order of submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

impl JobId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }
}

/// One request of a client.
#[derive(Clone, Debug)]
pub struct Job {
    /// When it arrives, complete.
    pub arrives: Time,
    /// Tokens of its prompt.
    pub prompt_tokens: u32,
    /// Tokens of its answer.
    pub output_tokens: u32,
    /// Chained hashes of the leading whole blocks of prompt and answer, in the block size of
    /// [`Settings::block_tokens`](super::Settings::block_tokens): see
    /// [`engine::Request::block_hashes`](crate::engine::Request::block_hashes).
    pub blocks: Arc<[u64]>,
    /// Its session, where a source names one.
    pub session: Option<Session>,
    /// Hash of its system prompt's head, where it has one.
    pub prefix: Option<u64>,
    /// Who asks.
    pub key: KeyIndex,
    /// The key's class in queues: higher goes first.
    pub priority: i32,
    /// The route that its model selects, by its place among the gateway's.
    pub route: RouteIndex,
    /// Whether the answer is a stream; else its first byte comes with its last.
    pub stream: bool,
    /// How long after its arrival the client leaves, if it has no whole answer by then.
    pub patience: Option<Duration>,
    /// What it does to every replica that takes it.
    pub poison: Option<Poison>,
    /// What identical requests have in common, for the poison guard; `None`: no other is like it.
    pub fingerprint: Option<u64>,
}

impl Job {
    /// A streamed request that shares nothing with any other.
    #[must_use]
    pub fn unique(arrives: Time, prompt_tokens: u32, output_tokens: u32) -> Self {
        Self {
            arrives,
            prompt_tokens,
            output_tokens,
            blocks: Arc::from([]),
            session: None,
            prefix: None,
            key: KeyIndex(0),
            priority: 0,
            route: RouteIndex(0),
            stream: true,
            patience: None,
            poison: None,
            fingerprint: None,
        }
    }
}

/// A request that fails every replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// It is answered with this status.
    Status(u16),
    /// It ends the replica's process, which is back with an empty cache after this time.
    Crash(Duration),
}
