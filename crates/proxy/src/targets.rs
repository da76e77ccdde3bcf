//! The targets that a route's requests go to together: several pools as the decision core sees them, locked at once.

use std::sync::{Arc, Mutex, PoisonError};

use sluicegate_core::{
    Awaited, Decision, Entry, Explanation, Health, Lane, Mode, ModelId, NoReplica, PickRequest, Placed,
    Prompt, ReplicaId, Scoring, Session, Spell, TargetIndex, Turns, Verdict, Waiting, Weight,
};
use smallvec::SmallVec;

use crate::clock;
use crate::gateway::TargetName;
use crate::plan::{RouteMode, TargetPlan};
use crate::pool::{Admitted, Control, Inside, Place, Places, Pool, Reserved};

/// No replica has this id.
const NOBODY: ReplicaId = ReplicaId(u32::MAX);

/// One pool with the model name that its replicas are asked for.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) pool: Arc<Pool>,
    /// None: as the client asked.
    pub(crate) upstream_model: Option<Arc<str>>,
    /// It is its route's fallback: the name of it that clients are told.
    pub(crate) fallback: Option<Box<str>>,
}

impl Target {
    pub(crate) fn name(&self) -> TargetName {
        TargetName { pool: Arc::clone(self.pool.name()), upstream_model: self.upstream_model.clone() }
    }
}

/// Targets that requests choose among.
#[derive(Debug)]
pub(crate) struct Targets {
    all: Vec<Arc<Target>>,
    /// Each pool once, in the order of the plan: that is the order in which they are locked.
    lanes: Vec<PoolLane>,
    mode: RouteMode,
    /// The route has a fallback besides.
    has_fallback: bool,
    /// Locked before the pools.
    turns: Mutex<Turns>,
}

#[derive(Debug)]
struct PoolLane {
    index: usize,
    pool: Arc<Pool>,
    targets: Vec<TargetIndex>,
}

/// A replica among those of all targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    lane: usize,
    spell: Spell,
}

/// The only replica that can serve a request, and the model it is to be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Only {
    pub(crate) target: TargetIndex,
    pub(crate) replica: ReplicaId,
}

/// What of a request its choice depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked<'a> {
    pub(crate) model: Option<ModelId>,
    pub(crate) weight: Weight,
    pub(crate) session: Option<Session>,
    pub(crate) prefix: Option<u64>,
    pub(crate) prompt: Prompt<'a>,
    pub(crate) tried: &'a [Spot],
    pub(crate) only: Option<Only>,
    /// What a decision service has answered about it.
    pub(crate) decision: Option<&'a Decision>,
}

/// Replicas tried in one pool.
type Tried = SmallVec<[ReplicaId; 4]>;

impl Targets {
    /// Those of `plans`, whose pools are among `pools`. None where one is not.
    pub(crate) fn new(
        plans: &[TargetPlan],
        pools: &[Arc<Pool>],
        mode: RouteMode,
        has_fallback: bool,
    ) -> Option<Self> {
        Self::of(plans, pools, mode, has_fallback, |_, _| None)
    }

    /// The fallback of a route.
    pub(crate) fn fallback(plan: &TargetPlan, pools: &[Arc<Pool>]) -> Option<Self> {
        let name = |pool: &Pool, model: Option<&str>| Some(told_name(pool.name(), model));
        Self::of(std::slice::from_ref(plan), pools, RouteMode::Adaptive, false, name)
    }

    fn of(
        plans: &[TargetPlan],
        pools: &[Arc<Pool>],
        mode: RouteMode,
        has_fallback: bool,
        name: impl Fn(&Pool, Option<&str>) -> Option<Box<str>>,
    ) -> Option<Self> {
        let (mut all, mut lanes) = (Vec::new(), Vec::<PoolLane>::new());
        for (plan, index) in plans.iter().zip(0..) {
            let (pool, index) = (pools.get(plan.pool)?, TargetIndex(index));
            all.push(Arc::new(Target {
                pool: Arc::clone(pool),
                upstream_model: plan.upstream_model.clone(),
                fallback: name(pool, plan.upstream_model.as_deref()),
            }));
            match lanes.iter_mut().find(|lane| lane.index == plan.pool) {
                Some(lane) => lane.targets.push(index),
                None => {
                    let pool = Arc::clone(pool);
                    lanes.push(PoolLane { index: plan.pool, pool, targets: vec![index] });
                }
            }
        }
        lanes.sort_by_key(|lane| lane.index);
        Some(Self { all, lanes, mode, has_fallback, turns: Mutex::default() })
    }

