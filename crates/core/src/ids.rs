//! Identities and small values that cross the boundary of the core.

/// A replica of a pool: a number in order of arrival, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u32);

impl ReplicaId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// An API key's place in the configuration, stable across reloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyIndex(pub u32);

/// A route's place in the configuration, stable across reloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteIndex(pub u32);

/// A target's place in its route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetIndex(pub u32);

impl TargetIndex {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A model name, interned by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelId(pub u32);

/// What a request weighs, in thousandths of a request: integers, so that sums return to exactly zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Weight(pub u64);

impl Weight {
    /// `max(1, tokens / 1000)` requests, as thousandths: one token of prompt is one thousandth, 1000 the least.
    #[must_use]
    pub fn from_prompt_tokens(tokens: u64) -> Self {
        Self(tokens.max(1000))
    }
}

/// The session key of a request, hashed by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Session {
    /// From a header or body field the client sent.
    Explicit(u64),
    /// `auto:conversation`: derived from the talk's beginning, so followed with slack 0.
    Conversation {
        /// Hash of the system prompt's head and the first user message.
        hash: u64,
        /// The body already holds an assistant turn. A first turn makes the pin and never follows one.
        continued: bool,
    },
}

impl Session {
    pub(crate) fn key(self) -> u64 {
        match self {
            Self::Explicit(hash) | Self::Conversation { hash, .. } => hash,
        }
    }
}

/// Which models a replica serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Whatever the pool serves.
    All,
    /// Only these.
    Only(Vec<ModelId>),
}

impl Serves {
    pub(crate) fn serves(&self, model: Option<ModelId>) -> bool {
        match (self, model) {
            (Self::All, _) | (_, None) => true,
            (Self::Only(models), Some(model)) => models.contains(&model),
        }
    }
}
