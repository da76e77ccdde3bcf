//! How slow one replica is, next to its pool's fit.

/// Ratios within this of 1 are chance as far as choosing is concerned.
const IGNORED: f64 = 1.25;
/// A single sample counts as no farther off than this.
const FARTHEST: f64 = 8.0;
/// Weight of 1 before there is data, in samples.
const PRIOR: f64 = 3.0;
/// Weight of the newest sample once there are many.
const NEWEST: f64 = 0.05;

/// The running ratio of measured to predicted prefill time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    ratio: f64,
    samples: f64,
}

impl Default for Speed {
    fn default() -> Self {
        Self { ratio: 1.0, samples: 0.0 }
    }
}

impl Speed {
    /// What predictions are multiplied by: 2 is half as fast.
    pub(crate) fn slowness(self) -> f64 {
        if (1.0 / IGNORED..=IGNORED).contains(&self.ratio) { 1.0 } else { self.ratio }
    }

    /// `measured` and `predicted` (by the pool's fit alone): seconds.
    pub(crate) fn learn(&mut self, measured: f64, predicted: f64) {
        let ratio = measured / predicted;
        if !ratio.is_finite() {
            return;
        }
        self.samples += 1.0;
        let newest = (1.0 / (self.samples + PRIOR)).max(NEWEST);
        self.ratio += (ratio.clamp(1.0 / FARTHEST, FARTHEST) - self.ratio) * newest;
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
        // One sample has a quarter of the weight beside the prior: 1 + (1.8 - 1) / 4 = 1.2.
        assert_eq!(after(&[(1.8, 1.0)]), 1.0);
        // (3 * 1 + 2 * 1.8) / 5 = 1.32.
        assert!((after(&[(1.8, 1.0); 2]) - 1.32).abs() < 1e-12);
        assert!((after(&[(4.0, 2.0); 200]) - 2.0).abs() < 0.01);
        assert!((after(&[(1.0, 2.0); 200]) - 0.5).abs() < 0.01);
    }

    #[test]
    fn one_stall_of_minutes_does_not_make_a_replica_slow_for_long() {
        let mut speed = Speed::default();
        (0..100).for_each(|_| speed.learn(1.0, 1.0));
        speed.learn(300.0, 1.0);
        // (8 - 1) * 0.05 = 0.35 above, and a twentieth of that less with each sample.
        assert!((speed.slowness() - 1.35).abs() < 0.01);
        (0..7).for_each(|_| speed.learn(1.0, 1.0));
        assert_eq!(speed.slowness(), 1.0);
    }

    #[test]
    fn nonsense_teaches_nothing() {
        assert_eq!(after(&[(1.0, 0.0), (f64::NAN, 1.0), (f64::INFINITY, 1.0)]), 1.0);
    }
}
