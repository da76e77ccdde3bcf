//! The last few of something.

/// The last `N` values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recent<const N: usize> {
    values: [f32; N],
    len: usize,
    next: usize,
}

impl<const N: usize> Default for Recent<N> {
    fn default() -> Self {
        Self { values: [0.0; N], len: 0, next: 0 }
    }
}

impl<const N: usize> Recent<N> {
    pub(super) fn push(&mut self, value: f64) {
        self.values[self.next] = value as f32;
        self.next = (self.next + 1) % N;
        self.len = (self.len + 1).min(N);
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// A quarter of the values are below; 0 where there are none.
    pub(super) fn lower_quartile(&self) -> f64 {
        let mut sorted = self.values;
        let known = &mut sorted[..self.len];
        if known.is_empty() {
            return 0.0;
        }
        let at = (known.len() - 1) / 4;
        f64::from(*known.select_nth_unstable_by(at, f32::total_cmp).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quartile_is_that_of_the_last_ones_alone() {
        let mut recent = Recent::<8>::default();
        assert_eq!((recent.len(), recent.lower_quartile()), (0, 0.0));
        for (value, len, quartile) in
            [(5.0, 1, 5.0), (3.0, 2, 3.0), (9.0, 3, 3.0), (1.0, 4, 1.0), (7.0, 5, 3.0)]
        {
            recent.push(value);
            assert_eq!((recent.len(), recent.lower_quartile()), (len, quartile));
        }
        (0..8).rev().for_each(|value| recent.push(f64::from(value)));
        assert_eq!((recent.len(), recent.lower_quartile()), (8, 1.0));
    }
}
