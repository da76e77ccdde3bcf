//! Which keys a route's retries went to.

use super::{one_second, ten_seconds};
use crate::ids::KeyIndex;
use crate::time::Time;
use crate::window::Window;
use std::collections::BTreeMap;
use std::time::Duration;

/// A key that has sent nothing for so long is not there.
const ABSENT_AFTER: Duration = Duration::from_secs(10);
/// Keys without a retry of late are looked for when there are this many more than twice those kept the last time.
const MOST_NEW: usize = 64;

/// The retries of each key of the last 10 s. Bounded: a key for each retry of that time, at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// The key that asked last, and the last one before it that is another.
    askers: [Option<(KeyIndex, Time)>; 2],
    keys: BTreeMap<KeyIndex, Retries>,
    kept: usize,
}

#[derive(Clone, Debug)]
struct Retries {
    all: Window<20>,
    recent: Window<10>,
}

/// What one key has had.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// In the last 10 s.
    pub(super) all: u64,
    /// In the last second.
    pub(super) recent: u64,
}

impl Shares {
    pub(super) fn request(&mut self, now: Time, key: KeyIndex) {
        match self.askers {
            [Some((last, _)), _] if last == key => {}
            [last, _] => self.askers[1] = last,
        }
        self.askers[0] = Some((key, now));
    }

    /// What the key has had; `None`: there is no other.
    pub(super) fn own(&self, now: Time, key: KeyIndex) -> Option<Own> {
        let other = |(asker, at): &(KeyIndex, Time)| *asker != key && now.since(*at) < ABSENT_AFTER;
        self.askers.iter().flatten().any(other).then(|| {
            let count = |had: &Retries| Own { all: had.all.count(now), recent: had.recent.count(now) };
            self.keys.get(&key).map(count).unwrap_or_default()
        })
    }

    pub(super) fn retry(&mut self, now: Time, key: KeyIndex) {
        if self.keys.len() >= 2 * self.kept + MOST_NEW {
            self.keys.retain(|_, had| had.all.count(now) > 0);
            self.kept = self.keys.len();
        }
        let fresh = || Retries { all: ten_seconds(), recent: one_second() };
        let had = self.keys.entry(key).or_insert_with(fresh);
        had.all.add(now);
        had.recent.add(now);
    }
}
