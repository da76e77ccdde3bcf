//! The pool's only randomness: a seeded generator, so that a run can be replayed.

use std::time::Duration;

/// SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014, figure 16.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// What the next call of `next` returns; changes nothing.
    pub(crate) fn peek(&self) -> u64 {
        mix(self.state.wrapping_add(GAMMA))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        mix(self.state)
    }

    /// Between 80 % and 100 % of `interval`: replicas drift apart, and none waits longer than was configured.
    pub(crate) fn jittered(&mut self, interval: Duration) -> Duration {
        let nanos = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(nanos - self.next() % (nanos / 5).max(1))
    }
}

/// The generator's output function: a bijection that spreads every input bit over the whole word.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number in `0..bound` made of a random word (0 if `bound` is 0): multiply-shift, its bias is below `bound` / 2^64.
pub(crate) fn below(word: u64, bound: usize) -> usize {
    ((u128::from(word) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        let mut prng = SplitMix64::new(1_234_567);
        let got: Vec<u64> = (0..3).map(|_| prng.next()).collect();
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn jitter_shortens_by_at_most_a_fifth() {
        let mut prng = SplitMix64::new(7);
        let interval = Duration::from_secs(3);
        for _ in 0..1000 {
            let got = prng.jittered(interval);
            assert!(got <= interval && got >= interval * 4 / 5, "{got:?}");
        }
        assert_eq!(prng.jittered(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn below_reaches_both_ends_and_never_the_bound() {
        assert_eq!((below(0, 5), below(u64::MAX, 5), below(u64::MAX, 0)), (0, 4, 0));
    }
}
