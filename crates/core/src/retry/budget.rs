//! The brake on retry storms.

mod shares;

use crate::ids::KeyIndex;
use crate::settings::RetrySettings;
use crate::time::Time;
use crate::window::Window;
use shares::Shares;
use std::time::Duration;

/// Retry budget of one route: a retry is allowed while there were fewer than `budget_per_second` in the last second,
/// or while those of the last 10 s are fewer than the share `budget` of the requests of the last 10 s.
///
/// Where several keys send requests, none has all of it retried: a key may take no more than it leaves to the others,
/// so that whoever sends requests that fail everywhere does not take the second attempt from everybody else's.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    share: f64,
    per_second: u32,
    requests: Window<20>,
    retries: Window<20>,
    recent_retries: Window<10>,
    shares: Shares,
}

impl RetryBudget {
    /// A budget in which nothing has happened yet.
    #[must_use]
    pub fn new(settings: &RetrySettings) -> Self {
        Self {
            share: settings.budget,
            per_second: settings.budget_per_second,
            requests: ten_seconds(),
            retries: ten_seconds(),
            recent_retries: one_second(),
            shares: Shares::default(),
        }
    }

    /// A request of this key came in. Its retries are not counted here.
    pub fn request(&mut self, now: Time, key: KeyIndex) {
        self.requests.add(now);
        self.shares.request(now, key);
    }

    /// Takes one retry for this key, if the budget has one.
    pub(crate) fn take(&mut self, now: Time, key: KeyIndex) -> bool {
        let own = self.shares.own(now, key);
        let recent = self.recent_retries.count(now) as f64;
        let floor = leaves_enough(f64::from(self.per_second) - recent, own.map(|own| own.recent));
        let most = self.share * self.requests.count(now) as f64;
        let left = most - self.retries.count(now) as f64;
        let allowed = floor || leaves_enough(left, own.map(|own| own.all));
        if allowed {
            self.retries.add(now);
            self.recent_retries.add(now);
            self.shares.retry(now, key);
        }
        allowed
    }
}

/// `left`: of the budget; `own`: what the key has had of it, where there are others.
fn leaves_enough(left: f64, own: Option<u64>) -> bool {
    left > own.unwrap_or(0) as f64
}

fn ten_seconds() -> Window<20> {
    Window::new(Duration::from_millis(500))
}

fn one_second() -> Window<10> {
    Window::new(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyIndex = KeyIndex(0);

    fn taken(budget: &mut RetryBudget, now: Time, key: KeyIndex) -> usize {
        (0..10_000).take_while(|_| budget.take(now, key)).count()
    }

    #[test]
    fn the_budget_is_the_larger_of_ten_a_second_and_a_fifth_of_ten_seconds() {
        for (requests, first, second) in [(0, 10, 10), (49, 10, 10), (100, 20, 10), (5000, 1000, 10)] {
            let mut budget = RetryBudget::new(&RetrySettings::default());
            (0..requests).for_each(|_| budget.request(Time::ZERO, KEY));
            assert_eq!(taken(&mut budget, Time::ZERO, KEY), first, "{requests} requests");
            let later = Time::ZERO + Duration::from_secs(1);
            assert_eq!(taken(&mut budget, later, KEY), second, "{requests} requests, a second later");
        }
    }

    #[test]
    fn old_requests_earn_nothing() {
        let mut budget = RetryBudget::new(&RetrySettings::default());
        (0..1000).for_each(|_| budget.request(Time::ZERO, KEY));
        assert_eq!(taken(&mut budget, Time::ZERO + Duration::from_secs(10), KEY), 10);
    }

    #[test]
    fn a_key_whose_requests_all_fail_leaves_retries_to_the_others() {
        let (greedy, other, third) = (KeyIndex(7), KeyIndex(3), KeyIndex(9));
        for (requests, most) in [(2, 10), (1000, 200)] {
            let mut budget = RetryBudget::new(&RetrySettings::default());
            (0..requests - 1).for_each(|_| budget.request(Time::ZERO, greedy));
            budget.request(Time::ZERO, other);
            let shares = [greedy, other, third].map(|key| taken(&mut budget, Time::ZERO, key));
            assert_eq!(shares[0], most / 2, "of {most}");
            assert!(shares[1] >= most / 5 && shares[2] >= 1, "{shares:?} of {most}");
            assert!(shares.iter().sum::<usize>() <= most, "{shares:?} of {most}");
        }
    }

    #[test]
    fn a_key_that_is_alone_for_ten_seconds_has_the_whole_budget() {
        let mut budget = RetryBudget::new(&RetrySettings::default());
        budget.request(Time::ZERO, KeyIndex(1));
        budget.request(Time::ZERO, KEY);
        for (millis, most) in [(0, 5), (9000, 5), (10_001, 10)] {
            let now = Time::ZERO + Duration::from_millis(millis);
            budget.request(now, KEY);
            assert_eq!(taken(&mut budget, now, KEY), most, "at {millis} ms");
        }
    }
}
