//! The credentials of a pool: they take turns, and one that was refused rests for a while.

mod trial;

use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::Time;

use crate::plan::{Credential, PoolPlan, carries_a_secret};

pub(crate) use trial::{Judged, Said, Trial};

/// How long a credential rests that was refused, where the replica does not say.
const REST: Duration = Duration::from_secs(30);
/// The least that one rests: an account whose share is used up is not asked again in the same breath.
const REST_MIN: Duration = Duration::from_secs(1);
/// The most that one rests, whatever it is told: a day's quota may be raised before its day is over.
const REST_MAX: Duration = Duration::from_secs(600);

/// Several keys to the same replicas.
#[derive(Debug)]
pub(crate) struct Credentials {
    pool: Arc<str>,
    all: Vec<Credential>,
    turn: AtomicUsize,
    resting_until: Mutex<Vec<Option<Time>>>,
    /// The status that each was last refused with, until it is accepted again: the log is told of changes alone. One at
    /// least, for the key in a field of the pool's own.
    refused_with: Vec<AtomicU16>,
    /// Replicas are asked with a key of the gateway's, in whatever field: the client's own is not what they refuse.
    ours: bool,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    index: usize,
    /// None: the pool has none.
    pub(crate) credential: Option<Credential>,
}

impl Credentials {
    /// Those of `plan`.
    pub(crate) fn new(plan: &PoolPlan) -> Self {
        let all = plan.credentials.clone();
        Self {
            pool: Arc::clone(&plan.name),
            turn: AtomicUsize::new(0),
            resting_until: Mutex::new(vec![None; all.len()]),
            refused_with: (0..all.len().max(1)).map(|_| AtomicU16::new(0)).collect(),
            ours: plan.hosted
                || !all.is_empty()
                || plan.headers.iter().any(|(name, _)| carries_a_secret(name)),
            all,
        }
    }

    /// The next in turn that does not rest; where all do, the next in turn all the same.
    pub(crate) fn choose(&self, now: Time) -> Chosen {
        if self.all.len() < 2 {
            return self.chosen(0);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.chosen(self.awake(turn, &[], now).unwrap_or(turn % self.all.len()))
    }

    /// The next in turn that neither rests nor is among `tried`.
    fn another(&self, tried: &[usize], now: Time) -> Option<Chosen> {
        if self.all.len() < 2 {
            return None;
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.awake(turn, tried, now).map(|index| self.chosen(index))
    }

    fn awake(&self, turn: usize, tried: &[usize], now: Time) -> Option<usize> {
        let resting = self.resting();
        let mut in_turn = (0..self.all.len()).map(|i| turn.wrapping_add(i) % self.all.len());
        in_turn.find(|i| {
            !tried.contains(i) && resting.get(*i).copied().flatten().is_none_or(|until| until <= now)
        })
    }

    /// It has used up what it may ask for, for as long as `retry_after` says (seconds), within 1 s and 10 min.
    fn used_up(&self, index: usize, retry_after: Option<u32>, now: Time) {
        let told = retry_after.map(|seconds| Duration::from_secs(seconds.into()).clamp(REST_MIN, REST_MAX));
        self.rest(index, told.unwrap_or(REST), now);
    }

    fn rest(&self, index: usize, time: Duration, now: Time) {
        if let Some(until) = self.resting().get_mut(index) {
            *until = Some(now + time);
        }
    }

    /// It is not known, or may not do what another one may.
    fn refused(&self, index: usize, status: u16, now: Time) {
        self.rest(index, REST, now);
        let before = self.refused_with.get(index).map(|with| with.swap(status, Ordering::Relaxed));
        if before != Some(status) {
            let (pool, number, of) = (&*self.pool, index + 1, self.all.len());
            tracing::warn!(pool, status, "the replicas refuse the pool's credential {number} of {of}");
        }
    }

    /// It has been asked with and answered well.
    fn accepted(&self, index: usize) {
        // Read first: nearly always there is nothing to write.
        if let Some(with) = self.refused_with.get(index).filter(|with| with.load(Ordering::Relaxed) != 0)
            && with.swap(0, Ordering::Relaxed) != 0
        {
            let (pool, number, of) = (&*self.pool, index + 1, self.all.len());
            tracing::info!(pool, "the replicas take the pool's credential {number} of {of} again");
        }
    }

    fn chosen(&self, index: usize) -> Chosen {
        Chosen { index, credential: self.all.get(index).cloned() }
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Option<Time>>> {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
