//! A key's limits: one ledger per key, all limits checked as one step, reserved at the start and settled at the end.
//!
//! A refusal uses up nothing. Token and money limits reserve an estimate; the settlement puts the truth in its place.
//! What a request reserved and did not use goes back to the minute, day and month it was taken from; what it used
//! beyond that counts in the present ones.

mod ledger;
mod period;
mod sliding;

use crate::money::Micros;
pub use ledger::KeyLedger;
use std::time::Duration;

/// What a key may do. `None`: as much as it likes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Requests at the same time.
    pub max_concurrent: Option<u32>,
    /// Requests begun in any 60 s, whatever their end: also those that are refused before the other limits are asked.
    pub requests_per_minute: Option<u64>,
    /// Tokens, prompt and completion, in any 60 s.
    pub tokens_per_minute: Option<u64>,
    /// Tokens in a calendar day.
    pub tokens_per_day: Option<u64>,
    /// Tokens in a calendar month.
    pub tokens_per_month: Option<u64>,
    /// Money in a calendar day.
    pub cost_per_day: Option<Micros>,
    /// Money in a calendar month.
    pub cost_per_month: Option<Micros>,
}

/// One of the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// [`KeyLimits::max_concurrent`].
    MaxConcurrent,
    /// [`KeyLimits::requests_per_minute`].
    RequestsPerMinute,
    /// [`KeyLimits::tokens_per_minute`].
    TokensPerMinute,
    /// [`KeyLimits::tokens_per_day`].
    TokensPerDay,
    /// [`KeyLimits::tokens_per_month`].
    TokensPerMonth,
    /// [`KeyLimits::cost_per_day`].
    CostPerDay,
    /// [`KeyLimits::cost_per_month`].
    CostPerMonth,
}

impl Limit {
    /// The stable name: that of its configuration key.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::MaxConcurrent => "max_concurrent",
            Self::RequestsPerMinute => "requests_per_minute",
            Self::TokensPerMinute => "tokens_per_minute",
            Self::TokensPerDay => "tokens_per_day",
            Self::TokensPerMonth => "tokens_per_month",
            Self::CostPerDay => "cost_per_day",
            Self::CostPerMonth => "cost_per_month",
        }
    }

    /// `amount` as the configuration would have it: money is counted in millionths and written in whole units.
    fn amount(self, amount: u64) -> String {
        match self {
            Self::CostPerDay | Self::CostPerMonth => Micros(amount).to_string(),
            _ => amount.to_string(),
        }
    }

    fn asked(self, asked: u64) -> String {
        let amount = self.amount(asked);
        match self {
            Self::MaxConcurrent | Self::RequestsPerMinute => format!("{amount} requests"),
            Self::TokensPerMinute | Self::TokensPerDay | Self::TokensPerMonth => {
                format!("{amount} tokens, prompt and output")
            }
            Self::CostPerDay | Self::CostPerMonth => format!("{amount} of cost, prompt and output"),
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The wall clock's part in budgets, computed by the caller (UTC). The clock may be set, forward or back: that opens no
/// budget a second time, nor keeps one closed for good. A day or month whose number comes up more than an hour (a day)
/// before the open one is over by [`Time`] is the open one under another number.
///
/// [`Time`]: crate::Time
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Calendar {
    /// Days since an origin that never changes.
    pub day: u32,
    /// Months since an origin that never changes.
    pub month: u32,
    /// Time until the day ends.
    pub day_left: Duration,
    /// Time until the month ends.
    pub month_left: Duration,
}

/// What a request is expected to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Prompt and completion tokens.
    pub tokens: u64,
    /// Their price.
    pub cost: Micros,
}

/// What a request did use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Prompt and completion tokens.
    pub tokens: u64,
    /// Their price.
    pub cost: Micros,
}

/// A request that its key's limits have let pass. Neither `Copy` nor `Clone`: given back exactly once, through
/// [`KeyLedger::settle`] or [`KeyLedger::withdraw`]. One that is dropped instead stays counted for ever.
#[must_use]
#[derive(Debug)]
pub struct Reservation {
    tokens: u64,
    cost: Micros,
    minute: sliding::BucketId,
    request: sliding::BucketId,
    day: period::PeriodId,
    month: period::PeriodId,
}

/// Why a key's request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitRefusal {
    /// A limit is used up.
    #[error("the key's limit {limit} is used up")]
    Exhausted {
        /// Which: of several the one that lasts longest.
        limit: Limit,
        /// The earliest moment at which this very request can pass if the key does nothing else. Running requests may
        /// end earlier or use less than they reserved. Nobody knows when a concurrent request ends: one second.
        retry_after: Duration,
    },
    /// The request asks for more than the whole limit: it can never pass.
    #[error(
        "the request asks for up to {}, more than the key's whole limit {limit} of {}",
        limit.asked(*asked),
        limit.amount(*most)
    )]
    TooLarge {
        /// Which.
        limit: Limit,
        /// The limit: requests, tokens or millionths of money.
        most: u64,
        /// What was asked for, in the same unit.
        asked: u64,
    },
}

impl LimitRefusal {
    /// The limit that refuses.
    #[must_use]
    pub fn limit(&self) -> Limit {
        match self {
            Self::Exhausted { limit, .. } | Self::TooLarge { limit, .. } => *limit,
        }
    }
}

/// What is left of the limits per minute: the numbers of the `x-ratelimit-*` headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remaining {
    /// Requests; `None` where the key has no such limit.
    pub requests: Option<WindowLeft>,
    /// Tokens, estimates of running requests deducted; `None` where the key has no such limit.
    pub tokens: Option<WindowLeft>,
}

/// What is left of one limit per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLeft {
    /// The limit.
    pub limit: u64,
    /// What is left of it now; zero where it is overdrawn.
    pub remaining: u64,
    /// When all of it is there again if the key does nothing else.
    pub reset: Duration,
}

/// What a key has used, estimates of running requests included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyUsage {
    /// Requests at this moment.
    pub concurrent: u32,
    /// Requests of the last 60 s.
    pub requests_minute: u64,
    /// Tokens of the last 60 s.
    pub tokens_minute: u64,
    /// This day.
    pub day: Spent,
    /// This month.
    pub month: Spent,
}
