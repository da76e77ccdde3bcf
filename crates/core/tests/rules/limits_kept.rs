//! No sequence of reserving, settling, abandoning and passing time leaks a count or lets through more than a limit.

use crate::limits::{at, today};
use proptest::prelude::*;
use sluicegate_core::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Settle(usize, u64),
    Abandon(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..60).prop_map(Step::Reserve),
        2 => (any::<usize>(), 0_u64..90).prop_map(|(index, used)| Step::Settle(index, used)),
        1 => any::<usize>().prop_map(Step::Abandon),
        2 => (1_u64..9000).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..250)
}

fn limits() -> impl Strategy<Value = KeyLimits> {
    let one = |most: u64| prop::option::of(1..most);
    (one(6), one(20), one(300), one(3000), one(30_000)).prop_map(
        |(concurrent, requests, minute, day, cost)| KeyLimits {
            max_concurrent: concurrent.map(|most| most as u32),
            requests_per_minute: requests,
            tokens_per_minute: minute,
            tokens_per_day: day,
            tokens_per_month: None,
            cost_per_day: None,
            cost_per_month: cost.map(Micros),
        },
    )
}

fn spent(tokens: u64) -> Spent {
    Spent { tokens, cost: Micros(tokens * 3) }
}

/// Everything that was let through: counted again from scratch.
#[derive(Default)]
struct Books {
    now: Duration,
    begun: Vec<Duration>,
    open: Vec<(Reservation, u64)>,
    settled: u64,
}

impl Books {
    fn time(&self) -> Time {
        at(0) + self.now
    }

    fn tokens(&self) -> u64 {
        self.settled + self.open.iter().map(|(_, asked)| asked).sum::<u64>()
    }

    fn reserve(&mut self, ledger: &mut KeyLedger, tokens: u64) {
        let before = ledger.usage(self.time(), today());
        let ask = Ask { tokens, cost: spent(tokens).cost };
        match ledger.reserve(self.time(), today(), ask) {
            Ok(reservation) => {
                self.open.push((reservation, tokens));
                self.begun.push(self.now);
                self.check_limits(ledger.limits());
            }
            Err(refusal) => {
                assert_eq!(ledger.usage(self.time(), today()), before, "a refusal uses up nothing");
                self.check_refusal(ledger, ask, refusal);
            }
        }
    }

    /// What was just let through was within the limits.
    fn check_limits(&self, limits: &KeyLimits) {
        let minute = self.begun.iter().filter(|begun| self.now - **begun < Duration::from_secs(60)).count();
        assert!(limits.max_concurrent.is_none_or(|most| self.open.len() <= most as usize));
        assert!(limits.requests_per_minute.is_none_or(|most| minute as u64 <= most));
        assert!(limits.tokens_per_day.is_none_or(|most| self.tokens() <= most));
        assert!(limits.cost_per_month.is_none_or(|most| self.tokens() * 3 <= most.0));
    }

    /// The hint is the first moment at which this very request passes.
    fn check_refusal(&self, ledger: &KeyLedger, ask: Ask, refusal: LimitRefusal) {
        let passes = |wait: Duration| ledger.clone().reserve(self.time() + wait, today(), ask).is_ok();
        match refusal {
            LimitRefusal::TooLarge { most, asked, .. } => assert!(asked > most),
            LimitRefusal::Exhausted {
                limit: Limit::RequestsPerMinute | Limit::TokensPerMinute,
                retry_after,
            } => {
                assert!(retry_after > Duration::ZERO && retry_after <= Duration::from_secs(61));
                assert!(!passes(retry_after - Duration::from_nanos(1)), "too late a hint");
                let again = ledger.clone().reserve(self.time() + retry_after, today(), ask);
                let others = [Limit::MaxConcurrent, Limit::TokensPerDay, Limit::CostPerMonth];
                assert!(
                    again.as_ref().is_ok_and(|_| true) || again.is_err_and(|e| others.contains(&e.limit()))
                );
            }
            LimitRefusal::Exhausted { retry_after, .. } => assert!(retry_after >= Duration::from_secs(1)),
        }
    }

    fn settle(&mut self, ledger: &mut KeyLedger, index: usize, used: Option<u64>) {
        if self.open.is_empty() {
            return;
        }
        let (reservation, _) = self.open.swap_remove(index % self.open.len());
        match used {
            Some(used) => ledger.settle(self.time(), today(), reservation, spent(used)),
            None => ledger.abandon(self.time(), today(), reservation),
        }
        self.settled += used.unwrap_or(0);
    }

    fn check(&self, ledger: &KeyLedger) {
        let seen = ledger.usage(self.time(), today());
        assert_eq!(seen.concurrent as usize, self.open.len());
        assert_eq!((seen.day, seen.month), (spent(self.tokens()), spent(self.tokens())));
        let young =
            |age| self.begun.iter().filter(|begun| self.now - **begun < Duration::from_secs(age)).count();
        let counted = seen.requests_minute as usize;
        assert!(young(60) <= counted && counted <= young(61), "{counted} of {} to {}", young(60), young(61));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn books_of_a_key_are_right_after_every_step(steps in steps(), limits in limits()) {
        let mut ledger = KeyLedger::new(limits);
        let mut books = Books::default();
        for step in steps {
            match step {
                Step::Reserve(tokens) => books.reserve(&mut ledger, tokens),
                Step::Settle(index, used) => books.settle(&mut ledger, index, Some(used)),
                Step::Abandon(index) => books.settle(&mut ledger, index, None),
                Step::Pass(millis) => books.now += Duration::from_millis(millis),
            }
            books.check(&ledger);
        }
        while !books.open.is_empty() {
            books.settle(&mut ledger, 0, None);
        }
        books.now += Duration::from_secs(61);
        let seen = ledger.usage(books.time(), today());
        prop_assert_eq!((seen.concurrent, seen.requests_minute, seen.tokens_minute), (0, 0, 0));
        books.check(&ledger);
    }
}
