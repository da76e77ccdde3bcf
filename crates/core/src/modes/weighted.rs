//! Mode `weighted`: each target has its share of the requests, over short windows, too.

use crate::ids::TargetIndex;

/// The shares of a route's targets: as many as there are targets, at least one of them above zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares(Vec<u32>);

impl Shares {
    /// One weight for each target of the route, in their order. `None` where all are zero.
    #[must_use]
    pub fn new(weights: Vec<u32>) -> Option<Self> {
        weights.iter().any(|weight| *weight > 0).then_some(Self(weights))
    }

    /// The targets that take new traffic.
    pub(crate) fn in_play(&self) -> impl Iterator<Item = TargetIndex> {
        (0..).map(TargetIndex).zip(&self.0).filter(|(_, weight)| **weight > 0).map(|(target, _)| target)
    }

    /// The sum of all weights.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.0.iter().map(|weight| f64::from(*weight)).sum()
    }

    /// The weight of one target; 0: no new traffic.
    #[must_use]
    pub fn of(&self, target: TargetIndex) -> u32 {
        self.0.get(target.index()).copied().unwrap_or(0)
    }
}

/// How much each target is owed: what makes the choice smooth.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credits(Vec<i64>);

impl Credits {
    /// The target whose turn it is among those that `fit`: smooth weighted choice, as in nginx
    /// (`ngx_http_upstream_round_robin.c`, "smooth weighted round-robin balancing"). Each gains its weight, the richest is
    /// chosen and pays for all. Whoever does not fit neither gains nor pays, so it does not come back with a claim.
    pub(crate) fn next(&mut self, shares: &Shares, fit: impl Fn(TargetIndex) -> bool) -> Option<TargetIndex> {
        self.0.resize(shares.0.len(), 0);
        let (mut sum, mut best) = (0, None);
        for (target, credit, weight) in in_play(&mut self.0, shares, &fit) {
            *credit += weight;
            sum += weight;
            if best.is_none_or(|(_, most)| *credit > most) {
                best = Some((target, *credit));
            }
        }
        let (target, _) = best?;
        if let Some(credit) = self.0.get_mut(target.index()) {
            *credit -= sum;
        }
        Some(target)
    }

    /// The same without a claim on the shares: for a request that has had its turn, and goes on elsewhere.
    pub(crate) fn after(
        &mut self,
        shares: &Shares,
        fit: impl Fn(TargetIndex) -> bool,
    ) -> Option<TargetIndex> {
        self.0.resize(shares.0.len(), 0);
        let richest = |best: Option<(TargetIndex, i64)>,
                       (target, credit, weight): (TargetIndex, &mut i64, i64)| {
            let owed = *credit + weight;
            if best.is_none_or(|(_, most)| owed > most) { Some((target, owed)) } else { best }
        };
        in_play(&mut self.0, shares, &fit).fold(None, richest).map(|(target, _)| target)
    }
}

fn in_play<'c>(
    credits: &'c mut [i64],
    shares: &'c Shares,
    fit: &'c impl Fn(TargetIndex) -> bool,
) -> impl Iterator<Item = (TargetIndex, &'c mut i64, i64)> {
    credits.iter_mut().zip(&shares.0).zip(0..).filter_map(move |((credit, weight), index)| {
        let target = TargetIndex(index);
        (*weight > 0 && fit(target)).then(|| (target, credit, i64::from(*weight)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(weights: &[u32], n: usize, fit: impl Fn(TargetIndex) -> bool) -> Vec<u32> {
        let shares = Shares::new(weights.to_vec()).expect("one is above zero");
        let mut credits = Credits::default();
        (0..n).filter_map(|_| credits.next(&shares, &fit)).map(|target| target.0).collect()
    }

    #[test]
    fn shares_hold_over_every_short_window() {
        for weights in [&[100, 300][..], &[5, 1, 1], &[1, 1, 1, 1], &[0, 7, 93], &[1]] {
            let sum: u32 = weights.iter().sum();
            let chosen = run(weights, 1000, |_| true);
            for window in [4, 10, 100, 1000] {
                for part in chosen.windows(window) {
                    for (target, weight) in (0..).zip(weights) {
                        let expected = f64::from(*weight) / f64::from(sum) * window as f64;
                        let got = part.iter().filter(|t| **t == target).count() as f64;
                        assert!(
                            (got - expected).abs() <= weights.len() as f64,
                            "{weights:?} {target}: {got}"
                        );
                    }
                }
            }
        }
        assert_eq!(run(&[5, 1, 1], 7, |_| true), [0, 0, 1, 0, 2, 0, 0], "the published example");
    }

    #[test]
    fn weight_zero_takes_nothing_and_all_zero_is_no_choice() {
        assert!(run(&[0, 1], 100, |_| true).iter().all(|t| *t == 1));
        assert_eq!(Shares::new(vec![0, 0]), None);
        assert_eq!(Shares::new(Vec::new()), None);
        assert_eq!(run(&[0, 1], 3, |t| t.0 == 0), [] as [u32; 0], "not even where nobody else fits");
    }

    #[test]
    fn a_target_that_was_out_comes_back_without_a_claim() {
        let shares = Shares::new(vec![1, 1]).expect("both are above zero");
        let mut credits = Credits::default();
        for _ in 0..1000 {
            assert_eq!(credits.next(&shares, |t| t.0 == 0), Some(TargetIndex(0)));
        }
        let back: Vec<_> = (0..4).filter_map(|_| credits.next(&shares, |_| true)).map(|t| t.0).collect();
        assert_eq!(back.iter().filter(|t| **t == 1).count(), 2, "{back:?}");
    }

    #[test]
    fn whoever_goes_on_elsewhere_changes_no_shares() {
        let shares = Shares::new(vec![1, 3]).expect("both are above zero");
        let mut credits = Credits::default();
        let mut chosen = Vec::new();
        for _ in 0..1000 {
            let target = credits.next(&shares, |_| true).expect("both fit");
            chosen.push(target);
            assert_eq!(credits.after(&shares, |t| t != target), Some(TargetIndex(1 - target.0)));
        }
        assert_eq!(chosen.iter().filter(|t| t.0 == 0).count(), 250);
    }
}
