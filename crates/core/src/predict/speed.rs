//! How slow one replica is, next to its pool's fit.

/// Ratios within this of 1 are chance as far as choosing is concerned.
const IGNORED: f64 = 1.25;
/// A single sample counts as no farther off than this.
const FARTHEST: f64 = 4.0;
/// Weight of 1, in samples of the usual size.
const PRIOR: f64 = 3.0;
/// What one more sample leaves of the weight of those before it: a memory of about 30.
const KEEP: f64 = 0.97;

/// Measured over predicted prefill time: a ratio of sums, not a mean of ratios, since what a step costs besides its
/// prefill makes short prompts seem slow wherever they go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// Fading sums, seconds.
    measured: f64,
    predicted: f64,
    /// Fading weights: of the samples, and of the prior.
    samples: f64,
    prior: f64,
}

impl Default for Speed {
    fn default() -> Self {
        Self { measured: 0.0, predicted: 0.0, samples: 0.0, prior: PRIOR }
    }
}

impl Speed {
    /// What predictions are multiplied by: 2 is half as fast.
    pub(crate) fn slowness(self) -> f64 {
        let ratio = self.ratio();
        if (1.0 / IGNORED..=IGNORED).contains(&ratio) { 1.0 } else { ratio }
    }

    fn ratio(self) -> f64 {
        if self.samples == 0.0 {
            return 1.0;
        }
        let prior = self.prior * self.predicted / self.samples;
        (self.measured + prior) / (self.predicted + prior)
    }

    /// `measured` and `predicted` (by the pool's fit alone): seconds.
    pub(crate) fn learn(&mut self, measured: f64, predicted: f64) {
        let ratio = measured / predicted;
        if !ratio.is_finite() {
            return;
        }
        let counted = ratio.clamp(1.0 / FARTHEST, FARTHEST) * predicted;
        self.measured = self.measured * KEEP + counted;
        self.predicted = self.predicted * KEEP + predicted;
        self.samples = self.samples * KEEP + 1.0;
        self.prior *= KEEP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples: &[(f64, f64)]) -> f64 {
        let mut speed = Speed::default();
        samples.iter().for_each(|(measured, predicted)| speed.learn(*measured, *predicted));
        speed.slowness()
    }

    #[test]
    fn a_ratio_near_1_is_ignored_and_one_farther_off_is_believed_with_evidence() {
        assert_eq!(after(&[]), 1.0);
        assert_eq!(after(&[(1.2, 1.0); 100]), 1.0);
        assert_eq!(after(&[(0.85, 1.0); 100]), 1.0);
        // One sample has a quarter of the weight beside the prior: (3 + 1.8) / 4 = 1.2.
        assert_eq!(after(&[(1.8, 1.0)]), 1.0);
        // After the second the samples weigh 1.97 and the prior 3 * 0.97^2.
        assert!((after(&[(1.8, 1.0); 2]) - (2.8227 + 1.97 * 1.8) / (2.8227 + 1.97)).abs() < 1e-9);
        assert!((after(&[(6.0, 2.0); 300]) - 3.0).abs() < 0.01);
        assert!((after(&[(1.0, 2.0); 300]) - 0.5).abs() < 0.01);
    }

    #[test]
    fn short_prompts_that_take_long_do_not_make_a_replica_slow() {
        let samples: Vec<(f64, f64)> =
            (0..100).map(|i| if i % 2 == 0 { (0.05, 0.01) } else { (1.0, 1.0) }).collect();
        assert_eq!(after(&samples), 1.0);
    }

    #[test]
    fn one_stall_of_minutes_does_not_make_a_replica_slow() {
        let mut speed = Speed::default();
        (0..100).for_each(|_| speed.learn(1.0, 1.0));
        speed.learn(300.0, 1.0);
        assert_eq!(speed.slowness(), 1.0);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        assert_eq!(after(&[(1.0, 0.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0)]), 1.0);
    }
}
