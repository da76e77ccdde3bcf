//! What was used in the last 60 s.
//!
//! A sliding window log: an entry counts from the moment it is made until it is 60 s old. Entries less than a second
//! apart share a bucket, which leaves when its newest entry is 60 s old. So never more than the limit is let through
//! in any 60 s, a lone entry leaves at exactly 60 s, none counts for longer than 61 s, and a window never holds more
//! than 62 buckets. (Fixed windows let through twice the limit around their edge, token buckets twice the limit in the
//! first minute after a rest.)

use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);
const GRAIN: Duration = Duration::from_secs(1);

/// The bucket an entry went to: when that was begun. Buckets begin at least a second apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BucketId(Time);

#[derive(Clone, Debug)]
struct Bucket {
    first: BucketId,
    last: Time,
    /// Wide enough for every sum: a saturated one could not be taken back.
    amount: u128,
}

#[derive(Clone, Debug, Default)]
pub(super) struct SlidingWindow {
    buckets: VecDeque<Bucket>,
    /// Of all buckets, those that have left since the last entry included.
    total: u128,
}

impl SlidingWindow {
    /// `now` must not step back.
    pub(super) fn add(&mut self, now: Time, amount: u64) -> BucketId {
        while let Some(left) = self.buckets.pop_front_if(|bucket| !bucket.counts(now)) {
            self.total -= left.amount;
        }
        if amount == 0 {
            return BucketId(now);
        }
        self.total += u128::from(amount);
        if let Some(newest) = self.buckets.back_mut()
            && now.since(newest.first.0) < GRAIN
        {
            newest.last = now;
            newest.amount += u128::from(amount);
            return newest.first;
        }
        let first = BucketId(now);
        self.buckets.push_back(Bucket { first, last: now, amount: u128::from(amount) });
        first
    }

    /// Takes back a part of what was added to a bucket; nothing where that has left since.
    pub(super) fn take_back(&mut self, id: BucketId, amount: u64) {
        if let Ok(index) = self.buckets.binary_search_by_key(&id, |bucket| bucket.first) {
            let bucket = &mut self.buckets[index];
            debug_assert!(bucket.amount >= u128::from(amount), "more taken back than was added");
            let taken = bucket.amount.min(u128::from(amount));
            bucket.amount -= taken;
            self.total -= taken;
        }
    }

    pub(super) fn used(&self, now: Time) -> u128 {
        let left = self.buckets.iter().take_while(|bucket| !bucket.counts(now));
        self.total - left.map(|bucket| bucket.amount).sum::<u128>()
    }

    /// How long it takes until no more than `most` is used; `None`: that is so now.
    pub(super) fn wait(&self, now: Time, most: u64) -> Option<Duration> {
        let mut used = self.used(now);
        let mut wait = None;
        for bucket in self.counting(now) {
            if used <= u128::from(most) {
                break;
            }
            used -= bucket.amount;
            wait = Some((bucket.last + WINDOW).since(now));
        }
        wait
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.buckets.len()
    }

    fn counting(&self, now: Time) -> impl Iterator<Item = &Bucket> {
        self.buckets.iter().filter(move |bucket| bucket.counts(now))
    }
}

impl Bucket {
    fn counts(&self, now: Time) -> bool {
        now.since(self.last) < WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn an_entry_counts_until_it_is_sixty_seconds_old() {
        let mut window = SlidingWindow::default();
        for (millis, amount) in [(0, 5), (900, 1), (1000, 2), (30_000, 4)] {
            window.add(at(millis), amount);
        }
        let rows =
            [(30_000, 12), (60_000, 12), (60_899, 12), (60_900, 6), (60_999, 6), (61_000, 4), (90_000, 0)];
        for (millis, used) in rows {
            assert_eq!(window.used(at(millis)), used, "at {millis} ms");
        }
    }

    #[test]
    fn the_wait_is_the_first_moment_at_which_it_is_over() {
        let mut window = SlidingWindow::default();
        [(0, 5), (10_000, 3), (20_000, 1)].into_iter().for_each(|(millis, amount)| {
            window.add(at(millis), amount);
        });
        let rows = [(9, None), (8, Some(40)), (4, Some(40)), (3, Some(50)), (1, Some(50)), (0, Some(60))];
        for (most, seconds) in rows {
            let wait = window.wait(at(20_000), most);
            assert_eq!(wait, seconds.map(Duration::from_secs), "at most {most}");
            if let Some(wait) = wait {
                let then = at(20_000) + wait;
                assert!(window.used(then) <= u128::from(most));
                assert!(window.used(Time::from_nanos(then.as_nanos() - 1)) > u128::from(most), "not earlier");
            }
        }
    }

    #[test]
    fn what_is_taken_back_is_gone_from_where_it_was_and_from_nowhere_else() {
        let mut window = SlidingWindow::default();
        let (first, second) = (window.add(at(0), 5), window.add(at(1000), 7));
        window.take_back(first, 4);
        assert_eq!((window.used(at(1000)), window.used(at(60_000))), (8, 7));
        window.add(at(60_500), 1);
        window.take_back(first, 1);
        window.take_back(second, 7);
        assert_eq!(window.used(at(60_500)), 1);
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut window = SlidingWindow::default();
        for n in 0..100_000 {
            window.add(at(n * 7), 1);
            assert!(window.len() <= 62);
        }
        window.add(at(10_000_000), 0);
        assert_eq!(window.len(), 0);
    }
}