    /// Every target, in the order of the configuration.
    pub(crate) fn all(&self) -> &[Arc<Target>] {
        &self.all
    }

    /// Each pool once.
    pub(crate) fn pools(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.lanes.iter().map(|lane| &lane.pool)
    }

    /// The target, where there is no other.
    pub(crate) fn only_target(&self) -> Option<&Arc<Target>> {
        match self.all.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// A replica of one of the pools, by what `is` finds in it, and a target that it serves.
    pub(crate) fn find(&self, is: impl Fn(&Arc<Pool>) -> Option<ReplicaId>) -> Option<Only> {
        self.lanes.iter().find_map(|lane| {
            let (target, replica) = (*lane.targets.first()?, is(&lane.pool)?);
            Some(Only { target, replica })
        })
    }

    /// Of each target, in order, whether a replica of its would be a candidate of mode `policy` now.
    pub(crate) fn with_candidates(&self) -> Vec<bool> {
        let is_in = |target: &Arc<Target>, health| target.pool.enter().core().has_replica_in(health);
        let live: Vec<bool> = self.all.iter().map(|target| is_in(target, Health::Live)).collect();
        if live.contains(&true) {
            return live;
        }
        self.all.iter().map(|target| is_in(target, Health::Probing)).collect()
    }

    /// The one replica that serves `model`, where there is one.
    pub(crate) fn only_replica(&self, model: Option<ModelId>) -> Option<Only> {
        match self.lanes.as_slice() {
            [_] => self.find(|pool| pool.only_replica(model)),
            _ => None,
        }
    }

    /// The number of a target, if it is one of these.
    pub(crate) fn index_of(&self, target: &Arc<Target>) -> Option<TargetIndex> {
        (0..)
            .map(TargetIndex)
            .zip(&self.all)
            .find(|(_, own)| Arc::ptr_eq(own, target))
            .map(|(index, _)| index)
    }

    /// The target of a number that this route gave out.
    pub(crate) fn target(&self, index: TargetIndex) -> Option<&Arc<Target>> {
        self.all.get(index.0 as usize)
    }

    /// Chooses and reserves in one critical section over all pools, or has the request wait for a slot. `aim`: the
    /// target whose share the request is.
    pub(crate) fn admit(
        &self,
        asked: &Asked<'_>,
        aim: &mut Option<TargetIndex>,
        waiting: Waiting,
    ) -> Admitted {
        let admitted =
            self.with_lanes(asked, |turns, lanes| match turns.admit(clock::now(), lanes, aim, waiting) {
                Entry::Placed(placed) => self.reserved(placed).map_or_else(Admitted::No, Admitted::Reserved),
                Entry::Queued(queued) => {
                    Admitted::Queued(Places(queued.into_iter().filter_map(|one| self.seat(one)).collect()))
                }
                Entry::Full { retry_after } => Admitted::Full { retry_after },
                Entry::No(none) => Admitted::No(none),
            });
        if let Admitted::Queued(Places(places)) = &admitted {
            // The longest wait is a deadline of the core's.
            places.iter().for_each(|place| place.pool().changed.notify_one());
        }
        admitted
    }

    /// Chooses and reserves only where nothing has to wait.
    pub(crate) fn pick_with_room(
        &self,
        asked: &Asked<'_>,
        aim: &mut Option<TargetIndex>,
    ) -> Result<Reserved, NoReplica> {
        self.with_lanes(asked, |turns, lanes| {
            self.reserved(turns.pick_with_room(clock::now(), lanes, aim)?)
        })
    }

    /// Chooses and reserves without a slot: for requests that no engine works on.
    pub(crate) fn pick(&self, asked: &Asked<'_>) -> Result<Reserved, NoReplica> {
        self.with_lanes(asked, |turns, lanes| self.reserved(turns.pick(clock::now(), lanes, &mut None)?))
    }

    /// What would be done with a request now, and why.
    pub(crate) fn explain(&self, asked: &Asked<'_>, waiting: Option<Waiting>) -> Explanation {
        self.with_lanes(asked, |turns, lanes| turns.explain(clock::now(), lanes, waiting))
    }

    /// Books a verdict that was deferred when its lease was released.
    pub(crate) fn book(&self, at: Spot, verdict: Verdict) {
        if let Some(lane) = self.lanes.get(at.lane) {
            lane.pool.book(at.spell, verdict);
        }
    }

    /// Runs `f` with every pool locked, and sees to what it caused.
    fn with_lanes<R>(&self, asked: &Asked<'_>, f: impl FnOnce(&mut Turns, &mut [Lane<'_, '_>]) -> R) -> R {
        let tried: SmallVec<[Tried; 2]> = (0..self.lanes.len()).map(|lane| asked.tried_in(lane)).collect();
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let mut inside: SmallVec<[Inside<'_>; 2]> = self.lanes.iter().map(|lane| lane.pool.enter()).collect();
        let mut lanes: SmallVec<[Lane<'_, '_>; 2]> = inside
            .iter_mut()
            .zip(self.lanes.iter().zip(&tried))
            .map(|(inside, (lane, tried))| Lane {
                pool: inside.core(),
                request: PickRequest { tried, ..self.request(asked, lane) },
                targets: asked.targets_of(lane),
            })
            .collect();
        let result = f(&mut turns, &mut lanes);
        drop(lanes);
        inside.into_iter().for_each(|pool| pool.leave(Control::IfEffects));
        result
    }

    fn request<'a>(&'a self, asked: &Asked<'a>, lane: &PoolLane) -> PickRequest<'a> {
        let mode = match self.mode.of_request() {
            Mode::Policy(scoring) => Mode::Policy(Scoring { decision: asked.decision, ..scoring }),
            other => other,
        };
        PickRequest {
            model: asked.model,
            weight: asked.weight,
            session: asked.session,
            prefix: asked.prefix,
            prompt: asked.prompt,
            only: asked.only.map(|only| if lane.has(only.target) { only.replica } else { NOBODY }),
            mode,
            hold: self.mode.hold(),
            has_fallback: self.has_fallback && asked.only.is_none(),
            ..PickRequest::default()
        }
    }

    /// To be called under the pool's lock: an abort that comes after the pick raises the epoch after this read.
    fn reserved(&self, placed: Placed) -> Result<Reserved, NoReplica> {
        let lane = self.lanes.get(placed.lane).ok_or(NoReplica::NoneKnown)?;
        let whose = self.whose(placed.lane, placed.target).ok_or(NoReplica::NoneKnown)?;
        lane.pool.reserved(placed.picked, whose)
    }

    /// To be called under the pool's lock, before anything else can happen to it: a grant must find its seat.
    fn seat(&self, awaited: Awaited) -> Option<Place> {
        let lane = self.lanes.get(awaited.lane)?;
        Some(lane.pool.seat(awaited.ticket, self.whose(awaited.lane, awaited.target)?))
    }

    fn whose(&self, lane: usize, target: TargetIndex) -> Option<Whose> {
        Some(Whose { lane, target: Arc::clone(self.target(target)?) })
    }
}

/// Whose a place is: the target, and the lane of its pool.
#[derive(Debug, Clone)]
pub(crate) struct Whose {
    pub(crate) target: Arc<Target>,
    lane: usize,
}

impl Whose {
    /// A replica of that pool, in the spell of its service in which it is asked.
    pub(crate) fn spot(&self, spell: Spell) -> Spot {
        Spot { lane: self.lane, spell }
    }
}

impl PoolLane {
    fn has(&self, target: TargetIndex) -> bool {
        self.targets.contains(&target)
    }
}

impl Asked<'_> {
    fn tried_in(&self, lane: usize) -> Tried {
        self.tried.iter().filter(|at| at.lane == lane).map(|at| at.spell.replica()).collect()
    }

    /// A request that is bound to a replica is bound to a model of it.
    fn targets_of<'l>(&self, lane: &'l PoolLane) -> &'l [TargetIndex] {
        let own = self.only.and_then(|only| lane.targets.iter().find(|target| **target == only.target));
        own.map_or(&lane.targets, std::slice::from_ref)
    }
}

/// A target's name as usage lines have it, for a header field: what is neither a letter, digit nor sign of ASCII is
/// left out.
fn told_name(pool: &str, model: Option<&str>) -> Box<str> {
    let name = model.map_or_else(|| pool.to_owned(), |model| format!("{pool}/{model}"));
    name.chars().filter(char::is_ascii_graphic).collect()
}
