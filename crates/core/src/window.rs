//! Counting what happened in the last while, in constant memory.

use crate::time::Time;
use std::time::Duration;

/// Events of the last `N` buckets of time, the running one included: a window of between `N - 1` and `N` widths.
#[derive(Clone, Debug)]
pub(crate) struct Window<const N: usize> {
    width: u64,
    newest: u64,
    buckets: [u32; N],
}

impl<const N: usize> Window<N> {
    /// `width`: time per bucket, at least one nanosecond.
    pub(crate) fn new(width: Duration) -> Self {
        Self { width: u64::try_from(width.as_nanos()).unwrap_or(u64::MAX).max(1), newest: 0, buckets: [0; N] }
    }

    pub(crate) fn add(&mut self, now: Time) {
        let bucket = (now.as_nanos() / self.width).max(self.newest);
        let passed = bucket - self.newest;
        if passed >= N as u64 {
            self.buckets = [0; N];
        } else {
            for step in 1..=passed {
                self.buckets[slot::<N>(self.newest + step)] = 0;
            }
        }
        self.newest = bucket;
        let count = &mut self.buckets[slot::<N>(bucket)];
        *count = count.saturating_add(1);
    }

    pub(crate) fn count(&self, now: Time) -> u64 {
        let bucket = (now.as_nanos() / self.width).max(self.newest);
        let gone = bucket - self.newest;
        let kept = (N as u64).saturating_sub(gone).min(self.newest + 1);
        (0..kept).map(|age| u64::from(self.buckets[slot::<N>(self.newest - age)])).sum()
    }
}

fn slot<const N: usize>(bucket: u64) -> usize {
    (bucket % N as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_the_window_bucket_by_bucket() {
        let second = |s: u64| Time::ZERO + Duration::from_secs(s);
        let mut window = Window::<60>::new(Duration::from_secs(1));
        for (at, times) in [(0, 2), (30, 3), (59, 1)] {
            for _ in 0..times {
                window.add(second(at));
            }
        }
        for (at, count) in [(59, 6), (60, 4), (89, 4), (90, 1), (118, 1), (119, 0), (10_000, 0)] {
            assert_eq!(window.count(second(at)), count, "at {at} s");
        }
        window.add(second(10_000));
        assert_eq!(window.count(second(10_000)), 1);
    }

    #[test]
    fn a_clock_that_steps_back_counts_in_the_newest_bucket() {
        let mut window = Window::<10>::new(Duration::from_secs(1));
        window.add(Time::from_nanos(5_000_000_000));
        window.add(Time::from_nanos(1));
        assert_eq!(window.count(Time::from_nanos(5_000_000_000)), 2);
    }
}
