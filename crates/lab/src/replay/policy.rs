//! Policies by name.

use crate::engine::Profile;
use crate::fleet::{Choosing, Decider, Gateway, Settings};
use crate::rivals::{
    Bench, BoundedHash, CacheAware, Freshness, LeastConnections, LeastPrefill, Oracle, Overlap, PowerOfTwo,
    Product, Random, Rival, RoundRobin, Scorers, SessionHash,
};
use sluicegate_core::{AffinityMode, AffinitySettings, LoadSource, PoolSettings, WaitingCounts};
use std::str::FromStr;
use std::time::Duration;

/// A way to choose replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Each replica in turn.
    RoundRobin,
    /// Each with the same probability.
    Random,
    /// The fewest open requests.
    LeastConnections,
    /// The better of two by chance.
    PowerOfTwo,
    /// A session's own replica, whatever its load.
    SessionHash,
    /// A session's own replica within a bounded load.
    BoundedHash,
    /// The approximate radix tree with thresholds.
    CacheAware,
    /// The weighted sum of scores, metrics up to 3 s old.
    Scorers,
    /// The same with metrics of this moment.
    ScorersFresh,
    /// Prefill blocks plus decode blocks.
    Overlap,
    /// Prefill tokens times requests.
    Product,
    /// The least prefill without a first byte.
    LeastPrefill,
    /// Our mode `adaptive`.
    Adaptive,
    /// The same with the literal published form of waiting.
    AdaptiveWeight,
    /// `adaptive` with known slots and our queue.
    AdaptiveSlots,
    /// The weight form with known slots and our queue.
    AdaptiveWeightSlots,
    /// `adaptive` with consistent hashing in the place of pins.
    Consistent,
    /// The same by the engines' numbers, for gateways that share nothing.
    ConsistentEngine,
    /// `adaptive` with neither.
    AdaptiveNoPins,
    /// Our mode `predictive`.
    Predictive,
    /// `predictive` with known slots and our queue.
    PredictiveSlots,
    /// `predictive` with late binding, slots unknown.
    PredictiveHold,
    /// The bar: predicted cost with exact knowledge.
    Oracle,
}

/// What some policies go by.
#[derive(Clone, Copy, Debug)]
pub struct Given {
    /// What `*-slots` takes for known.
    pub slots: u32,
    /// What `predictive-hold` holds requests back for.
    pub hold: Duration,
}

impl Given {
    /// As many slots as the engine runs requests at once, and a tenth of a second.
    #[must_use]
    pub fn of(profile: &Profile) -> Self {
        Self { slots: profile.max_num_seqs, hold: Duration::from_millis(100) }
    }
}

/// No policy has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no policy is named {0:?}")]
pub struct UnknownPolicy(String);

impl Policy {
    /// All of them, rivals first, the bar last.
    pub const ALL: [Self; 23] = [
        Self::RoundRobin,
        Self::Random,
        Self::LeastConnections,
        Self::PowerOfTwo,
        Self::SessionHash,
        Self::BoundedHash,
        Self::CacheAware,
        Self::Scorers,
        Self::ScorersFresh,
        Self::Overlap,
        Self::Product,
        Self::LeastPrefill,
        Self::Adaptive,
        Self::AdaptiveWeight,
        Self::AdaptiveSlots,
        Self::AdaptiveWeightSlots,
        Self::AdaptiveNoPins,
        Self::Consistent,
        Self::ConsistentEngine,
        Self::Predictive,
        Self::PredictiveSlots,
        Self::PredictiveHold,
        Self::Oracle,
    ];

