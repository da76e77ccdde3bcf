//! What a gateway is made of: pools, and the routes over them.

use sluicegate_core::{
    Lane, Mode, PickRequest, Policies, Pool, PoolSettings, QueueLimits, ReplicaId, Scoring, Shares,
    TargetIndex, Turns,
};
use std::time::Duration;

/// A mode of the core with what it goes by.
#[derive(Clone, Debug)]
pub enum Choosing {
    /// The five steps.
    Adaptive,
    /// The target by its share, then the five steps inside it.
    Weighted(Shares),
    /// The lowest predicted cost.
    Predictive {
        /// Late binding.
        hold: Option<Duration>,
    },
    /// One LIVE replica after the other.
    RoundRobin,
    /// The largest total of weighted scores; a decision service is not asked.
    Policy(Policies),
}

impl Choosing {
    fn mode(&self) -> Mode<'_> {
        match self {
            Self::Adaptive => Mode::Adaptive,
            Self::Weighted(shares) => Mode::Weighted(shares),
            Self::Predictive { .. } => Mode::Predictive,
            Self::RoundRobin => Mode::RoundRobin,
            Self::Policy(policies) => Mode::Policy(Scoring { policies, decision: None }),
        }
    }

    fn hold(&self) -> Option<Duration> {
        match self {
            Self::Predictive { hold } => *hold,
            Self::Adaptive | Self::Weighted(_) | Self::RoundRobin | Self::Policy(_) => None,
        }
    }
}

/// One pool of a gateway. Its replicas are the fleet's next ones.
#[derive(Clone, Debug)]
pub struct PoolPart {
    /// What the core is told of it.
    pub settings: PoolSettings,
    /// How many replicas it has.
    pub replicas: usize,
    /// The slots of each, where they are known.
    pub slots: Option<u32>,
    /// Whether they are scraped: a provider's API is not.
    pub scraped: bool,
}

/// One route of a gateway: what [`Job::route`](super::Job::route) counts.
#[derive(Clone, Debug)]
pub struct RoutePart {
    /// How a target and a replica are chosen.
    pub choosing: Choosing,
    /// The pool of each target, by its place among the gateway's; at least one.
    pub targets: Vec<usize>,
    /// The pool of its fallback.
    pub fallback: Option<usize>,
    /// The bounds of its requests that wait.
    pub queue: QueueLimits,
}

/// A replica among those of all pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) pool: usize,
    pub(super) id: ReplicaId,
}

/// A route as it is used.
#[derive(Debug)]
pub(super) struct Route {
    pub(super) choosing: Choosing,
    targets: Targets,
    /// One target, whose replicas are chosen by the five steps.
    fallback: Option<Targets>,
    pub(super) queue: QueueLimits,
}

impl Route {
    pub(super) fn new(part: RoutePart) -> Self {
        Self {
            choosing: part.choosing,
            targets: Targets::of(&part.targets),
            fallback: part.fallback.map(|pool| Targets::of(&[pool])),
            queue: part.queue,
        }
    }

    /// The targets of one way, and what the route says of each request that goes there.
    pub(super) fn way(&mut self, fallback: bool) -> Option<(&mut Targets, PickRequest<'_>)> {
        let (mode, hold) = (self.choosing.mode(), self.choosing.hold());
        match (&mut self.fallback, fallback) {
            (Some(targets), true) => Some((targets, PickRequest::default())),
            (None, true) => None,
            (other, false) => {
                let has_fallback = other.is_some();
                let request = PickRequest { mode, hold, has_fallback, ..PickRequest::default() };
                Some((&mut self.targets, request))
            }
        }
    }

    /// The pool of a lane that the core has named.
    pub(super) fn pool_of(&self, lane: usize, fallback: bool) -> Option<usize> {
        let targets = if fallback { self.fallback.as_ref()? } else { &self.targets };
        targets.lanes.get(lane).map(|lane| lane.pool)
    }
}

/// Targets that requests choose among.
#[derive(Debug)]
pub(super) struct Targets {
    /// Each pool once, in the pools' order.
    lanes: Vec<TargetLane>,
    turns: Turns,
}

#[derive(Debug)]
struct TargetLane {
    pool: usize,
    targets: Vec<TargetIndex>,
}

impl Targets {
    fn of(pools: &[usize]) -> Self {
        let mut lanes: Vec<TargetLane> = Vec::new();
        for (pool, target) in pools.iter().zip((0..).map(TargetIndex)) {
            match lanes.iter_mut().find(|lane| lane.pool == *pool) {
                Some(lane) => lane.targets.push(target),
                None => lanes.push(TargetLane { pool: *pool, targets: vec![target] }),
            }
        }
        lanes.sort_by_key(|lane| lane.pool);
        Self { lanes, turns: Turns::default() }
    }

    /// Runs `f` on the lanes of a request that has failed on `tried`.
    pub(super) fn enter<R>(
        &mut self,
        pools: &mut [Pool],
        request: &PickRequest<'_>,
        tried: &[Home],
        f: impl FnOnce(&mut Turns, &mut [Lane<'_, '_>]) -> R,
    ) -> R {
        let in_pool = |lane: &TargetLane| -> Vec<ReplicaId> {
            tried.iter().filter(|home| home.pool == lane.pool).map(|home| home.id).collect()
        };
        let tried: Vec<Vec<ReplicaId>> = self.lanes.iter().map(in_pool).collect();
        let mut wanted = self.lanes.iter().zip(&tried).peekable();
        let mut lanes = Vec::with_capacity(self.lanes.len());
        for (index, pool) in pools.iter_mut().enumerate() {
            if let Some((lane, tried)) = wanted.next_if(|(lane, _)| lane.pool == index) {
                lanes.push(Lane { pool, request: PickRequest { tried, ..*request }, targets: &lane.targets });
            }
        }
        f(&mut self.turns, &mut lanes)
    }
}

#[cfg(test)]
mod tests;
