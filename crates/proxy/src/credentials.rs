//! The credentials of a pool: they take turns, and one that was refused rests for a while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::Time;

use crate::plan::Credential;

/// How long a credential rests that was answered 401, 403 or 429.
const REST: Duration = Duration::from_secs(30);

/// Several keys to the same replicas.
#[derive(Debug)]
pub(crate) struct Credentials {
    all: Vec<Credential>,
    turn: AtomicUsize,
    resting_until: Mutex<Vec<Option<Time>>>,
}

/// One of them.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    index: usize,
    pub(crate) credential: Credential,
}

impl Credentials {
    pub(crate) fn new(all: &[Credential]) -> Self {
        let resting_until = Mutex::new(vec![None; all.len()]);
        Self { all: all.to_vec(), turn: AtomicUsize::new(0), resting_until }
    }

    /// The next in turn that does not rest; where all do, the next in turn all the same. None: the pool has none.
    pub(crate) fn choose(&self, now: Time) -> Option<Chosen> {
        if self.all.len() < 2 {
            return self.chosen(0);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let resting = self.resting();
        let in_turn = (0..self.all.len()).map(|i| turn.wrapping_add(i) % self.all.len());
        let awake = |i: &usize| resting.get(*i).copied().flatten().is_none_or(|until| until <= now);
        self.chosen(in_turn.clone().find(awake).unwrap_or(turn % self.all.len()))
    }

    /// It was answered 401, 403 or 429. True: another one does not rest, and may be tried at once.
    pub(crate) fn refused(&self, chosen: &Chosen, now: Time) -> bool {
        let mut resting = self.resting();
        if let Some(until) = resting.get_mut(chosen.index) {
            *until = Some(now + REST);
        }
        resting.iter().any(|until| until.is_none_or(|until| until <= now))
    }

    fn chosen(&self, index: usize) -> Option<Chosen> {
        Some(Chosen { index, credential: self.all.get(index)?.clone() })
    }

    fn resting(&self) -> MutexGuard<'_, Vec<Option<Time>>> {
        self.resting_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn credentials_take_turns_and_a_refused_one_rests() {
        let three = ["a", "b", "c"].map(|c| Credential(c.into()));
        let credentials = Credentials::new(&three);
        let next = |s| credentials.choose(at(s)).map(|c| c.credential.0.to_string()).unwrap_or_default();
        assert_eq!([next(0), next(0), next(0), next(0)], ["a", "b", "c", "a"]);
        let b = credentials.choose(at(0)).expect("there are three");
        assert!(credentials.refused(&b, at(0)), "two are left");
        assert_eq!([next(1), next(1), next(1), next(1)], ["c", "a", "c", "c"]);
        let rested: Vec<_> = (0..3).map(|_| next(31)).collect();
        assert!(rested.contains(&"b".to_owned()), "{rested:?}");
    }

    #[test]
    fn where_all_rest_one_is_used_all_the_same() {
        let two = ["a", "b"].map(|c| Credential(c.into()));
        let credentials = Credentials::new(&two);
        let first = credentials.choose(at(0)).expect("there are two");
        assert!(credentials.refused(&first, at(0)));
        let second = credentials.choose(at(0)).expect("there are two");
        assert!(!credentials.refused(&second, at(0)), "none is left");
        assert!(credentials.choose(at(1)).is_some());
        assert!(Credentials::new(&[]).choose(at(0)).is_none());
    }
}
