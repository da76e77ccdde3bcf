//! The modes that a promise is to hold for, and the rules that can be switched off to see a promise broken.

use super::spec::FleetSpec;
use crate::engine::Profile;
use crate::fleet::{Choosing, Gateway, Settings};
use serde::Deserialize;
use sluicegate_core::{AffinityMode, PoolSettings, QueueLimits};
use std::time::Duration;

/// A way to choose replicas, as the promises name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Chooser {
    /// Mode `adaptive`, with pins.
    Adaptive,
    /// Mode `predictive`.
    Predictive,
    /// Mode `adaptive` with consistent hashing in the place of pins.
    Consistent,
}

impl Chooser {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Adaptive, Self::Predictive, Self::Consistent];

    /// Its name in files, flags and tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Predictive => "predictive",
            Self::Consistent => "consistent",
        }
    }
}

/// A rule that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// What is warm is followed.
    Affinity,
    /// Loads and costs decide; without it the replicas take turns.
    Load,
    /// A pin gives way to load.
    Yielding,
    /// A large request weighs more than a small one.
    Weights,
    /// A cooldown is longer each time.
    Cooldown,
    /// A replica returns on trial first.
    Probing,
    /// Pins die of age.
    PinLifetime,
    /// A failed request is tried elsewhere.
    Retries,
    /// What failed two replicas is refused.
    PoisonGuard,
    /// Keys take turns in the queue.
    Fairness,
}

impl Rule {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Affinity,
        Self::Load,
        Self::Yielding,
        Self::Weights,
        Self::Cooldown,
        Self::Probing,
        Self::PinLifetime,
        Self::Retries,
        Self::PoisonGuard,
        Self::Fairness,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Affinity => "affinity",
            Self::Load => "load",
            Self::Yielding => "yielding",
            Self::Weights => "weights",
            Self::Cooldown => "cooldown",
            Self::Probing => "probing",
            Self::PinLifetime => "pin-lifetime",
            Self::Retries => "retries",
            Self::PoisonGuard => "poison-guard",
            Self::Fairness => "fairness",
        }
    }
}

/// Longer than any scenario.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The fleet's settings, with one rule off where one is given.
pub(super) fn fleet_settings(spec: &FleetSpec, off: Option<Rule>, seed: u64) -> Settings {
    let mut profile = Profile::named(&spec.profile).unwrap_or_default();
    profile.max_num_seqs = spec.max_num_seqs.unwrap_or(profile.max_num_seqs);
    let mut settings = Settings { replicas: spec.replicas, profile, seed, ..Settings::default() };
    match off {
        Some(Rule::Retries) => settings.limits.retry.attempts = 1,
        Some(Rule::PoisonGuard) => settings.limits.poison_ttl = Duration::ZERO,
        _ => {}
    }
    settings
}

/// The gateway in front of them.
pub(super) fn gateway(
    chooser: Chooser,
    spec: &FleetSpec,
    settings: &Settings,
    off: Option<Rule>,
    seed: u64,
) -> Gateway {
    let mut pool = PoolSettings { predict: chooser == Chooser::Predictive, ..PoolSettings::default() };
    if chooser == Chooser::Consistent {
        pool.affinity.mode = AffinityMode::Consistent;
    }
    match off {
        Some(Rule::Affinity) => pool.affinity.mode = AffinityMode::Off,
        Some(Rule::Yielding) => {
            (pool.affinity.session_slack, pool.affinity.prefix_slack) = (u32::MAX / 2, u32::MAX / 2);
            pool.affinity.force_rebind_gap = u32::MAX / 2;
            pool.affinity.rebind_after_spills = u32::MAX;
        }
        Some(Rule::Cooldown) => pool.health.cooldown_max = pool.health.cooldown,
        Some(Rule::Probing) => pool.health.probing_window = Duration::ZERO,
        Some(Rule::PinLifetime) => {
            (pool.affinity.session_ttl, pool.affinity.prefix_ttl) = (FOREVER, FOREVER);
        }
        _ => {}
    }
    let limits = QueueLimits { max_length: spec.queue_length, max_wait: spec.queue_wait.0 };
    let gateway = Gateway::new(pool, settings, spec.slots, seed).with_queue(limits);
    if off == Some(Rule::Load) { gateway.with_mode(&Choosing::RoundRobin) } else { gateway }
}