    /// Its name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::LeastConnections => "least-connections",
            Self::PowerOfTwo => "power-of-two",
            Self::SessionHash => "session-hash",
            Self::BoundedHash => "bounded-hash",
            Self::CacheAware => "cache-aware",
            Self::Scorers => "scorers",
            Self::ScorersFresh => "scorers-fresh",
            Self::Overlap => "overlap",
            Self::Product => "product",
            Self::LeastPrefill => "least-prefill",
            Self::Adaptive => "adaptive",
            Self::AdaptiveWeight => "adaptive-weight",
            Self::AdaptiveSlots => "adaptive-slots",
            Self::AdaptiveWeightSlots => "adaptive-weight-slots",
            Self::AdaptiveNoPins => "adaptive-no-pins",
            Self::Consistent => "consistent",
            Self::ConsistentEngine => "consistent-engine",
            Self::Predictive => "predictive",
            Self::PredictiveSlots => "predictive-slots",
            Self::PredictiveHold => "predictive-hold",
            Self::Oracle => "oracle",
        }
    }

    /// The policy in front of these replicas.
    #[must_use]
    pub fn decider(self, settings: &Settings, given: Given, seed: u64) -> Box<dyn Decider + Send> {
        let Given { slots, hold } = given;
        let (n, profile) = (settings.replicas, &settings.profile);
        let (blocks, block_tokens) = (profile.kv_blocks, profile.block_tokens);
        let ours = |pool: PoolSettings, slots| -> Box<dyn Decider + Send> {
            Box::new(Gateway::new(pool, settings, slots, seed))
        };
        let weight = || PoolSettings { waiting_counts: WaitingCounts::Weight, ..PoolSettings::default() };
        let predict = || PoolSettings { predict: true, ..PoolSettings::default() };
        let affinity = |mode| PoolSettings {
            affinity: AffinitySettings { mode, ..AffinitySettings::default() },
            ..PoolSettings::default()
        };
        match self {
            Self::RoundRobin => bench(RoundRobin::default(), n),
            Self::Random => bench(Random::new(seed), n),
            Self::LeastConnections => bench(LeastConnections::default(), n),
            Self::PowerOfTwo => bench(PowerOfTwo::new(seed), n),
            Self::SessionHash => bench(SessionHash::default(), n),
            Self::BoundedHash => bench(BoundedHash::new(n), n),
            Self::CacheAware => bench(CacheAware::new(n, block_tokens), n),
            Self::Scorers => bench(Scorers::new(n, blocks, block_tokens, Freshness::Scraped, seed), n),
            Self::ScorersFresh => bench(Scorers::new(n, blocks, block_tokens, Freshness::Fresh, seed), n),
            Self::Overlap => bench(Overlap::new(block_tokens), n),
            Self::Product => bench(Product::new(n, blocks, block_tokens), n),
            Self::LeastPrefill => bench(LeastPrefill::default(), n),
            Self::Adaptive => ours(PoolSettings::default(), None),
            Self::AdaptiveWeight => ours(weight(), None),
            Self::AdaptiveSlots => ours(PoolSettings::default(), Some(slots)),
            Self::AdaptiveWeightSlots => ours(weight(), Some(slots)),
            Self::AdaptiveNoPins => ours(affinity(AffinityMode::Off), None),
            Self::Consistent => ours(affinity(AffinityMode::Consistent), None),
            Self::ConsistentEngine => {
                let load_source = LoadSource::Engine;
                ours(PoolSettings { load_source, ..affinity(AffinityMode::Consistent) }, None)
            }
            Self::Predictive => ours(predict(), None),
            Self::PredictiveSlots => ours(predict(), Some(slots)),
            Self::PredictiveHold => {
                let choosing = Choosing::Predictive { hold: Some(hold) };
                Box::new(Gateway::new(predict(), settings, None, seed).with_mode(&choosing))
            }
            Self::Oracle => bench(Oracle::default(), n),
        }
    }
}

fn bench(rival: impl Rival + Send + 'static, replicas: usize) -> Box<dyn Decider + Send> {
    Box::new(Bench::new(rival, replicas))
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        Self::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| UnknownPolicy(name.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name() {
        for policy in Policy::ALL {
            assert_eq!(policy.name().parse(), Ok(policy));
        }
        assert!("adaptiv".parse::<Policy>().is_err());
    }
}
