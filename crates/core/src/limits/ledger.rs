//! The ledger of one key.

use super::period::{Period, PeriodId};
use super::sliding::SlidingWindow;
use super::{
    Ask, Calendar, KeyLimits, KeyUsage, Limit, LimitRefusal, Remaining, Reservation, Spent, WindowLeft,
};
use crate::money::Micros;
use crate::time::Time;
use std::time::Duration;

/// Nobody knows when a running request ends.
const CONCURRENT_RETRY: Duration = Duration::from_secs(1);

/// A limit, how much it is where there is one, and what is asked of it.
type Row = (Limit, Option<u64>, u64);

/// What one key has used, reserved for running requests included. It counts whatever the key is limited in, so that a
/// limit that a reload brings knows the past. Bounded: at most 62 buckets for each of its two minutes.
///
/// Where time steps back the latest moment seen counts.
#[derive(Clone, Debug, Default)]
pub struct KeyLedger {
    limits: KeyLimits,
    concurrent: u32,
    requests: SlidingWindow,
    tokens: SlidingWindow,
    day: Period,
    month: Period,
    /// The latest moment seen.
    now: Time,
}

impl KeyLedger {
    /// A key that has used nothing yet.
    #[must_use]
    pub fn new(limits: KeyLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Sets other limits. What has been used and what is running stays counted.
    pub fn set_limits(&mut self, limits: KeyLimits) {
        self.limits = limits;
    }

    /// The limits in force.
    #[must_use]
    pub fn limits(&self) -> &KeyLimits {
        &self.limits
    }

    /// Lets one request pass, or none of the limits is touched. The request counts in requests per minute from now on,
    /// whatever its end, unless it is [withdrawn](Self::withdraw).
    ///
    /// # Errors
    /// [`LimitRefusal`] says which limit refuses, and when the same request can pass.
    pub fn reserve(&mut self, now: Time, calendar: Calendar, ask: Ask) -> Result<Reservation, LimitRefusal> {
        let (now, day, month) = self.advance(now, calendar);
        self.check(now, calendar, &self.rows(ask))?;
        self.concurrent += 1;
        let request = self.requests.add(now, 1);
        let minute = self.tokens.add(now, ask.tokens);
        let expected = Spent { tokens: ask.tokens, cost: ask.cost };
        self.day.add(expected);
        self.month.add(expected);
        Ok(Reservation { tokens: ask.tokens, cost: ask.cost, minute, request, day, month })
    }

    /// Whether any request at all can pass now; nothing is counted.
    ///
    /// # Errors
    /// [`LimitRefusal`] where a limit is used up, so that a request is refused whatever it asks for.
    pub fn used_up(&mut self, now: Time, calendar: Calendar) -> Result<(), LimitRefusal> {
        let (now, ..) = self.advance(now, calendar);
        self.check(now, calendar, &self.rows(Ask::default()))
    }

    /// A request that was refused before it was known what it asks for counts in the requests per minute, and in nothing
    /// else.
    ///
    /// # Errors
    /// [`LimitRefusal`] where that limit is used up: then it does not count there either.
    pub fn count_refused(&mut self, now: Time, calendar: Calendar) -> Result<(), LimitRefusal> {
        let (now, ..) = self.advance(now, calendar);
        self.check(now, calendar, &[(Limit::RequestsPerMinute, self.limits.requests_per_minute, 1)])?;
        self.requests.add(now, 1);
        Ok(())
    }

    /// The request is over: what it used takes the place of what it reserved.
    pub fn settle(&mut self, now: Time, calendar: Calendar, reservation: Reservation, actual: Spent) {
        let (now, ..) = self.advance(now, calendar);
        debug_assert!(self.concurrent > 0, "a reservation was settled twice");
        self.concurrent = self.concurrent.saturating_sub(1);
        let Reservation { tokens, cost, minute, day, month, .. } = reservation;
        let unused = Spent {
            tokens: tokens.saturating_sub(actual.tokens),
            cost: Micros(cost.0.saturating_sub(actual.cost.0)),
        };
        self.tokens.take_back(minute, unused.tokens);
        self.day.take_back(day, unused);
        self.month.take_back(month, unused);
        let beyond = Spent {
            tokens: actual.tokens.saturating_sub(tokens),
            cost: Micros(actual.cost.0.saturating_sub(cost.0)),
        };
        self.tokens.add(now, beyond.tokens);
        self.day.add(beyond);
        self.month.add(beyond);
    }

    /// The request was turned away by somebody else after these limits had let it pass: it has used up none of them.
    pub fn withdraw(&mut self, now: Time, calendar: Calendar, reservation: Reservation) {
        self.requests.take_back(reservation.request, 1);
        self.settle(now, calendar, reservation, Spent::default());
    }

    /// What is left of the limits per minute.
    #[must_use]
    pub fn remaining(&self, now: Time) -> Remaining {
        let now = now.max(self.now);
        let left = |window: &SlidingWindow, limit: u64| WindowLeft {
            limit,
            remaining: u64::try_from(u128::from(limit).saturating_sub(window.used(now))).unwrap_or(u64::MAX),
            reset: window.wait(now, 0).unwrap_or_default(),
        };
        Remaining {
            requests: self.limits.requests_per_minute.map(|limit| left(&self.requests, limit)),
            tokens: self.limits.tokens_per_minute.map(|limit| left(&self.tokens, limit)),
        }
    }

    /// What the key has used, for metrics and the dashboard.
    #[must_use]
    pub fn usage(&self, now: Time, calendar: Calendar) -> KeyUsage {
        let now = now.max(self.now);
        let narrow = |sum| u64::try_from(sum).unwrap_or(u64::MAX);
        KeyUsage {
            concurrent: self.concurrent,
            requests_minute: narrow(self.requests.used(now)),
            tokens_minute: narrow(self.tokens.used(now)),
            day: self.day.spent(now, calendar.of_day()),
            month: self.month.spent(now, calendar.of_month()),
        }
    }

    /// Each limit, and what is asked of it.
    fn rows(&self, ask: Ask) -> [Row; 7] {
        let limits = &self.limits;
        let money = |limit: Option<Micros>| limit.map(|limit| limit.0);
        [
            (Limit::MaxConcurrent, limits.max_concurrent.map(u64::from), 1),
            (Limit::RequestsPerMinute, limits.requests_per_minute, 1),
            (Limit::TokensPerMinute, limits.tokens_per_minute, ask.tokens),
            (Limit::TokensPerDay, limits.tokens_per_day, ask.tokens),
            (Limit::TokensPerMonth, limits.tokens_per_month, ask.tokens),
            (Limit::CostPerDay, money(limits.cost_per_day), ask.cost.0),
            (Limit::CostPerMonth, money(limits.cost_per_month), ask.cost.0),
        ]
    }

    /// All of them as one step.
    fn check(&self, now: Time, calendar: Calendar, rows: &[Row]) -> Result<(), LimitRefusal> {
        let mut longest: Option<(Duration, Limit)> = None;
        for &(limit, most, asked) in rows {
            let Some(most) = most else { continue };
            let Some(room) = most.checked_sub(asked) else {
                return Err(LimitRefusal::TooLarge { limit, most, asked });
            };
            if let Some(wait) = self.wait(now, calendar, limit, room)
                && longest.is_none_or(|(longest, _)| wait > longest)
            {
                longest = Some((wait, limit));
            }
        }
        match longest {
            None => Ok(()),
            Some((retry_after, limit)) => Err(LimitRefusal::Exhausted { limit, retry_after }),
        }
    }

    /// How long it takes until no more than `most` of a limit is used; `None`: that is so now.
    fn wait(&self, now: Time, calendar: Calendar, limit: Limit, most: u64) -> Option<Duration> {
        let (most_used, (day, month)) = (u128::from(most), (calendar.of_day(), calendar.of_month()));
        let until = |used: u128, end: Duration| (used > most_used).then_some(end);
        match limit {
            Limit::MaxConcurrent => until(u128::from(self.concurrent), CONCURRENT_RETRY),
            Limit::RequestsPerMinute => self.requests.wait(now, most),
            Limit::TokensPerMinute => self.tokens.wait(now, most),
            Limit::TokensPerDay => until(self.day.tokens(), self.day.left(now, day)),
            Limit::TokensPerMonth => until(self.month.tokens(), self.month.left(now, month)),
            Limit::CostPerDay => until(self.day.cost(), self.day.left(now, day)),
            Limit::CostPerMonth => until(self.month.cost(), self.month.left(now, month)),
        }
    }

    fn advance(&mut self, now: Time, calendar: Calendar) -> (Time, PeriodId, PeriodId) {
        self.now = self.now.max(now);
        let (day, month) = (calendar.of_day(), calendar.of_month());
        (self.now, self.day.enter(self.now, day), self.month.enter(self.now, month))
    }
}
