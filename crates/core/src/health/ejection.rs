//! What keeps an ejected replica out, and for how long.

use crate::settings::HealthSettings;
use std::time::Duration;

/// Why a replica is taken out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    Refused,
    Scrapes,
    Upstream,
    Stalled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Canary {
    Unanswered,
    Answered,
}

#[derive(Clone, Debug)]
pub(super) struct Ejection {
    pub(super) cause: Doubt,
    /// Good scrapes in a row since.
    pub(super) good: u32,
    pub(super) canary: Canary,
}

impl Ejection {
    pub(super) fn new(cause: Doubt) -> Self {
        Self { cause, good: 0, canary: Canary::Unanswered }
    }

    /// Nothing but the cooldown keeps it out: its scrapes are good and, after a stall, its canary was answered.
    pub(super) fn recovered(&self, s: &HealthSettings) -> bool {
        let moves = self.cause != Doubt::Stalled || self.canary == Canary::Answered;
        self.good >= s.recover_after_successes && moves
    }

    /// A scrape that was not good.
    pub(super) fn start_over(&mut self) {
        self.good = 0;
        self.canary = Canary::Unanswered;
    }
}

/// `min(cooldown_max, cooldown * 2^(n-1))` for the n-th ejection of a streak.
pub(super) fn cooldown(streak: u32, s: &HealthSettings) -> Duration {
    let doublings = streak.saturating_sub(1).min(31);
    s.cooldown.saturating_mul(1 << doublings).min(s.cooldown_max)
}
