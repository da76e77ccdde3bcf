//! A route with several pools on a clock that the test turns.

use crate::bench::{Bench, request, seconds};
use sluicegate_core::*;

pub(crate) struct LanesBench {
    pub(crate) pools: Vec<Bench>,
    /// The targets of each pool.
    targets: Vec<Vec<TargetIndex>>,
    pub(crate) turns: Turns,
}

impl LanesBench {
    /// A pool of so many LIVE replicas for each target.
    pub(crate) fn live(sizes: &[usize]) -> Self {
        Self::with(sizes, &PoolSettings::default())
    }

    pub(crate) fn with(sizes: &[usize], settings: &PoolSettings) -> Self {
        Self {
            pools: sizes.iter().map(|n| Bench::live(*n, settings.clone())).collect(),
            targets: (0..sizes.len() as u32).map(|target| vec![TargetIndex(target)]).collect(),
            turns: Turns::default(),
        }
    }

    /// One pool of `n` LIVE replicas that serves several targets.
    pub(crate) fn shared(n: usize, targets: u32) -> Self {
        let mut bench = Self::live(&[n]);
        bench.targets = vec![(0..targets).map(TargetIndex).collect()];
        bench
    }

    pub(crate) fn now(&self) -> Time {
        self.pools[0].now
    }

    pub(crate) fn lanes<'b>(
        pools: &'b mut [Bench],
        targets: &'b [Vec<TargetIndex>],
        request: PickRequest<'b>,
        tried: &'b [Vec<ReplicaId>],
    ) -> Vec<Lane<'b, 'b>> {
        let tried = |at: usize| tried.get(at).map_or(&[][..], Vec::as_slice);
        pools
            .iter_mut()
            .zip(targets)
            .enumerate()
            .map(|(at, (bench, targets))| Lane {
                pool: &mut bench.pool,
                request: PickRequest { tried: tried(at), ..request },
                targets,
            })
            .collect()
    }

    pub(crate) fn try_pick(
        &mut self,
        request: PickRequest<'_>,
        tried: &[Vec<ReplicaId>],
        aim: &mut Option<TargetIndex>,
    ) -> Result<Placed, NoReplica> {
        let now = self.now();
        let mut lanes = Self::lanes(&mut self.pools, &self.targets, request, tried);
        self.turns.pick(now, &mut lanes, aim)
    }

    pub(crate) fn pick(&mut self, request: PickRequest<'_>) -> Placed {
        self.try_pick(request, &[], &mut None).expect("somebody can serve")
    }

    pub(crate) fn admit(&mut self, request: PickRequest<'_>, waiting: Waiting) -> Entry {
        let now = self.now();
        let mut lanes = Self::lanes(&mut self.pools, &self.targets, request, &[]);
        self.turns.admit(now, &mut lanes, &mut None, waiting)
    }

    pub(crate) fn explain(&mut self, request: PickRequest<'_>) -> Explanation {
        let now = self.now();
        let lanes = Self::lanes(&mut self.pools, &self.targets, request, &[]);
        self.turns.explain(now, &lanes, None)
    }

    /// Picks, answers and ends well: pool, replica, reason.
    pub(crate) fn turn(&mut self, request: PickRequest<'_>) -> (usize, u32, Reason) {
        let mut placed = self.pick(request);
        let at = (placed.lane, placed.picked.replica.0, placed.picked.reason);
        let bench = &mut self.pools[placed.lane];
        bench.pool.answered(bench.now, &mut placed.picked.lease);
        bench.end(placed.picked.lease, Verdict::Success);
        at
    }

    pub(crate) fn end(&mut self, placed: Placed) {
        self.pools[placed.lane].end(placed.picked.lease, Verdict::Success);
    }

    pub(crate) fn pass(&mut self, secs: u64) {
        self.pools.iter_mut().for_each(|bench| bench.now = bench.now + seconds(secs));
    }
}

pub(crate) fn in_mode(mode: Mode<'_>) -> PickRequest<'_> {
    PickRequest { mode, ..request() }
}
