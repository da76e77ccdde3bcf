//! How much there is to prefill.

use std::ops::{Add, AddAssign, SubAssign};

/// The part of a prompt that an engine has to work on, or a sum of such parts. Integers, so that sums return to exactly
/// zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Tokens.
    pub(crate) size: u64,
    /// Tokens times the mean number of tokens before them: what attention has to look back at.
    pub(crate) lookback: u64,
}

impl Work {
    /// A prompt of `tokens`, of which the first `cached` are known. At least one is worked on.
    pub(crate) fn of(tokens: u32, cached: u32) -> Self {
        let (tokens, cached) = (u64::from(tokens.max(1)), u64::from(cached));
        let size = tokens.saturating_sub(cached).max(1);
        Self { size, lookback: size * (tokens - size + tokens) / 2 }
    }
}

impl Add for Work {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Self) {
        self.size += other.size;
        self.lookback += other.lookback;
    }
}

impl SubAssign for Work {
    fn sub_assign(&mut self, other: Self) {
        self.size -= other.size;
        self.lookback -= other.lookback;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cached_part_is_looked_back_at_and_not_worked_on() {
        for (tokens, cached, size, lookback) in [
            (1000, 0, 1000, 1000 * 500),
            (1000, 600, 400, 400 * 800),
            (1000, 1000, 1, 999),
            (1000, 2000, 1, 999),
            (0, 0, 1, 0),
        ] {
            assert_eq!(Work::of(tokens, cached), Work { size, lookback }, "{tokens} of which {cached}");
        }
    }
}
