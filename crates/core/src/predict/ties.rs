//! The cheapest of many, where small differences do not count.

use smallvec::SmallVec;
use std::cmp::Reverse;

/// Seconds within which two costs, or two times to a first token, are the same.
pub(crate) const WINDOW: f64 = 0.020;

/// What decides within the window: the smallest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Standing {
    /// LIVE before PROBING.
    pub(crate) probing: bool,
    /// Blocks of the prompt that draw it to the replica: the most.
    pub(crate) depth: Reverse<u32>,
    /// Own open requests, and half of what others had there at the last scrape.
    pub(crate) inflight: u32,
    /// Requests that it got lately: at light load nothing is in flight, and whoever is alike by turn alone has its talks
    /// gather by chance.
    pub(crate) lately: u32,
    /// How long it is until this one's turn.
    pub(crate) distance: usize,
}

/// Those of the replicas seen so far that may still win, from the cheapest with the worst standing to the dearest with the
/// best: whoever is dearer than another and stands worse never wins.
#[derive(Clone, Debug)]
pub(crate) struct Ties<R>(SmallVec<[(f64, Standing, R); 8]>);

impl<R> Default for Ties<R> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<R: Copy> Ties<R> {
    pub(crate) fn offer(&mut self, cost: f64, standing: Standing, replica: R) {
        if cost.is_nan() || self.limit().is_some_and(|limit| cost > limit) {
            return;
        }
        // Those to its left are not dearer.
        let at = self.0.partition_point(|known| known.0 <= cost);
        if at.checked_sub(1).is_some_and(|left| self.0[left].1 <= standing) {
            return;
        }
        let beats = self.0[at..].iter().take_while(|known| known.1 >= standing).count();
        self.0.drain(at..at + beats);
        // More than a handful of steps within the window are told apart no further.
        if self.0.len() < self.0.inline_size() {
            self.0.insert(at, (cost, standing, replica));
        } else if let Some(known) = self.0.get_mut(at) {
            *known = (cost, standing, replica);
        }
        let limit = self.limit().unwrap_or(cost);
        while self.0.last().is_some_and(|last| last.0 > limit) {
            self.0.pop();
        }
    }

    /// Costs above this lose whatever their standing.
    pub(crate) fn limit(&self) -> Option<f64> {
        self.0.first().map(|best| best.0 + WINDOW)
    }

    pub(crate) fn winner(&self) -> Option<(R, Standing)> {
        self.0.last().map(|best| (best.2, best.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prng::{SplitMix64, below};

    fn standing(depth: u32, inflight: u32, distance: usize) -> Standing {
        Standing { depth: Reverse(depth), inflight, lately: 0, probing: false, distance }
    }

    fn winner(offers: &[(f64, Standing)]) -> Option<usize> {
        let mut ties = Ties::default();
        offers
            .iter()
            .enumerate()
            .for_each(|(replica, (cost, standing))| ties.offer(*cost, *standing, replica));
        ties.winner().map(|(replica, _)| replica)
    }

    #[test]
    fn beyond_the_window_cost_decides_and_within_it_the_match_then_the_load_then_the_turn() {
        let cases: [(&[(f64, Standing)], usize); 5] = [
            (&[(1.0, standing(0, 9, 9)), (1.021, standing(9, 0, 0))], 0),
            (&[(1.0, standing(0, 0, 0)), (1.019, standing(9, 9, 9))], 1),
            (&[(1.0, standing(2, 3, 0)), (1.01, standing(2, 2, 9))], 1),
            (&[(1.0, standing(2, 2, 5)), (1.01, standing(2, 2, 4))], 1),
            // The second is within 20 ms of the first, but not of the third.
            (&[(1.0, standing(0, 0, 0)), (1.015, standing(9, 0, 0)), (0.99, standing(1, 0, 0))], 2),
        ];
        for (index, (offers, expected)) in cases.into_iter().enumerate() {
            assert_eq!(winner(offers), Some(expected), "case {index}");
        }
        assert_eq!(winner(&[]), None);
        assert_eq!(winner(&[(f64::NAN, standing(0, 0, 0))]), None);
    }

    #[test]
    fn the_order_of_offers_does_not_matter() {
        let mut rng = SplitMix64::new(5);
        for _ in 0..2000 {
            let offers: Vec<(f64, Standing)> = (0..12)
                .map(|distance| {
                    let cost = below(rng.next(), 60) as f64 / 1000.0;
                    (cost, standing(below(rng.next(), 3) as u32, below(rng.next(), 3) as u32, distance))
                })
                .collect();
            let limit = offers.iter().map(|offer| offer.0).fold(f64::INFINITY, f64::min) + WINDOW;
            let expected = offers
                .iter()
                .enumerate()
                .filter(|(_, offer)| offer.0 <= limit)
                .min_by_key(|(_, offer)| offer.1);
            assert_eq!(winner(&offers), expected.map(|(index, _)| index), "{offers:?}");
        }
    }
}
