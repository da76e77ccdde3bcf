//! What a run is made of besides its requests.

use crate::engine::{Profile, common_block_tokens};
use sluicegate_core::RetrySettings;
use std::time::Duration;

/// The fleet and the gateway's limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many replicas there are at the start.
    pub replicas: usize,
    /// What each can do.
    pub profile: Profile,
    /// Where replicas differ: what each of the first ones can do; the others have `profile`.
    pub profiles: Vec<Profile>,
    /// So many of the replicas, the first ones, take `slowness` times as long for everything.
    pub slow_replicas: usize,
    /// See `slow_replicas`.
    pub slowness: f64,
    /// From the start of a scrape, when the engine takes its numbers, to its answer. Refused ones come back as fast.
    pub scrape_delay: Duration,
    /// When a scrape or a canary without an answer is given up.
    pub scrape_timeout: Duration,
    /// What requests are held to.
    pub limits: Limits,
    /// Where routes differ: what the requests of each of the first ones are held to; those of others to `limits`.
    pub routes: Vec<Limits>,
    /// Decides which requests a fault befalls that is not for all.
    pub seed: u64,
}

/// What the requests of a route are held to.
#[derive(Clone, Debug)]
pub struct Limits {
    /// When a connection that is neither made nor refused is given up.
    pub connect_timeout: Duration,
    /// How long a stream may be silent after its first byte.
    pub silence: Duration,
    /// How long a request may take from its arrival, whatever it does.
    pub total: Duration,
    /// Which failures are tried again, and how often.
    pub retry: RetrySettings,
    /// How long a suspect request is refused.
    pub poison_ttl: Duration,
    /// Whether there is a fallback, and what for.
    pub fallback: Option<Fallback>,
}

/// What a fallback is asked for, besides for requests that no target can take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fallback {
    /// Instead of an answer from 400 to 499.
    pub on_4xx: bool,
    /// Instead of an answer from 500 to 599.
    pub on_5xx: bool,
}

impl Fallback {
    pub(super) fn is_on(self, status: u16) -> bool {
        match status {
            400..=499 => self.on_4xx,
            500..=599 => self.on_5xx,
            _ => false,
        }
    }
}

impl Settings {
    /// What the replica of that index can do.
    #[must_use]
    pub fn profile_of(&self, replica: usize) -> Profile {
        let mut profile = self.profiles.get(replica).unwrap_or(&self.profile).clone();
        if replica < self.slow_replicas {
            profile.cost = profile.cost.slowed(self.slowness);
        }
        profile
    }

    /// Tokens in one of [`Job::blocks`](super::Job::blocks): the most that fit into the blocks of every replica without
    /// a rest.
    #[must_use]
    pub fn block_tokens(&self) -> u32 {
        let own = self.profiles.get(..self.replicas).unwrap_or(&self.profiles);
        let others = (own.len() < self.replicas || own.is_empty()).then_some(&self.profile);
        common_block_tokens(own.iter().chain(others))
    }
}

impl Default for Settings {
    /// The gateway's defaults, in front of four replicas.
    fn default() -> Self {
        Self {
            replicas: 4,
            profile: Profile::default(),
            profiles: Vec::new(),
            slow_replicas: 0,
            slowness: 1.0,
            scrape_delay: Duration::from_millis(10),
            scrape_timeout: Duration::from_secs(2),
            limits: Limits::default(),
            routes: Vec::new(),
            seed: 1,
        }
    }
}

impl Default for Limits {
    /// The gateway's defaults.
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            silence: Duration::from_secs(60),
            total: Duration::from_secs(600),
            retry: RetrySettings::default(),
            poison_ttl: Duration::from_secs(60),
            fallback: None,
        }
    }
}
