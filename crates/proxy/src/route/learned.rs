//! A number that is learned from many samples, each of which is a fair one.

use std::sync::atomic::{AtomicU32, Ordering};

/// A sample counts as much as this many before it and together with it.
const SAMPLES: u32 = 16;

/// A decayed mean: each sample moves it by a sixteenth of the difference.
#[derive(Debug)]
pub(super) struct Learned(AtomicU32);

impl Learned {
    /// `first`: what is taken before anything was learned.
    pub(super) fn new(first: u32) -> Self {
        Self(AtomicU32::new(first))
    }

    pub(super) fn get(&self) -> u64 {
        u64::from(self.0.load(Ordering::Relaxed))
    }

    /// Two threads may overwrite each other's step: each is a fair sample.
    pub(super) fn learn(&self, seen: u64) {
        let old = self.0.load(Ordering::Relaxed);
        let seen = u32::try_from(seen).unwrap_or(u32::MAX);
        self.0.store(old - old / SAMPLES + seen / SAMPLES, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_close_to_what_is_seen_again_and_again_and_stays_within_it() {
        for (first, seen) in [(4_000, 2_000), (50_000, 100_000_000), (50_000, 1_000), (7, 7), (0, u64::MAX)] {
            let learned = Learned::new(first);
            for _ in 0..400 {
                learned.learn(seen);
            }
            let (got, seen) = (learned.get(), seen.min(u64::from(u32::MAX)));
            assert!(got.abs_diff(seen) <= seen / 100 + 256, "{got} of {seen}");
        }
    }
}
