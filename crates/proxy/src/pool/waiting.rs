//! A request's place in the queue of a pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sluicegate_core::{Denial, NoReplica, Picked, Ticket, Verdict};
use smallvec::SmallVec;

use super::{Control, LeaseGuard, Pool, Reserved, Served};
use crate::targets::Whose;

/// Where a waiting request is told what became of it. Written under the core's lock, read by the request's task.
#[derive(Debug, Default)]
pub(super) struct Seat(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Empty,
    Waiting(Waker),
    Granted {
        picked: Picked,
        epoch: u64,
    },
    Denied(Denial),
    /// Its request has left or has been told.
    Left,
}

impl Seat {
    /// The place if the request has left.
    pub(super) fn grant(&self, picked: Picked, epoch: u64) -> Option<Picked> {
        self.tell(State::Granted { picked, epoch }).and_then(|state| match state {
            State::Granted { picked, .. } => Some(picked),
            _ => None,
        })
    }

    pub(super) fn deny(&self, why: Denial) {
        self.tell(State::Denied(why));
    }

    /// Gives `news` back if nobody is there to hear it.
    fn tell(&self, news: State) -> Option<State> {
        let mut state = self.lock();
        if matches!(*state, State::Left) {
            return Some(news);
        }
        let before = std::mem::replace(&mut *state, news);
        drop(state);
        if let State::Waiting(waker) = before {
            waker.wake();
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the queue, left on drop.
#[derive(Debug)]
pub(crate) struct Place {
    pool: Arc<Pool>,
    ticket: Ticket,
    seat: Arc<Seat>,
    whose: Whose,
}

/// A request's places in the queues of several pools: the first slot that comes free is taken, and the other queues are
/// left.
#[derive(Debug)]
pub(crate) struct Places(pub(crate) SmallVec<[Place; 2]>);

impl Places {
    /// Ready when the request has a slot, or will get none.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reserved, Denial>> {
        let (mut denied, mut at) = (Denial::NoReplica(NoReplica::NoneKnown), 0);
        while let Some(place) = self.0.get(at) {
            match place.poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(Ok(reserved)) => return Poll::Ready(Ok(reserved)),
                Poll::Ready(Err(why)) => {
                    // Another pool may still have a slot.
                    denied = why;
                    self.0.remove(at);
                }
            }
        }
        if self.0.is_empty() { Poll::Ready(Err(denied)) } else { Poll::Pending }
    }
}

impl Place {
    pub(super) fn new(pool: Arc<Pool>, ticket: Ticket, seat: Arc<Seat>, whose: Whose) -> Self {
        Self { pool, ticket, seat, whose }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Ready when the request has its slot, or will get none.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Reserved, Denial>> {
        let mut state = self.seat.lock();
        match std::mem::replace(&mut *state, State::Left) {
            State::Granted { picked, epoch } => {
                drop(state);
                Poll::Ready(self.reserved(picked, epoch))
            }
            State::Denied(why) => Poll::Ready(Err(why)),
            State::Empty | State::Waiting(_) | State::Left => {
                *state = State::Waiting(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn reserved(&self, picked: Picked, epoch: u64) -> Result<Reserved, Denial> {
        let Some(replica) = self.pool.replica(picked.replica) else {
            return Err(Denial::NoReplica(NoReplica::NoneKnown));
        };
        let lease = LeaseGuard::new(&self.pool, replica, epoch, picked.lease);
        let whose = self.whose.clone();
        Ok(Reserved { lease, reason: picked.reason, spilled: picked.spilled, whose })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.seat.lock(), State::Left);
        match state {
            // Granted, and never taken up.
            State::Granted { picked, epoch } => {
                if let Ok(mut reserved) = self.reserved(picked, epoch) {
                    reserved.lease.settle(Verdict::Neutral, Some(Served::default()));
                }
            }
            State::Empty | State::Waiting(_) => {
                self.pool.with_core(Control::IfEffects, |core, _| core.leave(self.ticket));
                self.pool.seats().remove(&self.ticket);
            }
            State::Denied(_) | State::Left => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluicegate_core::{KeyIndex, QueueLimits, ReplicaId, RouteIndex, Scrape, Serves, Waiting, Weight};

    use super::*;
    use crate::plan::{RouteMode, Slots, TargetPlan};
    use crate::pool::{Admitted, WakeEpoch};
    use crate::targets::{Asked, Targets};
    use crate::test_plan::pool_plan;

    /// A pool of one LIVE replica with one slot for each target.
    fn one_slot_each(n: usize) -> (Vec<Arc<Pool>>, Targets) {
        let mut plan = pool_plan();
        plan.slots = Slots::Fixed(1);
        let pools: Vec<_> =
            (0..n).map(|_| Pool::new(&plan, &Serves::All, 1, Arc::new(WakeEpoch::default()))).collect();
        for pool in &pools {
            pool.with_core(Control::Always, |core, now| {
                core.tick(now);
                core.scraped(now, ReplicaId(0), Scrape::Healthy { load: None }, None);
            });
        }
        let plans: Vec<_> =
            (0..n).map(|pool| TargetPlan { pool, upstream_model: None, description: None }).collect();
        let targets = Targets::new(&plans, &pools, RouteMode::Adaptive, false).expect("each pool is there");
        (pools, targets)
    }

    fn admit(targets: &Targets) -> Admitted {
        let asked = Asked { weight: Weight::from_prompt_tokens(1), ..Asked::default() };
        let limits = QueueLimits { max_length: 10, max_wait: Duration::from_secs(60) };
        targets.admit(
            &asked,
            &mut None,
            Waiting { key: KeyIndex(0), route: RouteIndex(0), priority: 0, cost_tokens: 1, limits },
        )
    }

    #[test]
    fn a_slot_granted_to_a_request_that_has_left_goes_on() {
        let (pools, targets) = one_slot_each(1);
        let Admitted::Reserved(first) = admit(&targets) else { panic!("the one slot is free") };
        let Admitted::Queued(waiting) = admit(&targets) else { panic!("the one slot is taken") };
        // Granted while nobody looks, as when its client leaves at that very moment.
        drop(first);
        assert!(matches!(admit(&targets), Admitted::Queued(_)), "the slot is the waiting one's");
        drop(waiting);
        assert!(matches!(admit(&targets), Admitted::Reserved(_)), "and free again when that one has left");
        assert!(pools[0].seats().is_empty());
    }

    #[test]
    fn whoever_waits_in_two_pools_takes_one_slot_and_leaves_no_place_behind() {
        let (pools, targets) = one_slot_each(2);
        let mut cx = Context::from_waker(Waker::noop());
        let mut held: Vec<Reserved> = (0..2)
            .map(|_| match admit(&targets) {
                Admitted::Reserved(reserved) => reserved,
                other => panic!("both slots are free: {other:?}"),
            })
            .collect();
        let Admitted::Queued(mut places) = admit(&targets) else { panic!("both are taken") };
        assert!(places.poll(&mut cx).is_pending());
        held.clear();
        // Both slots have been granted to it; it takes one, and the other goes on.
        let Poll::Ready(Ok(taken)) = places.poll(&mut cx) else { panic!("granted") };
        drop(places);
        assert!(matches!(admit(&targets), Admitted::Reserved(_)), "the other slot is free again");
        drop(taken);
        assert!(pools.iter().all(|pool| pool.seats().is_empty()));
        assert!(pools.iter().all(|pool| pool.queue().waiting.is_empty()));
    }
}
