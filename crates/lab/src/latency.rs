//! Latencies in bounded memory.

use std::time::Duration;

/// Sub-buckets per power of two.
const STEPS: u64 = 256;
/// Microseconds up to 2^36 (19 hours); longer ones count as that.
const POWERS: u64 = 36;

/// A histogram whose buckets grow with the value, so that every quantile is off by at most 1/256 (0.4 %). The layout is
/// that of HdrHistogram: linear below 256 µs, then 256 buckets for each doubling.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyHistogram {
    counts: Vec<u64>,
    count: u64,
    sum: Duration,
    min: Duration,
    max: Duration,
}

/// The usual figures of a distribution; all zero for an empty one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Number of values.
    pub count: u64,
    /// The smallest, exact.
    pub min: Duration,
    /// Exact.
    pub mean: Duration,
    /// The median, within 0.4 %.
    pub p50: Duration,
    /// Within 0.4 %.
    pub p90: Duration,
    /// Within 0.4 %.
    pub p95: Duration,
    /// Within 0.4 %.
    pub p99: Duration,
    /// The largest, exact.
    pub max: Duration,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        let buckets = bucket_of(1 << POWERS) + 1;
        let (sum, min, max) = (Duration::ZERO, Duration::MAX, Duration::ZERO);
        Self { counts: vec![0; buckets], count: 0, sum, min, max }
    }
}

impl LatencyHistogram {
    /// Adds a value.
    pub fn record(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).min(1 << POWERS);
        if let Some(count) = self.counts.get_mut(bucket_of(micros)) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(latency);
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    /// The smallest value that at least the part `q` (0 to 1) of all values do not exceed, within 0.4 %; zero without values.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((q * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_micros(upper_bound(bucket)).clamp(self.min, self.max);
            }
        }
        Duration::ZERO
    }

    /// Count, extremes, mean and quantiles.
    #[must_use]
    pub fn summary(&self) -> LatencySummary {
        if self.count == 0 {
            return LatencySummary::default();
        }
        LatencySummary {
            count: self.count,
            min: self.min,
            mean: Duration::from_nanos((self.sum.as_nanos() / u128::from(self.count)) as u64),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            max: self.max,
        }
    }
}

fn bucket_of(micros: u64) -> usize {
    if micros < STEPS {
        return micros as usize;
    }
    // The top nine bits: the leading one and eight that choose among 256 steps.
    let shift = u64::from(micros.ilog2()) - u64::from(STEPS.ilog2());
    ((shift + 1) * STEPS + ((micros >> shift) - STEPS)) as usize
}

/// The largest value of a bucket, in microseconds.
fn upper_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    ((STEPS + bucket % STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_adjacent_and_within_a_256th() {
        let mut expected = 0;
        for bucket in 0..=bucket_of(1 << POWERS) {
            assert_eq!(bucket_of(expected), bucket, "{expected} begins a bucket");
            let upper = upper_bound(bucket);
            assert_eq!(bucket_of(upper), bucket);
            assert!((upper - expected) * STEPS <= expected, "bucket {bucket} is narrow");
            expected = upper + 1;
        }
    }

    #[test]
    fn quantiles_mean_and_extremes() {
        let mut histogram = LatencyHistogram::default();
        assert_eq!(histogram.summary(), LatencySummary::default());
        (1..=1000).for_each(|millis| histogram.record(Duration::from_millis(millis)));
        let summary = histogram.summary();
        assert_eq!(
            (summary.count, summary.min, summary.max),
            (1000, Duration::from_millis(1), Duration::from_secs(1))
        );
        assert_eq!(summary.mean, Duration::from_micros(500_500));
        for (value, exact) in [(summary.p50, 500.0), (summary.p95, 950.0), (summary.p99, 990.0)] {
            let millis = value.as_secs_f64() * 1e3;
            assert!((exact..=exact * 1.004).contains(&millis), "{millis} for {exact}");
        }
    }

    #[test]
    fn absurd_values_are_counted() {
        let mut histogram = LatencyHistogram::default();
        histogram.record(Duration::MAX);
        histogram.record(Duration::ZERO);
        assert_eq!((histogram.summary().count, histogram.summary().max), (2, Duration::MAX));
    }
}
