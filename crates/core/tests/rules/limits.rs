//! The limits of a key.

use crate::bench::seconds;
use sluicegate_core::*;
use std::time::Duration;

pub(crate) fn at(s: u64) -> Time {
    Time::ZERO + seconds(s)
}

/// Day 10 of month 2, a day of 24 h that has just begun.
pub(crate) fn today() -> Calendar {
    Calendar { day: 10, month: 2, day_left: seconds(86_400), month_left: seconds(20 * 86_400) }
}

/// The next day, a minute after [`tonight`].
fn tomorrow() -> Calendar {
    Calendar { day: 11, month_left: seconds(19 * 86_400), ..today() }
}

/// The last minute of today.
fn tonight() -> Calendar {
    Calendar { day_left: seconds(60), month_left: seconds(19 * 86_400 + 60), ..today() }
}

pub(crate) fn ask(tokens: u64) -> Ask {
    Ask { tokens, cost: Micros(tokens * 10) }
}

pub(crate) fn spent(tokens: u64) -> Spent {
    Spent { tokens, cost: Micros(tokens * 10) }
}

fn each_limit(most: u64) -> [(Limit, KeyLimits); 7] {
    let none = KeyLimits::default;
    [
        (Limit::MaxConcurrent, KeyLimits { max_concurrent: Some(most as u32), ..none() }),
        (Limit::RequestsPerMinute, KeyLimits { requests_per_minute: Some(most), ..none() }),
        (Limit::TokensPerMinute, KeyLimits { tokens_per_minute: Some(most), ..none() }),
        (Limit::TokensPerDay, KeyLimits { tokens_per_day: Some(most), ..none() }),
        (Limit::TokensPerMonth, KeyLimits { tokens_per_month: Some(most), ..none() }),
        (Limit::CostPerDay, KeyLimits { cost_per_day: Some(Micros(most * 10)), ..none() }),
        (Limit::CostPerMonth, KeyLimits { cost_per_month: Some(Micros(most * 10)), ..none() }),
    ]
}

#[test]
fn no_limit_refuses_nothing() {
    let mut ledger = KeyLedger::new(KeyLimits::default());
    let huge = Ask { tokens: u64::MAX, cost: Micros(u64::MAX) };
    let open: Vec<Reservation> =
        (0..100).map(|_| ledger.reserve(at(0), today(), huge).expect("no limit")).collect();
    assert_eq!(ledger.remaining(at(0)), Remaining { requests: None, tokens: None });
    open.into_iter().for_each(|one| ledger.settle(at(0), today(), one, Spent::default()));
    let empty = KeyUsage { requests_minute: 100, ..KeyUsage::default() };
    assert_eq!(ledger.usage(at(0), today()), empty, "and sums beyond any u64 return to zero");
}

#[test]
fn each_limit_lets_through_what_it_says_and_tells_when_there_is_more() {
    let waits = [1, 50, 50, 86_400, 20 * 86_400, 86_400, 20 * 86_400];
    for ((limit, limits), wait) in each_limit(2).into_iter().zip(waits) {
        let mut ledger = KeyLedger::new(limits);
        let open = [0, 5].map(|s| ledger.reserve(at(s), today(), ask(1)).expect("below the limit"));
        let before = ledger.usage(at(10), today());
        let refused = ledger.reserve(at(10), today(), ask(1)).expect_err("at the limit");
        let expected = LimitRefusal::Exhausted { limit, retry_after: seconds(wait) };
        assert_eq!((refused, ledger.usage(at(10), today())), (expected, before));
        open.into_iter().for_each(|one| ledger.settle(at(11), today(), one, spent(1)));
        let later = match wait {
            50 => (at(60), today()),
            _ => (at(10 + wait), Calendar { day: 30, month: 3, ..today() }),
        };
        assert!(ledger.reserve(later.0, later.1, ask(1)).is_ok(), "{limit} afterwards");
    }
}

#[test]
fn what_is_larger_than_a_whole_limit_can_never_pass() {
    for (limit, limits) in each_limit(2) {
        let requests = matches!(limit, Limit::MaxConcurrent | Limit::RequestsPerMinute);
        let mut ledger =
            KeyLedger::new(if requests { each_limit(0)[limit as usize].1.clone() } else { limits });
        let before = ledger.usage(at(0), today());
        let refused = ledger.reserve(at(0), today(), ask(3)).expect_err("never");
        let money = matches!(limit, Limit::CostPerDay | Limit::CostPerMonth);
        let (most, asked) = if requests {
            (0, 1)
        } else if money {
            (20, 30)
        } else {
            (2, 3)
        };
        assert_eq!(refused, LimitRefusal::TooLarge { limit, most, asked });
        assert_eq!((refused.limit(), ledger.usage(at(0), today())), (limit, before));
    }
}

