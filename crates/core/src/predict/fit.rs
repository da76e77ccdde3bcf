//! How long a prefill takes: `w1 * size + w2 * size * position`, learned from first bytes.
//!
//! Weighted least squares over the last few hundred samples. Each sample is divided by its own prediction and the tenth
//! of a second that a step may cost besides: long prompts do not drown the short ones, nor does what is no prefill count
//! as such. A prior of a mid-size model on one GPU stands in until there is data. Its shape keeps a
//! small weight, so that prompts that are all of one length do not leave one of the two coefficients unknown.

use super::ledger::Sample;
use super::work::Work;

/// Seconds per token before there is data: 10,000 tokens a second.
const PRIOR_SIZE: f64 = 1e-4;
/// Seconds per token and token before it: attention doubles the cost at 25,000 tokens.
const PRIOR_LOOKBACK: f64 = 4e-9;
/// What one more sample leaves of the weight of those before it: a memory of about 200.
const KEEP: f64 = 0.995;
/// Samples after which one that is far off is doubted.
const TRUSTED_AFTER: u32 = 16;
/// The most that a sample counts as off its prediction, as a part of it.
const FARTHEST: f64 = 0.5;
/// Share of samples that are far off from which on it is the fit that is doubted: the engine is another one.
const TOO_MANY: f64 = 0.5;
/// What one more sample adds to the share of those far off.
const RECENT: f64 = 0.05;
/// Seconds that a step of an engine may take whatever is prefilled: decoding, scheduling, the way there and back.
pub(super) const OVERHEAD: f64 = 0.1;
/// Prompts that the prior speaks about.
const ANCHORS: [u32; 2] = [500, 20_000];
/// Weight of the prior at the beginning, and of the shape that each sample adds.
const PRIOR_WEIGHT: (f64, f64) = (0.5, 0.005);

/// The prefill time of a pool's engines.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    size: f64,
    lookback: f64,
    /// Normal equations: the upper half of the matrix and the right side.
    matrix: [f64; 3],
    right: [f64; 2],
    samples: u32,
    /// Share of recent samples that were far off.
    far: f64,
}

impl Default for Fit {
    fn default() -> Self {
        let (size, lookback) = (PRIOR_SIZE, PRIOR_LOOKBACK);
        let mut fit = Self { size, lookback, matrix: [0.0; 3], right: [0.0; 2], samples: 0, far: 0.0 };
        fit.anchor(1.0, PRIOR_WEIGHT.0);
        fit
    }
}

impl Fit {
    /// Seconds that this much work takes the pool's engines on the mean.
    pub(crate) fn seconds(&self, work: Work) -> f64 {
        work.size as f64 * self.size + work.lookback as f64 * self.lookback
    }

    /// Seconds that one token without any before it takes.
    pub(crate) fn per_token(&self) -> f64 {
        self.size
    }

    /// It rests on data: what is far off it says something of whatever is off.
    pub(crate) fn is_trusted(&self) -> bool {
        self.samples >= TRUSTED_AFTER
    }

    /// One more measured prefill.
    pub(crate) fn learn(&mut self, sample: Sample) {
        if sample.work.size == 0 || sample.seconds <= 0.0 || !sample.seconds.is_finite() {
            return;
        }
        // What takes no longer than a step may take says nothing of its prefill, but that it takes no longer.
        if sample.seconds <= OVERHEAD && sample.seconds > self.seconds(sample.work) {
            return;
        }
        if self.samples == 0 {
            // Of a short prompt nearly all is what a step costs besides.
            self.rescale((sample.seconds + OVERHEAD) / (self.seconds(sample.work) + OVERHEAD));
        }
        let predicted = self.seconds(sample.work);
        let off = sample.seconds / predicted - 1.0;
        self.samples = self.samples.saturating_add(1);
        let trusted = self.samples > TRUSTED_AFTER && self.far < TOO_MANY;
        let is_far = !(1.0 / (1.0 + FARTHEST) - 1.0..=FARTHEST).contains(&off);
        if self.samples > TRUSTED_AFTER {
            self.far += (f64::from(u8::from(is_far)) - self.far) * RECENT;
        }
        let counted = if trusted { off.clamp(-FARTHEST, FARTHEST) } else { off };
        self.matrix.iter_mut().chain(&mut self.right).for_each(|sum| *sum *= KEEP);
        self.add(sample.work, predicted, 1.0 + counted, 1.0);
        self.anchor(1.0 + counted, PRIOR_WEIGHT.1);
        self.solve();
        // All that came before was divided by smaller or larger predictions: its weight is to stay what it was.
        let scale = (self.seconds(sample.work) + OVERHEAD) / (predicted + OVERHEAD);
        self.matrix.iter_mut().chain(&mut self.right).for_each(|sum| *sum /= scale * scale);
    }

    /// The first sample says how fast the engine is, the prior what that means for other lengths.
    fn rescale(&mut self, ratio: f64) {
        (self.size, self.lookback) = (self.size * ratio, self.lookback * ratio);
        (self.matrix, self.right) = ([0.0; 3], [0.0; 2]);
        self.anchor(1.0, PRIOR_WEIGHT.0);
    }

    /// Prompts of other lengths take as much longer as this one did: what keeps the fit's shape where there is no data.
    fn anchor(&mut self, ratio: f64, weight: f64) {
        for tokens in ANCHORS {
            let work = Work::of(tokens, 0);
            self.add(work, self.seconds(work), ratio, weight);
        }
    }

    fn add(&mut self, work: Work, predicted: f64, ratio: f64, weight: f64) {
        let scale = predicted + OVERHEAD;
        let (size, lookback) = (work.size as f64 / scale, work.lookback as f64 / scale);
        let ratio = ratio * predicted / scale;
        self.matrix[0] += weight * size * size;
        self.matrix[1] += weight * size * lookback;
        self.matrix[2] += weight * lookback * lookback;
        self.right[0] += weight * size * ratio;
        self.right[1] += weight * lookback * ratio;
    }

    /// Neither coefficient is negative; where one would be, the other explains everything.
    fn solve(&mut self) {
        let ([a, b, c], [x, y]) = (self.matrix, self.right);
        let det = a * c - b * b;
        let (size, lookback) = ((c * x - b * y) / det, (a * y - b * x) / det);
        let (size, lookback) = match (size > 0.0, lookback >= 0.0) {
            (true, true) => (size, lookback),
            (true, false) => (x / a, 0.0),
            _ => (self.size / 2.0, y / c),
        };
        if size.is_finite() && lookback.is_finite() && size > 0.0 {
            (self.size, self.lookback) = (size, lookback);
        }
    }
}

#[cfg(test)]
mod tests;
