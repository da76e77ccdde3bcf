//! A request's place in the queue of a pool.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use sluicegate_core::{Denial, Picked, Ticket, Verdict};

use super::{Control, LeaseGuard, Pool, Reserved};

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
}

impl Place {
    pub(super) fn new(pool: Arc<Pool>, ticket: Ticket, seat: Arc<Seat>) -> Self {
        Self { pool, ticket, seat }
    }

    /// Ready when the request has its slot, or will get none.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<Reserved, Denial>> {
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
            return Err(Denial::NoReplica(sluicegate_core::NoReplica::NoneKnown));
        };
        let lease = LeaseGuard {
            pool: Arc::clone(&self.pool),
            replica: Arc::clone(replica),
            epoch,
            lease: Some(picked.lease),
        };
        Ok(Reserved { lease, reason: picked.reason, spilled: picked.spilled })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let state = std::mem::replace(&mut *self.seat.lock(), State::Left);
        match state {
            // Granted, and never taken up.
            State::Granted { picked, epoch } => {
                if let Ok(mut reserved) = self.reserved(picked, epoch) {
                    reserved.lease.settle(Verdict::Neutral, Some(0));
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

    use sluicegate_core::{
        KeyIndex, PickRequest, QueueLimits, ReplicaId, RouteIndex, Scrape, Serves, Waiting, Weight,
    };

    use super::*;
    use crate::plan::Slots;
    use crate::pool::{Admitted, WakeEpoch};
    use crate::test_plan::pool_plan;

    fn admit(pool: &Arc<Pool>) -> Admitted {
        let request = PickRequest { weight: Weight::from_prompt_tokens(1), ..PickRequest::default() };
        let limits = QueueLimits { max_length: 10, max_wait: Duration::from_secs(60) };
        pool.admit(
            &request,
            Waiting { key: KeyIndex(0), route: RouteIndex(0), priority: 0, cost_tokens: 1, limits },
        )
    }

    #[test]
    fn a_slot_granted_to_a_request_that_has_left_goes_on() {
        let mut plan = pool_plan();
        plan.slots = Slots::Fixed(1);
        let pool = Pool::new(&plan, &Serves::All, 1, Arc::new(WakeEpoch::default()));
        pool.with_core(Control::Always, |core, now| {
            core.tick(now);
            core.scraped(now, ReplicaId(0), Scrape::Healthy { load: None }, None);
        });
        let Admitted::Reserved(first) = admit(&pool) else { panic!("the one slot is free") };
        let Admitted::Queued(waiting) = admit(&pool) else { panic!("the one slot is taken") };
        // Granted while nobody looks, as when its client leaves at that very moment.
        drop(first);
        assert!(matches!(admit(&pool), Admitted::Queued(_)), "the slot is the waiting one's");
        drop(waiting);
        assert!(matches!(admit(&pool), Admitted::Reserved(_)), "and free again when that one has left");
        assert!(pool.seats().is_empty());
    }
}