#[test]
fn a_refusal_tells_amounts_in_the_unit_of_the_configuration() {
    let told = |limit, most, asked| LimitRefusal::TooLarge { limit, most, asked }.to_string();
    assert_eq!(
        told(Limit::CostPerDay, 20_000, 501_000_001),
        "the request asks for up to 501.000001 of cost, prompt and output, more than the key's whole limit \
         cost_per_day of 0.02"
    );
    assert_eq!(
        told(Limit::TokensPerMinute, 2000, 5001),
        "the request asks for up to 5001 tokens, prompt and output, more than the key's whole limit \
         tokens_per_minute of 2000"
    );
    assert!(told(Limit::CostPerMonth, 10_000_000, 12_500_000).ends_with("cost_per_month of 10"));
}

#[test]
fn of_several_that_refuse_the_one_that_lasts_longest_is_named() {
    let limits = KeyLimits {
        max_concurrent: Some(1),
        requests_per_minute: Some(1),
        tokens_per_day: Some(15),
        ..KeyLimits::default()
    };
    let mut ledger = KeyLedger::new(limits);
    let open = ledger.reserve(at(0), today(), ask(10)).expect("the first");
    let refused = |ledger: &mut KeyLedger, tokens| ledger.reserve(at(20), today(), ask(tokens)).err();
    let exhausted = |limit, s| Some(LimitRefusal::Exhausted { limit, retry_after: seconds(s) });
    assert_eq!(refused(&mut ledger, 10), exhausted(Limit::TokensPerDay, 86_400));
    assert_eq!(refused(&mut ledger, 5), exhausted(Limit::RequestsPerMinute, 40));
    ledger.set_limits(KeyLimits { requests_per_minute: None, ..ledger.limits().clone() });
    assert_eq!(refused(&mut ledger, 5), exhausted(Limit::MaxConcurrent, 1));
    ledger.settle(at(20), today(), open, spent(10));
    assert!(ledger.reserve(at(20), today(), ask(5)).is_ok());
}

#[test]
fn a_refused_request_counts_in_the_requests_per_minute_alone() {
    for (limit, limits) in each_limit(2) {
        let mut ledger = KeyLedger::new(limits);
        let counted = (0..3).map(|_| ledger.count_refused(at(0), today()).is_ok()).filter(|ok| *ok).count();
        let most = if limit == Limit::RequestsPerMinute { 2 } else { 3 };
        assert_eq!(counted, most, "{limit}");
        let seen = KeyUsage { requests_minute: counted as u64, ..KeyUsage::default() };
        assert_eq!(ledger.usage(at(0), today()), seen);
        let refused = ledger.reserve(at(0), today(), ask(1)).err().map(|refusal| refusal.limit());
        assert_eq!(refused, (limit == Limit::RequestsPerMinute).then_some(limit));
        assert!(ledger.count_refused(at(60), today()).is_ok(), "{limit}: a minute later");
    }
}

#[test]
fn the_settlement_puts_the_truth_in_the_place_of_the_estimate() {
    // asked for, used -> tokens of the minute, the day and the month
    for (asked, used) in [(100, 100), (100, 30), (100, 0), (100, 250), (0, 40)] {
        let mut ledger = KeyLedger::new(KeyLimits::default());
        let open = ledger.reserve(at(0), today(), ask(asked)).expect("no limit");
        assert_eq!(ledger.usage(at(1), today()).tokens_minute, asked);
        ledger.settle(at(2), today(), open, spent(used));
        let seen = ledger.usage(at(3), today());
        assert_eq!((seen.tokens_minute, seen.day, seen.month), (used, spent(used), spent(used)));
        assert_eq!((seen.concurrent, seen.requests_minute), (0, 1));
    }
}

#[test]
fn what_was_not_used_goes_back_to_where_it_was_taken_from_and_what_was_beyond_counts_now() {
    // used -> tokens of today's minute, tomorrow's day and the month, after a request from today into tomorrow
    for (used, minute, day, month) in [(30, 7, 7, 37), (100, 7, 7, 107), (250, 157, 157, 257)] {
        let mut ledger = KeyLedger::new(KeyLimits::default());
        let open = ledger.reserve(at(30), tonight(), ask(100)).expect("no limit");
        let other = ledger.reserve(at(90), tomorrow(), ask(7)).expect("no limit");
        ledger.settle(at(91), tomorrow(), open, spent(used));
        let seen = ledger.usage(at(92), tomorrow());
        assert_eq!(
            (seen.tokens_minute, seen.day.tokens, seen.month.tokens),
            (minute, day, month),
            "{used} used"
        );
        ledger.settle(at(93), tomorrow(), other, Spent::default());
        assert_eq!(ledger.usage(at(93), tomorrow()).day.tokens, day - 7);
    }
}

