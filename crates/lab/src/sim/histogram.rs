//! A Prometheus histogram.

use std::time::Duration;

/// Counts per bucket; the bounds are inclusive upper ones, ascending.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bounds: &'static [f64],
    /// One more than bounds: the last is above all of them.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    pub(super) fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(super) fn observe(&mut self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.sum += value;
    }

    pub(super) fn observe_time(&mut self, time: Duration) {
        self.observe(time.as_secs_f64());
    }

    /// Upper bounds (the last infinite) with the number of values up to each.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |total, count| {
            *total += count;
            Some(*total)
        }))
    }

    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_counts_for_it_and_buckets_are_cumulative() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 9.0].into_iter().for_each(|value| histogram.observe(value));
        let buckets: Vec<_> = histogram.cumulative().collect();
        assert_eq!(buckets, [(1.0, 2), (2.0, 3), (f64::INFINITY, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 12.0));
    }
}
