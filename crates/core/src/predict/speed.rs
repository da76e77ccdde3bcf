//! How far prefills are off what the fit says: of one replica, which may be slow, and of its pool, whose predictions may be
//! bad.
//!
//! A replica is slow if even its best prefills take longer than the best of its pool: the lower quartile is compared. A
//! request that had to wait behind one that others have sent takes longer without the replica being slow; that says much of
//! means and little of quartiles. What tells slow from chance is how far predictions are off in this pool.

use super::fit::OVERHEAD;
use super::recent::Recent;

/// Ratios within this of 1 are chance as far as choosing is concerned.
const IGNORED: f64 = 1.25;
/// Standard errors that a ratio must be off besides. With dozens of replicas, whose ratios are looked at all the time, two
/// are nothing rare.
const ERRORS: f64 = 3.0;
/// Standard error of the lower quartile of normal samples, times the root of their number, in standard deviations.
const QUARTILE_ERROR: f64 = 1.36;
/// Standard deviation of normal samples in mean absolute ones.
const MEAN_ABSOLUTE: f64 = 1.25;
/// Samples that are remembered, of a replica and of its pool: enough for a quartile, and few enough to notice a replica
/// that was slow for a while.
const OWN: usize = 32;
const POOL: usize = 64;
/// Mean absolute deviation before there is data (a fifth more or less than predicted), and the samples that it stands for.
const PRIOR: (f64, f64) = (0.1, 4.0);
/// Weight of the newest sample in the mean, once there are many.
const NEWEST: f64 = 0.01;

/// 0 where a prefill took as long as predicted, 1/3 where twice as long, -1/3 where half as long: half of the ratio's
/// logarithm, as long as that is small, without its ends. The overhead of a step is what makes short prompts
/// seem slow wherever they go.
fn deviation(measured: f64, predicted: f64) -> f64 {
    (measured - predicted) / (measured + predicted + 2.0 * OVERHEAD)
}

/// The deviations of a pool's prefills.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scatter {
    recent: Recent<POOL>,
    quartile: f64,
    /// Mean absolute deviation from what was predicted with the replicas' ratios.
    off: f64,
    samples: f64,
}

impl Default for Scatter {
    fn default() -> Self {
        Self { recent: Recent::default(), quartile: 0.0, off: PRIOR.0, samples: PRIOR.1 }
    }
}

impl Scatter {
    /// The part of a prefill that may still be to come when it has taken as long as predicted, and longer: what predictions
    /// are usually off by. With logarithms that are normal (0.3, 0.7) the mean rest is (0.29, 0.94) of the prediction then,
    /// and no less later: nearly their standard deviation.
    pub(crate) fn doubt(&self) -> f64 {
        (2.0 * MEAN_ABSOLUTE * self.off).min(1.0)
    }
}

/// The deviations of one replica's prefills.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speed {
    recent: Recent<OWN>,
    quartile: f64,
}

impl Speed {
    /// What predictions are multiplied by: 2 is half as fast.
    pub(crate) fn slowness(&self, pool: &Scatter) -> f64 {
        let error = QUARTILE_ERROR * MEAN_ABSOLUTE * pool.off / (self.recent.len() as f64).sqrt();
        let chance = (IGNORED - 1.0) / (IGNORED + 1.0) + ERRORS * error;
        // Without a sample the error is endless.
        if (self.quartile - pool.quartile).abs() <= chance {
            return 1.0;
        }
        let ratio = |deviation: f64| (1.0 + deviation) / (1.0 - deviation);
        ratio(self.quartile) / ratio(pool.quartile)
    }

    /// `measured` and `predicted` (by the pool's fit alone): seconds.
    pub(crate) fn learn(&mut self, measured: f64, predicted: f64, pool: &mut Scatter) {
        let (alone, with_ratio) =
            (deviation(measured, predicted), deviation(measured, predicted * self.slowness(pool)));
        if !(alone.is_finite() && with_ratio.is_finite()) {
            return;
        }
        pool.samples += 1.0;
        pool.off += (with_ratio.abs() - pool.off) * (1.0 / pool.samples).max(NEWEST);
        pool.recent.push(alone);
        pool.quartile = pool.recent.lower_quartile();
        self.recent.push(alone);
        self.quartile = self.recent.lower_quartile();
    }
}

#[cfg(test)]
mod tests;
