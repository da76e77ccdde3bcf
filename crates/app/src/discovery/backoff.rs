//! How long a source that fails is left alone.

use std::time::Duration;

/// After the first failure.
const SHORTEST: Duration = Duration::from_secs(1);
/// However often it fails.
const LONGEST: Duration = Duration::from_secs(30);

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff(u32);

impl Backoff {
    /// It has not failed.
    pub(super) fn reset(&mut self) {
        self.0 = 0;
    }

    /// It has failed once more: doubles from 1 s to 30 s, of which between half and all is waited, so that gateways
    /// that lost the same source do not come back together.
    pub(super) fn next(&mut self) -> Duration {
        let mut word = [0; 2];
        // Without chance all wait for as long as may be.
        let part = getrandom::fill(&mut word).map_or(u16::MAX, |()| u16::from_le_bytes(word));
        self.step(part)
    }

    fn step(&mut self, part: u16) -> Duration {
        let most = SHORTEST.saturating_mul(1 << self.0.min(8)).min(LONGEST);
        self.0 = self.0.saturating_add(1);
        most / 2 + (most / 2).mul_f64(f64::from(part) / f64::from(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let most: Vec<u64> = (0..7).map(|_| backoff.step(u16::MAX).as_secs()).collect();
        assert_eq!(most, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(backoff.step(0), LONGEST / 2, "half of it at least");
        backoff.reset();
        assert_eq!(backoff.step(0), SHORTEST / 2);
    }
}
