//! The brake on retry storms.

use crate::settings::RetrySettings;
use crate::time::Time;
use crate::window::Window;
use std::time::Duration;

/// Retry budget of one route: a retry is allowed while there were fewer than `budget_per_second` in the last second,
/// or while those of the last 10 s are fewer than the share `budget` of the requests of the last 10 s.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    share: f64,
    per_second: u32,
    requests: Window<20>,
    retries: Window<20>,
    recent_retries: Window<10>,
}

impl RetryBudget {
    /// A budget in which nothing has happened yet.
    #[must_use]
    pub fn new(settings: &RetrySettings) -> Self {
        let (half, tenth) = (Duration::from_millis(500), Duration::from_millis(100));
        Self {
            share: settings.budget,
            per_second: settings.budget_per_second,
            requests: Window::new(half),
            retries: Window::new(half),
            recent_retries: Window::new(tenth),
        }
    }

    /// A request came in. Its retries are not counted here.
    pub fn request(&mut self, now: Time) {
        self.requests.add(now);
    }

    /// Takes one retry, if the budget has one.
    pub(crate) fn take(&mut self, now: Time) -> bool {
        let floor = self.recent_retries.count(now) < u64::from(self.per_second);
        let share = (self.retries.count(now) as f64) < self.share * self.requests.count(now) as f64;
        let allowed = floor || share;
        if allowed {
            self.retries.add(now);
            self.recent_retries.add(now);
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(budget: &mut RetryBudget, now: Time) -> usize {
        (0..10_000).take_while(|_| budget.take(now)).count()
    }

    #[test]
    fn the_budget_is_the_larger_of_ten_a_second_and_a_fifth_of_ten_seconds() {
        for (requests, first, second) in [(0, 10, 10), (49, 10, 10), (100, 20, 10), (5000, 1000, 10)] {
            let mut budget = RetryBudget::new(&RetrySettings::default());
            (0..requests).for_each(|_| budget.request(Time::ZERO));
            assert_eq!(taken(&mut budget, Time::ZERO), first, "{requests} requests");
            let later = Time::ZERO + Duration::from_secs(1);
            assert_eq!(taken(&mut budget, later), second, "{requests} requests, a second later");
        }
    }

    #[test]
    fn old_requests_earn_nothing() {
        let mut budget = RetryBudget::new(&RetrySettings::default());
        (0..1000).for_each(|_| budget.request(Time::ZERO));
        assert_eq!(taken(&mut budget, Time::ZERO + Duration::from_secs(10)), 10);
    }
}
