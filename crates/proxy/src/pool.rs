//! A pool as threads share it: the decision core behind one short mutex.

mod lease;
mod members;
mod replica;
mod waiting;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use sluicegate_core::{
    Effect, Lease, ModelId, NoReplica, Picked, PoolSnapshot, QueueSnapshot, Reason, ReplicaId, Serves, Spell,
    Ticket, Time, Verdict,
};
use tokio::sync::Notify;

use crate::clock;
use crate::credentials::Credentials;
use crate::plan::PoolPlan;
use crate::targets::Whose;

pub(crate) use lease::{LeaseGuard, Served};
use members::Members;
pub use members::{MOST_REPLICAS, Update};
pub(crate) use replica::{Replica, ServedModel};
use waiting::Seat;
pub(crate) use waiting::{Place, Places};

/// One pool of replicas.
#[derive(Debug)]
pub struct Pool {
    plan: PoolPlan,
    core: Mutex<sluicegate_core::Pool>,
    /// In order of their ids. Written under the core's lock, or by the control thread where one is gone.
    replicas: ArcSwap<Vec<Arc<Replica>>>,
    members: Members,
    credentials: Credentials,
    /// Effects for the control thread, in the order in which things happened.
    effects: Mutex<Vec<Effect>>,
    /// Requests that wait for a slot. Locked under the core's lock, or alone.
    seats: Mutex<HashMap<Ticket, Arc<Seat>>>,
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

impl Pool {
    /// Builds the pool with every replica of `plan` known at start-up.
    pub(crate) fn new(plan: &PoolPlan, serves: &Serves, seed: u64, wake: Arc<WakeEpoch>) -> Arc<Self> {
        let pool = Self {
            plan: plan.clone(),
            core: Mutex::new(sluicegate_core::Pool::new(plan.settings.clone(), seed)),
            replicas: ArcSwap::default(),
            members: Members::new(serves),
            credentials: Credentials::new(plan),
            effects: Mutex::default(),
            seats: Mutex::default(),
            changed: Notify::new(),
            wake,
        };
        pool.add_configured();
        Arc::new(pool)
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

    /// Why `replica` cannot be used, as its last scrape saw it; None where all is well.
    #[must_use]
    pub fn trouble(&self, replica: ReplicaId) -> Option<Arc<str>> {
        self.replica(replica)?.trouble.get()
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

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// How many replicas there are, whatever their health.
    pub(crate) fn known(&self) -> usize {
        self.replicas.load().len()
    }

    /// The one replica that serves `model`, where there is one.
    pub(crate) fn only_replica(&self, model: Option<ModelId>) -> Option<ReplicaId> {
        self.lock().only_replica(model)
    }

    /// A choice that has been made. To be called under the core's lock, as [`Self::guard`].
    pub(crate) fn reserved(self: &Arc<Self>, picked: Picked, whose: Whose) -> Result<Reserved, NoReplica> {
        let lease = self.guard(picked.replica, picked.lease)?;
        Ok(Reserved { lease, reason: picked.reason, spilled: picked.spilled, whose })
    }

    /// Gives the lease back on every path. To be called under the core's lock: an abort that comes after the pick raises
    /// the epoch after this read.
    pub(crate) fn guard(self: &Arc<Self>, replica: ReplicaId, lease: Lease) -> Result<LeaseGuard, NoReplica> {
        let replica = self.replica(replica).ok_or(NoReplica::NoneKnown)?;
        let epoch = replica.abort_epoch();
        Ok(LeaseGuard::new(self, replica, epoch, lease))
    }

    /// The seat of a request that waits. To be called under the core's lock, before anything else can happen: a grant
    /// must find it.
    pub(crate) fn seat(self: &Arc<Self>, ticket: Ticket, whose: Whose) -> Place {
        let seat = Arc::new(Seat::default());
        self.seats().insert(ticket, Arc::clone(&seat));
        Place::new(Arc::clone(self), ticket, seat, whose)
    }

    /// The queue's numbers, now.
    #[must_use]
    pub fn queue(&self) -> QueueSnapshot {
        self.lock().queue(clock::now())
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<Ticket, Arc<Seat>>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the core. Whoever locks several pools takes them in the order of the plan.
    pub(crate) fn enter(&self) -> Inside<'_> {
        Inside { pool: self, core: self.lock() }
    }

    /// Runs `f` on the core and sees to what it caused.
    pub(crate) fn with_core<R>(
        &self,
        control: Control,
        f: impl FnOnce(&mut sluicegate_core::Pool, Time) -> R,
    ) -> R {
        let mut inside = self.enter();
        let result = f(inside.core(), clock::now());
        inside.leave(control);
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
    pub(crate) fn book(&self, spell: Spell, verdict: Verdict) {
        let last_byte = self.replica(spell.replica()).and_then(|r| r.last_byte());
        self.with_core(Control::Always, |core, now| core.book(now, spell, verdict, last_byte));
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
                        replica.abort_unanswered();
                        self.wake.raise();
                    }
                }
                Effect::Granted { ticket, picked } => {
                    let epoch = self.replica(picked.replica).map_or(0, |r| r.abort_epoch());
                    let seat = self.seats().remove(&ticket);
                    let refused = match seat {
                        Some(seat) => seat.grant(picked, epoch),
                        None => Some(picked),
                    };
                    if let Some(mut picked) = refused {
                        core.served(&mut picked.lease, 0);
                        // Its client has left: the place goes to the next.
                        core.release(clock::now(), picked.lease, Verdict::Neutral, None);
                    }
                }
                Effect::Denied { ticket, why } => {
                    if let Some(seat) = self.seats().remove(&ticket) {
                        seat.deny(why);
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

/// A pool whose core is locked.
#[derive(Debug)]
pub(crate) struct Inside<'p> {
    pool: &'p Pool,
    core: MutexGuard<'p, sluicegate_core::Pool>,
}

impl Inside<'_> {
    pub(crate) fn core(&mut self) -> &mut sluicegate_core::Pool {
        &mut self.core
    }

    /// Sees to what was caused, and unlocks.
    pub(crate) fn leave(mut self, control: Control) {
        let caused = self.pool.take_effects(&mut self.core);
        // Whatever changes what a replica has queued may have moved the moment when it has little enough.
        let holds = self.core.holds();
        drop(self.core);
        if caused || control == Control::Always || holds {
            self.pool.changed.notify_one();
        }
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

/// What becomes of a request that asks for a place.
#[derive(Debug)]
pub(crate) enum Admitted {
    Reserved(Reserved),
    Queued(Places),
    Full { retry_after: Duration },
    No(NoReplica),
}

/// A choice that has been made and reserved.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) lease: LeaseGuard,
    pub(crate) reason: Reason,
    pub(crate) spilled: bool,
    pub(crate) whose: Whose,
}
