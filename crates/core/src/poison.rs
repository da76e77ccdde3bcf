//! The poison guard's memory: requests that failed two replicas alike.

use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Fingerprints of suspected requests, each for a while. Bounded: where it is full the one that would be forgotten
/// first is. Time may step back: then what was suspected stays so for a little longer.
///
/// Fed with [`PoisonList::suspect`] when a request ends with [`Attempts::is_suspect`](crate::Attempts::is_suspect).
/// The fingerprint is the caller's hash of key, endpoint and body; there is a list per route. Trees and not hash tables: whoever could choose
/// fingerprints could not slow it down.
#[derive(Clone, Debug)]
pub struct PoisonList {
    ttl: Duration,
    entries: usize,
    until: BTreeMap<u64, Time>,
    by_end: BTreeSet<(Time, u64)>,
}

impl PoisonList {
    /// An empty list that remembers a fingerprint for `ttl` and holds `entries` of them at most; zero holds none.
    #[must_use]
    pub fn new(ttl: Duration, entries: usize) -> Self {
        Self { ttl, entries, until: BTreeMap::new(), by_end: BTreeSet::new() }
    }

    /// Two replicas failed this request alike. One that is suspected already is for the whole time again.
    pub fn suspect(&mut self, now: Time, fingerprint: u64) {
        self.forget_before(now);
        let until = now + self.ttl;
        if let Some(earlier) = self.until.insert(fingerprint, until) {
            self.by_end.remove(&(earlier, fingerprint));
        }
        self.by_end.insert((until, fingerprint));
        while self.until.len() > self.entries {
            self.forget_first();
        }
    }

    /// For how long an identical request is still refused; `None`: it is not suspected.
    #[must_use]
    pub fn is_suspect(&self, now: Time, fingerprint: u64) -> Option<Duration> {
        let left = self.until.get(&fingerprint)?.since(now);
        (left > Duration::ZERO).then_some(left)
    }

    /// Nobody is suspected now.
    #[must_use]
    pub fn is_empty(&self, now: Time) -> bool {
        self.by_end.last().is_none_or(|(until, _)| *until <= now)
    }

    fn forget_before(&mut self, now: Time) {
        while self.by_end.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, fingerprint)) = self.by_end.pop_first() {
            self.until.remove(&fingerprint);
        }
    }
}

/// The documented default: 1000 fingerprints for 60 s.
impl Default for PoisonList {
    fn default() -> Self {
        Self::new(Duration::from_secs(60), 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Time {
        Time::ZERO + Duration::from_secs(s)
    }

    fn left(list: &PoisonList, now: u64, fingerprint: u64) -> Option<u64> {
        list.is_suspect(at(now), fingerprint).map(|left| left.as_secs())
    }

    #[test]
    fn a_suspect_is_remembered_for_its_time_and_for_the_whole_time_again_at_a_second_crime() {
        let mut list = PoisonList::default();
        list.suspect(at(0), 7);
        list.suspect(at(30), 8);
        list.suspect(at(40), 7);
        let rows = [(40, 7, Some(60)), (89, 8, Some(1)), (90, 8, None), (99, 7, Some(1)), (100, 7, None)];
        for (now, fingerprint, expected) in rows {
            assert_eq!(left(&list, now, fingerprint), expected, "{fingerprint} at {now} s");
        }
        assert_eq!(left(&list, 41, 9), None);
        assert_eq!([41, 99, 100].map(|now| list.is_empty(at(now))), [false, false, true]);
    }

    #[test]
    fn a_full_list_forgets_whom_it_would_forget_first() {
        let mut list = PoisonList::new(Duration::from_secs(60), 3);
        (0..3).for_each(|n| list.suspect(at(n), n));
        list.suspect(at(3), 0);
        list.suspect(at(4), 9);
        let known: Vec<u64> = (0..10).filter(|n| left(&list, 4, *n).is_some()).collect();
        assert_eq!(known, [0, 2, 9]);
        assert_eq!((list.until.len(), list.by_end.len()), (3, 3));
        let mut none = PoisonList::new(Duration::from_secs(60), 0);
        none.suspect(at(0), 1);
        assert_eq!((left(&none, 0, 1), none.by_end.len()), (None, 0));
    }

    #[test]
    fn what_is_over_takes_no_room() {
        let mut list = PoisonList::new(Duration::from_secs(1), 1000);
        (0..5000).for_each(|n| list.suspect(at(n), n));
        assert_eq!((list.until.len(), list.by_end.len()), (1, 1));
    }
}
