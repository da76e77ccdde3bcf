//! What was used in a calendar day or month.

use super::Spent;
use crate::money::Micros;

/// The latest day or month seen.
#[derive(Clone, Debug, Default)]
pub(super) struct Period {
    number: u32,
    /// Wide enough for every sum: a saturated one could not be taken back.
    tokens: u128,
    cost: u128,
}

impl Period {
    /// The day or month that it is now; its number.
    pub(super) fn enter(&mut self, number: u32) -> u32 {
        if number > self.number {
            *self = Self { number, ..Self::default() };
        }
        self.number
    }

    pub(super) fn add(&mut self, spent: Spent) {
        self.tokens += u128::from(spent.tokens);
        self.cost += u128::from(spent.cost.0);
    }

    /// Takes back a part of what was added to the period of that number; nothing where that is over.
    pub(super) fn take_back(&mut self, number: u32, spent: Spent) {
        if number == self.number {
            debug_assert!(self.tokens >= u128::from(spent.tokens), "more taken back than was added");
            self.tokens = self.tokens.saturating_sub(u128::from(spent.tokens));
            self.cost = self.cost.saturating_sub(u128::from(spent.cost.0));
        }
    }

    pub(super) fn tokens(&self, number: u32) -> u128 {
        if number > self.number { 0 } else { self.tokens }
    }

    pub(super) fn cost(&self, number: u32) -> u128 {
        if number > self.number { 0 } else { self.cost }
    }

    pub(super) fn spent(&self, number: u32) -> Spent {
        let narrow = |sum| u64::try_from(sum).unwrap_or(u64::MAX);
        Spent { tokens: narrow(self.tokens(number)), cost: Micros(narrow(self.cost(number))) }
    }
}
