//! Budgets of days and months when the wall clock is set while the gateway runs.

use crate::bench::seconds;
use crate::limits::{ask, spent};
use sluicegate_core::*;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Every month has 30 days.
const MONTH: u64 = 30 * DAY;

/// What the wall clock says at an hour since its origin.
fn wall(hours: u64) -> Calendar {
    let second = hours * HOUR;
    Calendar {
        day: (second / DAY) as u32,
        month: (second / MONTH) as u32,
        day_left: seconds(DAY - second % DAY),
        month_left: seconds(MONTH - second % MONTH),
    }
}

fn hour(hours: u64) -> Time {
    Time::ZERO + seconds(hours * HOUR)
}

fn ledger(day: Option<u64>, month: Option<u64>) -> KeyLedger {
    KeyLedger::new(KeyLimits { tokens_per_day: day, tokens_per_month: month, ..KeyLimits::default() })
}

/// Uses 100 tokens, where they are there to be used.
fn uses(ledger: &mut KeyLedger, at: Time, calendar: Calendar) -> Result<(), LimitRefusal> {
    let open = ledger.reserve(at, calendar, ask(100))?;
    ledger.settle(at, calendar, open, spent(100));
    Ok(())
}

/// Hours that have passed, what the wall clock says (in hours since its origin), and whether 100 tokens, the whole
/// budget of a day, are there.
type Sight = (u64, u64, bool);

fn follow(name: &str, sights: &[Sight]) {
    let mut ledger = ledger(Some(100), None);
    for &(passed, clock, there) in sights {
        let seen = ledger.usage(hour(passed), wall(clock)).day.tokens;
        assert_eq!(seen, if there { 0 } else { 100 }, "{name}: after {passed} h, what is shown");
        let used = uses(&mut ledger, hour(passed), wall(clock));
        assert_eq!(used.is_ok(), there, "{name}: after {passed} h: {used:?}");
    }
}

#[test]
fn a_day_s_budget_is_there_once_a_day() {
    // It begins at noon.
    follow(
        "a good clock",
        &[(0, 1020, true), (11, 1031, false), (12, 1032, true), (35, 1055, false), (36, 1056, true)],
    );
    follow("a key that rests", &[(0, 1020, true), (100, 1120, true), (107, 1127, false), (108, 1128, true)]);
    follow("a little too fast", &[(0, 1020, true), (11, 1032, true), (12, 1033, false), (35, 1056, true)]);
    follow("too slow", &[(0, 1020, true), (12, 1028, false), (16, 1032, true), (40, 1056, true)]);
    follow("set within the day", &[(0, 1020, true), (1, 1030, false), (3, 1032, true), (27, 1056, true)]);
}

#[test]
fn a_wall_clock_that_is_set_forward_does_not_double_a_budget() {
    follow(
        "a day",
        &[(0, 1020, true), (1, 1045, false), (11, 1055, false), (12, 1056, true), (13, 1057, false)],
    );
    follow("ten years", &[(0, 1020, true), (1, 88_613, false), (12, 88_624, false), (20, 88_632, true)]);
    let swings = [(0, 1020, true), (12, 1032, true), (13, 1031, false), (14, 1032, false), (15, 1031, false)];
    follow("to and fro at midnight", &[&swings[..], &[(16, 1032, false), (40, 1056, true)]].concat());
}

#[test]
fn a_wall_clock_that_was_wrong_for_a_while_does_not_freeze_a_budget() {
    let wrong = [(0, 1020, true), (1, 88_613, false), (2, 1022, false)];
    follow("forward and back", &[&wrong[..], &[(12, 1032, true), (36, 1056, true)]].concat());
    follow("back", &[(0, 1020, true), (1, 997, false), (12, 1008, true), (36, 1032, true), (60, 1056, true)]);
    follow(
        "back to its origin",
        &[(0, 1020, true), (1, 0, false), (24, 23, false), (25, 24, true), (49, 48, true)],
    );
}

#[test]
fn a_month_s_budget_follows_the_same_rule() {
    // Months 2 and 3 begin at hours 1440 and 2160.
    let good = [(0, 1000, true), (439, 1439, false), (440, 1440, true), (1160, 2160, true)];
    let forward = [(0, 1000, true), (1, 1500, false), (440, 1939, false), (661, 2160, true)];
    let and_back =
        [(0, 1000, true), (1, 1500, false), (2, 1002, false), (440, 1440, true), (1160, 2160, true)];
    for sights in [&good[..], &forward, &and_back] {
        let mut ledger = ledger(None, Some(100));
        for &(passed, clock, there) in sights {
            let used = uses(&mut ledger, hour(passed), wall(clock));
            assert_eq!(used.is_ok(), there, "after {passed} h of {sights:?}");
        }
    }
}

#[test]
fn a_reservation_is_settled_where_it_was_made_whatever_the_clock_says_then() {
    let mut ledger = ledger(None, None);
    let open = ledger.reserve(hour(0), wall(1020), ask(100)).expect("no limit");
    let next = ledger.reserve(hour(1), wall(1045), ask(100)).expect("no limit");
    ledger.settle(hour(2), wall(1022), open, spent(10));
    ledger.settle(hour(2), wall(1022), next, spent(0));
    assert_eq!(ledger.usage(hour(2), wall(1022)).day.tokens, 10);
}

#[test]
fn the_hint_is_the_end_of_the_open_budget() {
    let mut ledger = ledger(Some(100), None);
    assert!(uses(&mut ledger, hour(0), wall(1020)).is_ok());
    for (passed, clock, left) in [(1, 1021, 11), (1, 1045, 11), (2, 1022, 10), (3, 88_613, 19)] {
        let refused = uses(&mut ledger, hour(passed), wall(clock)).expect_err("used up");
        let expected =
            LimitRefusal::Exhausted { limit: Limit::TokensPerDay, retry_after: seconds(left * HOUR) };
        assert_eq!(refused, expected);
    }
}
