//! A pool as threads share it: the decision core behind one short mutex, and per replica what the relay path reads
//! and writes without it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption};
use sluicegate_core::{
    Effect, Explanation, Lease, NoReplica, Origin, PickRequest, PoolSnapshot, Reason, ReplicaId, ReplicaSpec,
    Serves, Time, Verdict,
};
use sluicegate_wire::Endpoint;
use tokio::sync::Notify;

use crate::clock;
use crate::plan::{PoolPlan, ReplicaUrl};

/// Stream bytes are noted at most this often per replica: the health rules think in seconds, and a store per chunk
/// from every thread would make its cache line travel.
const LAST_BYTE_STEP_NANOS: u64 = 100_000_000;

static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

/// One pool of replicas.
#[derive(Debug)]
pub struct Pool {
    plan: PoolPlan,
    core: Mutex<sluicegate_core::Pool>,
    replicas: Vec<Arc<Replica>>,
    /// Effects for the control thread, in the order in which things happened.
    effects: Mutex<Vec<Effect>>,
    /// Told when there are effects, or when the core may want to be ticked earlier than it said.
    pub(crate) changed: Notify,
    /// Raised when waiting connections must look around.
    wake: Arc<WakeEpoch>,
}

/// Makes waiting connections look around at their thread's next sweep: a replica died, a drain began.
#[derive(Debug, Default)]
pub(crate) struct WakeEpoch(AtomicU64);

impl WakeEpoch {
    pub(crate) fn raise(&self) {
        // After whatever the connections are to see, and before they look for it.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// One replica as the data plane sees it.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    pub(crate) url: ReplicaUrl,
    /// Index that is unique in the process: the place of its idle connections on each thread.
    pub(crate) slot: usize,
    /// Resolved by the control thread; None until a name was resolved for the first time.
    address: ArcSwapOption<SocketAddr>,
    /// When stream bytes last came from it, in nanoseconds of [`Time`]; 0 for never.
    last_byte: AtomicU64,
    /// Raised when its requests without a first byte are to be sent elsewhere.
    abort_epoch: AtomicU64,
    /// What the engine last said it serves.
    pub(crate) models: ArcSwap<Vec<ServedModel>>,
    /// A call that it has answered well: what a canary asks for.
    pub(crate) proven: ArcSwapOption<(Endpoint, Arc<str>)>,
    /// Good scrapes in a row since its models were last asked for in vain.
    pub(crate) good_scrapes: AtomicU64,
}

/// A model as its engine tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedModel {
    pub(crate) name: Arc<str>,
    /// Context length in tokens, where the engine tells it.
    pub(crate) context: Option<u64>,
}

impl Pool {
    /// Builds the pool with every replica of `plan` known at start-up.
    pub(crate) fn new(plan: &PoolPlan, serves: &Serves, seed: u64, wake: Arc<WakeEpoch>) -> Arc<Self> {
        let mut core = sluicegate_core::Pool::new(plan.settings.clone(), seed);
        let now = clock::now();
        let replicas = plan.replicas.iter().map(|url| {
            let id = core.add(
                now,
                ReplicaSpec {
                    name: url.text.to_string(),
                    origin: Origin::Startup,
                    scraped: true,
                    slots: None,
                    serves: serves.clone(),
                },
            );
            Arc::new(Replica::new(id, url))
        });
        let replicas = replicas.collect();
        Arc::new(Self {
            plan: plan.clone(),
            core: Mutex::new(core),
            replicas,
            effects: Mutex::default(),
            changed: Notify::new(),
            wake,
        })
    }

