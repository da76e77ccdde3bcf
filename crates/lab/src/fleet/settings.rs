//! What a run is made of besides its requests.

use crate::engine::Profile;
use sluicegate_core::RetrySettings;
use std::time::Duration;

/// The fleet and the gateway's limits.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many replicas there are at the start.
    pub replicas: usize,
    /// What each can do.
    pub profile: Profile,
    /// So many of the replicas, the first ones, take `slowness` times as long for everything.
    pub slow_replicas: usize,
    /// See `slow_replicas`.
    pub slowness: f64,
    /// From the start of a scrape, when the engine takes its numbers, to its answer. Refused ones come back as fast.
    pub scrape_delay: Duration,
    /// When a scrape or a canary without an answer is given up.
    pub scrape_timeout: Duration,
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
}

impl Settings {
    /// What the replica of that index can do.
    #[must_use]
    pub fn profile_of(&self, replica: usize) -> Profile {
        let mut profile = self.profile.clone();
        if replica < self.slow_replicas {
            profile.cost = profile.cost.slowed(self.slowness);
        }
        profile
    }
}

impl Default for Settings {
    /// The gateway's defaults, in front of four replicas.
    fn default() -> Self {
        Self {
            replicas: 4,
            profile: Profile::default(),
            slow_replicas: 0,
            slowness: 1.0,
            scrape_delay: Duration::from_millis(10),
            scrape_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            silence: Duration::from_secs(60),
            total: Duration::from_secs(600),
            retry: RetrySettings::default(),
            poison_ttl: Duration::from_secs(60),
        }
    }
}
