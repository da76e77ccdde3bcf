//! The policies of mode `policy`, a file each. A policy gives every candidate a score of 0 or more, and its weight is
//! spread over them by these scores; one whose scores sum to 0 abstains.

mod decision_service;
mod kv_headroom;
mod least_inflight;
mod predicted_ttft;
mod prefix_cache;
mod queue_depth;
mod session_affinity;
#[cfg(test)]
mod tests;

use crate::choose::Branch;
use crate::ids::TargetIndex;
use crate::prng::mix;
pub use decision_service::Decision;

/// One policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// The replica that the session's hash names first, then second, ...
    SessionAffinity,
    /// Few own requests in flight.
    LeastInflight,
    /// The model that a decision service would take.
    DecisionService,
    /// A short queue, in the engine and on the way to it.
    QueueDepth,
    /// Much room in the KV cache.
    KvHeadroom,
    /// Much of the prompt known from earlier requests. Needs [`PoolSettings::predict`](crate::PoolSettings::predict).
    PrefixCache,
    /// An early first token, as predicted. Needs the same.
    PredictedTtft,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 7] = [
        Self::SessionAffinity,
        Self::LeastInflight,
        Self::DecisionService,
        Self::QueueDepth,
        Self::KvHeadroom,
        Self::PrefixCache,
        Self::PredictedTtft,
    ];

    /// Its stable name in configuration and explanations.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SessionAffinity => "session_affinity",
            Self::LeastInflight => "least_inflight",
            Self::DecisionService => "decision_service",
            Self::QueueDepth => "queue_depth",
            Self::KvHeadroom => "kv_headroom",
            Self::PrefixCache => "prefix_cache",
            Self::PredictedTtft => "predicted_ttft",
        }
    }

    /// The weight that it has unless another is configured.
    #[must_use]
    pub fn default_weight(self) -> f64 {
        match self {
            Self::DecisionService => 10.0,
            Self::SessionAffinity
            | Self::LeastInflight
            | Self::QueueDepth
            | Self::KvHeadroom
            | Self::PrefixCache
            | Self::PredictedTtft => 1.0,
        }
    }

    /// Scores every candidate; finite and 0 or more. All 0: it abstains.
    fn score(self, asked: &Asked<'_>, candidates: &mut [Candidate]) {
        match self {
            Self::SessionAffinity => session_affinity::score(asked, candidates),
            Self::LeastInflight => least_inflight::score(candidates),
            Self::DecisionService => decision_service::score(asked, candidates),
            Self::QueueDepth => queue_depth::score(candidates),
            Self::KvHeadroom => kv_headroom::score(candidates),
            Self::PrefixCache => prefix_cache::score(candidates),
            Self::PredictedTtft => predicted_ttft::score(candidates),
        }
    }
}

/// A route's policies with their weights: at least one, no weight below 0, not all 0, no policy twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Policies(Vec<(Policy, f64)>);

impl Policies {
    /// `None` where the list is not as the type says.
    #[must_use]
    pub fn new(weighted: Vec<(Policy, f64)>) -> Option<Self> {
        let sound = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        let twice = |(i, (policy, _)): (usize, &(Policy, f64))| {
            weighted.iter().take(i).any(|(earlier, _)| earlier == policy)
        };
        let weights = || weighted.iter().map(|(_, weight)| weight);
        let good = weights().all(sound)
            && weights().any(|weight| *weight > 0.0)
            && !weighted.iter().enumerate().any(twice);
        good.then_some(Self(weighted))
    }

    /// The policies with their weights.
    pub fn each(&self) -> impl Iterator<Item = (Policy, f64)> {
        self.0.iter().copied()
    }

    /// The configured weight of one policy; 0 where the route does not have it.
    #[must_use]
    pub fn weight(&self, policy: Policy) -> f64 {
        self.each().find(|(own, _)| *own == policy).map_or(0.0, |(_, weight)| weight)
    }

    /// One of them goes by what is predicted of the replicas: their pools' settings must ask for predictions.
    #[must_use]
    pub fn predict(&self) -> bool {
        let predicts = |policy| matches!(policy, Policy::PrefixCache | Policy::PredictedTtft);
        self.each().any(|(policy, weight)| weight > 0.0 && predicts(policy))
    }

    /// Gives every candidate its total. False where every policy abstains.
    pub(crate) fn add_up(&self, asked: &Asked<'_>, candidates: &mut [Candidate]) -> bool {
        candidates.iter_mut().for_each(|candidate| candidate.total = 0.0);
        let mut spoken = false;
        for (policy, weight) in self.each() {
            spoken |= add(policy, weight, asked, candidates);
        }
        spoken
    }
}

/// Adds one policy's part to every total, and leaves it as the candidates' score. False where it abstains.
pub(crate) fn add(policy: Policy, weight: f64, asked: &Asked<'_>, candidates: &mut [Candidate]) -> bool {
    let weight = match policy {
        Policy::DecisionService => weight * asked.decision.map_or(0.0, Decision::confidence),
        _ => weight,
    };
    policy.score(asked, candidates);
    let sum: f64 = candidates.iter().map(|candidate| candidate.score).sum();
    let speaks = sum > 0.0 && sum.is_finite() && weight > 0.0;
    for candidate in candidates {
        candidate.score = if speaks { weight * candidate.score / sum } else { 0.0 };
        candidate.total += candidate.score;
    }
    speaks
}

/// What of a request the policies read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked<'a> {
    /// Its session key.
    pub(crate) session: Option<u64>,
    pub(crate) decision: Option<&'a Decision>,
}

/// A replica under one target, as the policies see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) branch: usize,
    pub(crate) index: usize,
    pub(crate) target: TargetIndex,
    /// How long it is until its turn.
    pub(crate) distance: usize,
    /// For rendezvous hashing.
    identity: u64,
    inflight: u32,
    /// `effective_waiting`, in thousandths.
    waiting: u64,
    /// Used part of the KV cache, where the engine tells it.
    kv_used: Option<f32>,
    /// What is predicted of the request there, where anything is.
    pub(crate) foreseen: Option<Foreseen>,
    /// What the policy that is being asked says.
    pub(crate) score: f64,
    /// The sum of all policies' parts so far.
    pub(crate) total: f64,
}

/// What is predicted of a request at one replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseen {
    /// The part of the prompt that is in its cache, 0 to 1.
    pub(crate) known: f64,
    /// Seconds until the first token.
    pub(crate) ttft: f64,
}

/// The scores of those that `own` knows of; others are taken for average ones: neither sought nor shunned.
fn known_or_average(candidates: &mut [Candidate], own: impl Fn(&Candidate) -> Option<f64>) {
    let known = || candidates.iter().filter_map(&own);
    let (sum, count) = (known().sum::<f64>(), known().count());
    let average = if count == 0 { 0.0 } else { sum / count as f64 };
    for candidate in candidates {
        candidate.score = own(candidate).unwrap_or(average);
    }
}

impl Candidate {
    pub(crate) fn of(at: usize, branch: &Branch<'_>, index: usize, target: TargetIndex) -> Self {
        let row = &branch.view.board[index];
        // One replica may serve several models: each is a candidate of its own.
        let alone = branch.targets.len() == 1;
        Self {
            branch: at,
            index,
            target,
            distance: branch.distance(index),
            identity: if alone { row.identity } else { mix(row.identity ^ u64::from(target.0)) },
            inflight: row.inflight,
            waiting: row.waiting,
            kv_used: branch.view.replicas[index].load.engine().and_then(|engine| engine.kv_usage),
            foreseen: None,
            score: 0.0,
            total: 0.0,
        }
    }
}