    /// Name in usage lines and metrics.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.plan.name
    }

    /// Numbers of every replica and of the pool, now.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        self.lock().snapshot(clock::now())
    }

    /// No new requests for `replica`; running ones finish, its pins are released.
    pub fn drain(&self, replica: ReplicaId) {
        self.with_core(Control::Always, |core, now| core.drain(now, replica));
    }

    /// Ends a drain: the replica must be scraped well again before it takes requests.
    pub fn undrain(&self, replica: ReplicaId) {
        self.with_core(Control::Always, |core, now| core.undrain(now, replica));
    }

    pub(crate) fn plan(&self) -> &PoolPlan {
        &self.plan
    }

    pub(crate) fn replicas(&self) -> &[Arc<Replica>] {
        &self.replicas
    }

    pub(crate) fn replica(&self, id: ReplicaId) -> Option<&Arc<Replica>> {
        self.replicas.get(id.0 as usize)
    }

    /// Chooses and reserves in one critical section.
    pub(crate) fn pick(
        self: &Arc<Self>,
        request: &PickRequest<'_>,
        room: Room,
    ) -> Result<Reserved, NoReplica> {
        self.with_core(Control::IfEffects, |core, now| {
            let picked = match room {
                Room::Any => core.pick(now, request)?,
                Room::Needed => core.pick_with_room(now, request)?,
            };
            let replica = self.replica(picked.replica).ok_or(NoReplica::NoneKnown)?.clone();
            // Read under the lock: an abort that comes after this pick raises it after this.
            let epoch = replica.abort_epoch();
            let lease = LeaseGuard { pool: Arc::clone(self), replica, epoch, lease: Some(picked.lease) };
            Ok(Reserved { lease, reason: picked.reason, spilled: picked.spilled })
        })
    }

    pub(crate) fn explain(&self, request: &PickRequest<'_>) -> Explanation {
        self.lock().explain(clock::now(), request)
    }

    /// Runs `f` on the core and sees to what it caused.
    pub(crate) fn with_core<R>(
        &self,
        control: Control,
        f: impl FnOnce(&mut sluicegate_core::Pool, Time) -> R,
    ) -> R {
        let mut core = self.lock();
        let result = f(&mut core, clock::now());
        let caused = self.take_effects(&mut core);
        drop(core);
        if caused || control == Control::Always {
            self.changed.notify_one();
        }
        result
    }

    /// Ticks the core if that is due and hands out the effects there are; returns when it wants to be ticked next.
    pub(crate) fn tick(&self, effects: &mut Vec<Effect>) -> Option<Time> {
        let mut core = self.lock();
        let now = clock::now();
        if core.next_deadline().is_some_and(|d| d <= now) {
            core.tick(now);
        }
        self.take_effects(&mut core);
        effects.append(&mut self.effects.lock().unwrap_or_else(PoisonError::into_inner));
        core.next_deadline()
    }

    /// Books a verdict that was deferred when its lease was released.
    pub(crate) fn book(&self, replica: ReplicaId, verdict: Verdict) {
        let last_byte = self.replica(replica).and_then(|r| r.last_byte());
        self.with_core(Control::Always, |core, now| core.book(now, replica, verdict, last_byte));
    }

    /// Moves the core's effects over. What waiting requests must see is done at once, under the core's lock, so that
    /// it cannot be mistaken for something that happened before a later pick.
    fn take_effects(&self, core: &mut sluicegate_core::Pool) -> bool {
        if !core.has_effects() {
            return false;
        }
        let mut effects = self.effects.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(effect) = core.poll_effect() {
            match effect {
                Effect::AbortUnanswered(id) => {
                    if let Some(replica) = self.replica(id) {
                        replica.abort_epoch.fetch_add(1, Ordering::Release);
                        self.wake.raise();
                    }
                }
                other => effects.push(other),
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, sluicegate_core::Pool> {
        // A panic inside the core is a bug that debug builds surface; a release build goes on serving.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Replica {
    fn new(id: ReplicaId, url: &ReplicaUrl) -> Self {
        let literal = url.host.parse::<IpAddr>().ok().map(|ip| Arc::new(SocketAddr::new(ip, url.port)));
        Self {
            id,
            url: url.clone(),
            slot: NEXT_SLOT.fetch_add(1, Ordering::Relaxed),
            address: ArcSwapOption::new(literal),
            last_byte: AtomicU64::new(0),
            abort_epoch: AtomicU64::new(0),
            models: ArcSwap::default(),
            proven: ArcSwapOption::empty(),
            good_scrapes: AtomicU64::new(0),
        }
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address.load().as_deref().copied()
    }

    pub(crate) fn set_address(&self, address: SocketAddr) {
        self.address.store(Some(Arc::new(address)));
    }

    /// Notes that stream bytes came at `now`.
    pub(crate) fn note_byte(&self, now: Time) {
        let nanos = now.as_nanos();
        if nanos.saturating_sub(self.last_byte.load(Ordering::Relaxed)) >= LAST_BYTE_STEP_NANOS {
            self.last_byte.store(nanos, Ordering::Relaxed);
        }
    }

    /// Notes a call that was answered well.
    pub(crate) fn note_proven(&self, endpoint: Endpoint, model: &str) {
        if self.proven.load().as_deref().is_none_or(|(e, m)| *e != endpoint || **m != *model) {
            self.proven.store(Some(Arc::new((endpoint, model.into()))));
        }
    }

    pub(crate) fn last_byte(&self) -> Option<Time> {
        Some(self.last_byte.load(Ordering::Relaxed)).filter(|&n| n > 0).map(Time::from_nanos)
    }

    fn abort_epoch(&self) -> u64 {
        self.abort_epoch.load(Ordering::Acquire)
    }
}

/// When the control thread has to look at the core again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Control {
    /// Only if the call had effects: it moves no deadline.
    IfEffects,
    /// In any case: the core may want to be ticked earlier than it said before.
    Always,
}

/// Whether a replica that makes the request wait will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    Any,
    Needed,
}

/// A choice that has been made and reserved.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) lease: LeaseGuard,
    pub(crate) reason: Reason,
    pub(crate) spilled: bool,
}

/// A lease that is given back on every path: with a verdict through [`Self::settle`], without one on drop.
#[derive(Debug)]
pub(crate) struct LeaseGuard {
    pool: Arc<Pool>,
    replica: Arc<Replica>,
    /// The replica's abort epoch at the pick.
    epoch: u64,
    lease: Option<Lease>,
}

impl LeaseGuard {
    pub(crate) fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }

    /// The replica was declared dead since the pick.
    pub(crate) fn replica_died(&self) -> bool {
        self.replica.abort_epoch() != self.epoch
    }

    /// The first answer byte is on its way to the client.
    pub(crate) fn answered(&self) {
        if let Some(lease) = &self.lease {
            self.pool.with_core(Control::IfEffects, |core, now| core.answered(now, lease));
        }
    }

    /// Gives the lease back. False: it was given back before, and this verdict is not booked.
    pub(crate) fn settle(&mut self, verdict: Verdict) -> bool {
        let Some(lease) = self.lease.take() else { return false };
        let last_byte = self.replica.last_byte();
        // Anything bad may bring the next scrape forward.
        let good = matches!(verdict, Verdict::Success | Verdict::Neutral);
        let control = if good { Control::IfEffects } else { Control::Always };
        self.pool.with_core(control, |core, now| core.release(now, lease, verdict, last_byte));
        true
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.settle(Verdict::Neutral);
    }
}