#[test]
fn an_overdrawn_minute_refuses_until_enough_has_left_it() {
    let mut ledger = KeyLedger::new(KeyLimits { tokens_per_minute: Some(100), ..KeyLimits::default() });
    let open = ledger.reserve(at(0), today(), ask(10)).expect("below the limit");
    ledger.settle(at(30), today(), open, spent(310));
    let left = ledger.remaining(at(31)).tokens;
    assert_eq!(left, Some(WindowLeft { limit: 100, remaining: 0, reset: seconds(59) }));
    let refused = ledger.reserve(at(31), today(), ask(0)).expect_err("overdrawn");
    let expected = LimitRefusal::Exhausted { limit: Limit::TokensPerMinute, retry_after: seconds(59) };
    assert_eq!(refused, expected);
    assert!(ledger.reserve(at(90), today(), ask(100)).is_ok());
}

#[test]
fn the_headers_numbers_are_what_is_left_and_when_all_of_it_is_back() {
    let limits =
        KeyLimits { requests_per_minute: Some(10), tokens_per_minute: Some(1000), ..KeyLimits::default() };
    let mut ledger = KeyLedger::new(limits);
    let left = |limit, remaining, reset| Some(WindowLeft { limit, remaining, reset: seconds(reset) });
    assert_eq!(ledger.remaining(at(0)), Remaining { requests: left(10, 10, 0), tokens: left(1000, 1000, 0) });
    let open = ledger.reserve(at(0), today(), ask(300)).expect("below");
    ledger.settle(at(20), today(), open, spent(100));
    let _open = ledger.reserve(at(20), today(), ask(50)).expect("below");
    for (now, requests, tokens) in
        [(20, (8, 60), (850, 60)), (59, (8, 21), (850, 21)), (60, (9, 20), (950, 20))]
    {
        let seen = ledger.remaining(at(now));
        assert_eq!(seen.requests, left(10, requests.0, requests.1), "at {now} s");
        assert_eq!(seen.tokens, left(1000, tokens.0, tokens.1), "at {now} s");
    }
}

#[test]
fn a_reload_keeps_the_books() {
    let mut ledger = KeyLedger::new(KeyLimits::default());
    let open: Vec<Reservation> =
        (0..3).map(|n| ledger.reserve(at(n), today(), ask(10)).expect("no limit")).collect();
    for (limit, limits) in each_limit(3).into_iter().take(2).chain(each_limit(30).into_iter().skip(2)) {
        ledger.set_limits(limits);
        let refused = ledger.reserve(at(3), today(), ask(1)).expect_err("the past counts");
        assert_eq!(refused.limit(), limit);
    }
    ledger.set_limits(KeyLimits { max_concurrent: Some(1), ..KeyLimits::default() });
    for one in open {
        assert!(ledger.reserve(at(4), today(), ask(1)).is_err(), "running requests count on");
        ledger.settle(at(4), today(), one, spent(1));
    }
    assert!(ledger.reserve(at(4), today(), ask(1)).is_ok());
}

#[test]
fn a_clock_that_steps_back_opens_nothing() {
    let mut ledger = KeyLedger::new(KeyLimits { requests_per_minute: Some(1), ..KeyLimits::default() });
    let open = ledger.reserve(at(100), today(), ask(1)).expect("the first");
    ledger.settle(at(10), today(), open, spent(1));
    let refused = ledger.reserve(at(20), today(), ask(1)).expect_err("used up");
    let expected =
        LimitRefusal::Exhausted { limit: Limit::RequestsPerMinute, retry_after: Duration::from_secs(60) };
    assert_eq!(refused, expected);
}

#[test]
fn a_request_that_is_withdrawn_has_used_up_none_of_the_limits() {
    for (limit, limits) in each_limit(10) {
        let mut ledger = KeyLedger::new(limits);
        let before = ledger.reserve(at(0), today(), ask(1)).expect("there is room");
        ledger.settle(at(0), today(), before, spent(1));
        for s in 1..100 {
            let one = ledger.reserve(at(s), today(), ask(1));
            let one = one.unwrap_or_else(|refusal| panic!("{limit}, {s} s: {refusal}"));
            ledger.withdraw(at(s), today(), one);
        }
        let usage = ledger.usage(at(59), today());
        assert_eq!((usage.concurrent, usage.day), (0, spent(1)), "{limit}");
        assert_eq!(ledger.usage(at(99), today()).requests_minute, 0, "{limit}");
    }
}
