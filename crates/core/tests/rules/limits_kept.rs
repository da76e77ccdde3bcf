//! No sequence of reserving, settling, withdrawing, refusing and passing time leaks a count or lets through more than a limit.

use crate::limits::{at, today};
use proptest::prelude::*;
use sluicegate_core::*;
use std::time::Duration;

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Settle(usize, u64),
    Withdraw(usize),
    Refused,
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..60).prop_map(Step::Reserve),
        2 => (any::<usize>(), 0_u64..90).prop_map(|(index, used)| Step::Settle(index, used)),
        1 => any::<usize>().prop_map(Step::Withdraw),
        1 => Just(Step::Refused),
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

struct Open {
    reservation: Reservation,
    asked: u64,
    begun: Duration,
}

/// Everything that was let through: counted again from scratch.
#[derive(Default)]
struct Books {
    now: Duration,
    /// When the requests of the minute began: those let through, and those refused before their limits were asked.
    begun: Vec<Duration>,
    open: Vec<Open>,
    settled: u64,
}

impl Books {
    fn time(&self) -> Time {
        at(0) + self.now
    }

    fn tokens(&self) -> u64 {
        self.settled + self.open.iter().map(|open| open.asked).sum::<u64>()
    }

    fn reserve(&mut self, ledger: &mut KeyLedger, tokens: u64) {
        let before = ledger.usage(self.time(), today());
        let ask = Ask { tokens, cost: spent(tokens).cost };
        match ledger.reserve(self.time(), today(), ask) {
            Ok(reservation) => {
                self.open.push(Open { reservation, asked: tokens, begun: self.now });
                self.begun.push(self.now);
                self.check_limits(ledger.limits());
            }
            Err(refusal) => {
                assert_eq!(ledger.usage(self.time(), today()), before, "a refusal uses up nothing");
                self.check_refusal(ledger, ask, refusal);
            }
        }
    }

    /// A request that is refused before its limits are asked.
    fn refused(&mut self, ledger: &mut KeyLedger) {
        let before = ledger.usage(self.time(), today());
        match ledger.count_refused(self.time(), today()) {
            Ok(()) => {
                self.begun.push(self.now);
                self.check_minute(ledger.limits());
            }
            Err(refusal) => {
                assert_eq!(refusal.limit(), Limit::RequestsPerMinute);
                assert_eq!(ledger.usage(self.time(), today()), before, "a refusal uses up nothing");
            }
        }
    }

    fn check_minute(&self, limits: &KeyLimits) {
        let minute = self.begun.iter().filter(|begun| self.now - **begun < Duration::from_secs(60)).count();
        assert!(limits.requests_per_minute.is_none_or(|most| minute as u64 <= most));
    }

    /// What was just let through was within the limits.
    fn check_limits(&self, limits: &KeyLimits) {
        self.check_minute(limits);
        assert!(limits.max_concurrent.is_none_or(|most| self.open.len() <= most as usize));
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

    /// The request has used so much; `None`: it was turned away by somebody else.
    fn end(&mut self, ledger: &mut KeyLedger, index: usize, used: Option<u64>) {
        if self.open.is_empty() {
            return;
        }
        let Open { reservation, begun, .. } = self.open.swap_remove(index % self.open.len());
        let Some(used) = used else {
            ledger.withdraw(self.time(), today(), reservation);
            let at = self.begun.iter().position(|at| *at == begun).expect("it has begun");
            self.begun.swap_remove(at);
            return;
        };
        ledger.settle(self.time(), today(), reservation, spent(used));
        self.settled += used;
    }

    fn check(&self, ledger: &KeyLedger) {
        let seen = ledger.usage(self.time(), today());
        assert_eq!(seen.concurrent as usize, self.open.len());
        assert_eq!((seen.day, seen.month), (spent(self.tokens()), spent(self.tokens())));
        // Known before anything is asked: whether any request can pass.
        let passes = ledger.clone().reserve(self.time(), today(), Ask::default()).map(drop);
        assert_eq!(ledger.clone().used_up(self.time(), today()), passes);
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
                Step::Settle(index, used) => books.end(&mut ledger, index, Some(used)),
                Step::Withdraw(index) => books.end(&mut ledger, index, None),
                Step::Refused => books.refused(&mut ledger),
                Step::Pass(millis) => books.now += Duration::from_millis(millis),
            }
            books.check(&ledger);
        }
        while !books.open.is_empty() {
            books.end(&mut ledger, 0, Some(0));
        }
        books.now += Duration::from_secs(61);
        let seen = ledger.usage(books.time(), today());
        prop_assert_eq!((seen.concurrent, seen.requests_minute, seen.tokens_minute), (0, 0, 0));
        books.check(&ledger);
    }
}
