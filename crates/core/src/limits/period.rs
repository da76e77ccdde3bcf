//! What was used in a calendar day or month.
//!
//! The wall clock says which day or month it is, and it may be set, forward or back, while the gateway runs. So a new
//! one opens, with nothing used, when the clock names another than before *and* the open one is over by steady time: it
//! has lasted as long as the clock had said it would, give or take its slack. Where the clock names another one earlier
//! than that it was set, and the open one goes on under the new name, with what was used in it. What follows:
//!
//! - no setting of the clock opens a second budget: at most one opens early, by no more than the slack, or than what the
//!   clock was set forward within its day or month;
//! - none keeps a budget closed for good: when the clock names the next day or month after the open one is over by steady
//!   time it opens, at the latest one day or month late.
//!
//! (The latest number ever seen, as a rule, keeps a budget closed for years after a clock that was wrong for a moment;
//! the present number lets each swing over midnight open one.)

use super::{Calendar, Spent};
use crate::money::Micros;
use crate::time::Time;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// What the wall clock says of days, or of months.
#[derive(Clone, Copy)]
pub(super) struct Sight {
    number: u32,
    /// Until the clock names the next one.
    left: Duration,
    /// By how much a clock is set without more being meant by it than that it was not exact.
    slack: Duration,
}

impl Calendar {
    pub(super) fn of_day(self) -> Sight {
        Sight { number: self.day, left: self.day_left, slack: HOUR }
    }

    pub(super) fn of_month(self) -> Sight {
        Sight { number: self.month, left: self.month_left, slack: 24 * HOUR }
    }
}

/// Which one: counted as they open, since their numbers may come twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PeriodId(u32);

/// The open day or month.
#[derive(Clone, Debug, Default)]
pub(super) struct Period {
    id: PeriodId,
    /// The name that the clock gave it last.
    number: u32,
    /// When it is over by steady time.
    ends: Time,
    /// The clock was set across its beginning or end: what it says is left is that of another one.
    renamed: bool,
    /// Wide enough for every sum: a saturated one could not be taken back.
    tokens: u128,
    cost: u128,
}

impl Period {
    /// The one that is open now.
    pub(super) fn enter(&mut self, now: Time, sight: Sight) -> PeriodId {
        if self.is_over(now, sight) {
            *self = Self { id: PeriodId(self.id.0.wrapping_add(1)), ..Self::default() };
        } else if sight.number != self.number {
            self.renamed = true;
        }
        if !self.renamed {
            self.ends = now + sight.left;
        }
        self.number = sight.number;
        self.id
    }

    fn is_over(&self, now: Time, sight: Sight) -> bool {
        sight.number != self.number && now + sight.slack >= self.ends
    }

    /// How long it is open at least.
    pub(super) fn left(&self, now: Time, sight: Sight) -> Duration {
        self.ends.since(now).max(sight.left)
    }

    pub(super) fn add(&mut self, spent: Spent) {
        self.tokens += u128::from(spent.tokens);
        self.cost += u128::from(spent.cost.0);
    }

    /// Takes back a part of what was added to that one; nothing where it is over.
    pub(super) fn take_back(&mut self, id: PeriodId, spent: Spent) {
        if id == self.id {
            debug_assert!(self.tokens >= u128::from(spent.tokens), "more taken back than was added");
            self.tokens = self.tokens.saturating_sub(u128::from(spent.tokens));
            self.cost = self.cost.saturating_sub(u128::from(spent.cost.0));
        }
    }

    pub(super) fn tokens(&self) -> u128 {
        self.tokens
    }

    pub(super) fn cost(&self) -> u128 {
        self.cost
    }

    /// What was used in the one that is open at that moment.
    pub(super) fn spent(&self, now: Time, sight: Sight) -> Spent {
        if self.is_over(now, sight) {
            return Spent::default();
        }
        let narrow = |sum| u64::try_from(sum).unwrap_or(u64::MAX);
        Spent { tokens: narrow(self.tokens), cost: Micros(narrow(self.cost)) }
    }
}
