//! A pool as threads share it: the decision core behind one short mutex, and per replica what the relay path reads
//! and writes without it.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;
use sluicegate_core::{
    Effect, Explanation, Lease, NoReplica, Origin, PickRequest, PoolSnapshot, Reason, ReplicaId, ReplicaSpec,
    Serves, Time, Verdict,
};
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
    /// Told when the core has effects that the control thread must see to.
    pub(crate) changed: Notify,
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
    /// Largest context in tokens that the engine told of; 0 for unknown.
    pub(crate) context: AtomicU64,
}

impl Pool {
    /// Builds the pool with every replica of `plan` known at start-up.
    pub(crate) fn new(plan: &PoolPlan, serves: &Serves, seed: u64) -> Arc<Self> {
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
        Arc::new(Self { plan: plan.clone(), core: Mutex::new(core), replicas, changed: Notify::new() })
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
        self.with_core(|core, now| core.drain(now, replica));
    }

    /// Ends a drain: the replica must be scraped well again before it takes requests.
    pub fn undrain(&self, replica: ReplicaId) {
        self.with_core(|core, now| core.undrain(now, replica));
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
        let picked = match room {
            Room::Any => self.lock().pick(clock::now(), request)?,
            Room::Needed => self.lock().pick_with_room(clock::now(), request)?,
        };
        let replica = self.replica(picked.replica).ok_or(NoReplica::NoneKnown)?.clone();
        let lease = LeaseGuard { pool: Arc::clone(self), replica, lease: Some(picked.lease) };
        Ok(Reserved { lease, reason: picked.reason, spilled: picked.spilled })
    }

    pub(crate) fn explain(&self, request: &PickRequest<'_>) -> Explanation {
        self.lock().explain(clock::now(), request)
    }

    /// Runs `f` on the core, then lets the control thread know of what it caused.
    pub(crate) fn with_core<R>(&self, f: impl FnOnce(&mut sluicegate_core::Pool, Time) -> R) -> R {
        let mut core = self.lock();
        let result = f(&mut core, clock::now());
        let told = core.has_effects();
        drop(core);
        if told {
            self.changed.notify_one();
        }
        result
    }

    /// Ticks the core and takes its effects; returns when it wants to be ticked next.
    pub(crate) fn tick(&self, effects: &mut Vec<Effect>) -> Option<Time> {
        let mut core = self.lock();
        let now = clock::now();
        if core.next_deadline().is_some_and(|d| d <= now) {
            core.tick(now);
        }
        while let Some(effect) = core.poll_effect() {
            effects.push(effect);
        }
        core.next_deadline()
    }

    /// Books a verdict that was deferred when its lease was released.
    pub(crate) fn book(&self, replica: ReplicaId, verdict: Verdict) {
        let last_byte = self.replica(replica).and_then(|r| r.last_byte());
        self.with_core(|core, now| core.book(now, replica, verdict, last_byte));
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
            context: AtomicU64::new(0),
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

    pub(crate) fn last_byte(&self) -> Option<Time> {
        Some(self.last_byte.load(Ordering::Relaxed)).filter(|&n| n > 0).map(Time::from_nanos)
    }

    pub(crate) fn abort_epoch(&self) -> u64 {
        self.abort_epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn abort_unanswered(&self) {
        self.abort_epoch.fetch_add(1, Ordering::Relaxed);
    }
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
    lease: Option<Lease>,
}

impl LeaseGuard {
    pub(crate) fn replica(&self) -> &Arc<Replica> {
        &self.replica
    }

    /// The first answer byte is on its way to the client.
    pub(crate) fn answered(&self) {
        if let Some(lease) = &self.lease {
            self.pool.with_core(|core, now| core.answered(now, lease));
        }
    }

    /// Gives the lease back. False: it was given back before, and this verdict is not booked.
    pub(crate) fn settle(&mut self, verdict: Verdict) -> bool {
        let Some(lease) = self.lease.take() else { return false };
        let last_byte = self.replica.last_byte();
        self.pool.with_core(|core, now| core.release(now, lease, verdict, last_byte));
        true
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.settle(Verdict::Neutral);
    }
}
