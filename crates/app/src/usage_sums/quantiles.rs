//! Quantiles of durations in bounded memory.

/// The shortest and longest durations told apart, in milliseconds: about 1 µs and 25 days. Powers of two.
const SHORTEST: f64 = 1.0 / 1024.0;
const LONGEST: f64 = 2_147_483_648.0;
/// The bits of a double below the exponent and the first five of the fraction.
const DROPPED: u32 = 52 - 5;

/// A histogram whose buckets are the octaves of a duration, each cut into 32 equal parts (the leading bits of the
/// floating-point number, as in HdrHistogram). A quantile is the middle of its bucket: at most 1/64, or 1.6 %, off the
/// true one. Between [`SHORTEST`] and [`LONGEST`] there are 1,313 buckets; only those between the smallest and the
/// largest value take memory, so the most is about 10 KiB.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quantiles {
    count: u64,
    /// Bucket of `buckets[0]`.
    first: usize,
    buckets: Vec<u64>,
    least: f64,
    most: f64,
}

impl Quantiles {
    /// Adds a duration in milliseconds.
    pub(crate) fn add(&mut self, millis: f64) {
        let millis = millis.max(0.0);
        self.widen(millis, millis);
        let bucket = bucket_of(millis);
        self.count_in(bucket, 1);
    }

    /// Adds all that `other` holds.
    pub(crate) fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.widen(other.least, other.most);
        for (place, count) in other.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.count_in(other.first + place, *count);
        }
    }

    /// The smallest duration that at least the share `q` (0..=1) of all is not longer than, in milliseconds; None
    /// where there is none.
    pub(crate) fn at(&self, q: f64) -> Option<f64> {
        let rank = ((self.count as f64 * q).ceil() as u64).clamp(1, self.count.max(1));
        let mut below = 0;
        let place = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(middle_of(self.first + place).clamp(self.least, self.most))
    }

    fn widen(&mut self, least: f64, most: f64) {
        let empty = self.count == 0;
        self.least = if empty { least } else { self.least.min(least) };
        self.most = if empty { most } else { self.most.max(most) };
    }

    fn count_in(&mut self, bucket: usize, count: u64) {
        if self.buckets.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = self.first - bucket;
            self.buckets.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let place = bucket - self.first;
        if place >= self.buckets.len() {
            self.buckets.resize(place + 1, 0);
        }
        self.buckets[place] += count;
        self.count += count;
    }
}

fn bucket_of(millis: f64) -> usize {
    let bits = millis.clamp(SHORTEST, LONGEST).to_bits() >> DROPPED;
    usize::try_from(bits - (SHORTEST.to_bits() >> DROPPED)).unwrap_or(0)
}

fn middle_of(bucket: usize) -> f64 {
    let edge = |bucket: usize| f64::from_bits(((SHORTEST.to_bits() >> DROPPED) + bucket as u64) << DROPPED);
    f64::midpoint(edge(bucket), edge(bucket + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_has_no_quantile_and_one_value_is_its_own() {
        assert_eq!(Quantiles::default().at(0.5), None);
        for value in [0.0, 0.000_1, 1.0, 182.417, 1e12] {
            let mut quantiles = Quantiles::default();
            quantiles.add(value);
            assert_eq!(quantiles.at(0.5), Some(value));
            assert_eq!(quantiles.at(0.95), Some(value));
        }
    }

    #[test]
    fn the_whole_range_takes_1313_buckets() {
        assert_eq!((bucket_of(0.0), bucket_of(-1.0), bucket_of(f64::MAX)), (0, 0, 1312));
    }

    proptest! {
        #[test]
        fn a_quantile_is_within_the_stated_error(
            values in proptest::collection::vec(0.001_f64..2e9, 1..200), cut in 0_usize..200, q in 0.0_f64..=1.0,
        ) {
            let (left, right) = values.split_at(cut.min(values.len()));
            let mut quantiles = Quantiles::default();
            let mut others = Quantiles::default();
            left.iter().for_each(|value| quantiles.add(*value));
            right.iter().for_each(|value| others.add(*value));
            quantiles.merge(&others);
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let rank = ((values.len() as f64 * q).ceil() as usize).clamp(1, values.len());
            let (exact, told) = (sorted[rank - 1], quantiles.at(q).unwrap());
            prop_assert!((told - exact).abs() <= exact / 64.0 * 1.000_001, "{told} for {exact}");
        }
    }
}
