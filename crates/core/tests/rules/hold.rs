//! Late binding: who is held back, what ends it, and that it turns nobody away.

use crate::bench::{Bench, healthy, seconds, spec};
use crate::hold_bench::{HOLD, asks, at_once, bench, prefill, silent};
use crate::queue_bench::{Told, bounded, by};
use sluicegate_core::*;
use std::time::Duration;

/// Half a minute of prefill.
const HUGE: u32 = 100_000;
/// 1.2 s.
const LONG: u32 = 10_000;

#[test]
fn a_request_waits_while_every_candidate_has_more_than_hold_queued() {
    // What each of two replicas has before it, and whether the request waits.
    let rows: [(&[u32], bool); 4] =
        [(&[], false), (&[LONG], false), (&[LONG, 900], false), (&[LONG, 1100], true)];
    for (burden, waits) in rows {
        let mut bench = bench(2);
        let _open = bench.burdened(burden);
        let told = bench.pool.explain(bench.now, &asks(10), Some(by(1))).outcome;
        match bench.pool.admit(bench.now, &asks(10), by(1)) {
            Admission::Picked(picked) => {
                assert!(!waits, "{burden:?}");
                assert_eq!(told.map(|chosen| chosen.replica), Ok(picked.replica));
            }
            Admission::Queued(_) => {
                assert!(waits, "{burden:?}");
                assert_eq!(told, Err(NoPlace::Held { ahead: 0 }));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn only_mode_predictive_holds_back_and_only_who_can_go_to_several() {
    let mut bench = bench(2);
    let _open = bench.burdened(&[LONG, LONG]);
    let bound = PickRequest { only: Some(ReplicaId(0)), ..asks(10) };
    for request in [at_once(10), bound, PickRequest { mode: Mode::Adaptive, ..asks(10) }] {
        let _ = bench.placed_for(&request, by(1));
    }
    assert!(!bench.pool.holds());
    let ticket = bench.queued_for(&asks(10), by(1));
    assert!(bench.pool.holds() && bench.pool.leave(ticket) && !bench.pool.holds());
}

#[test]
fn whatever_leaves_a_replica_with_little_enough_queued_ends_the_hold() {
    type Event = fn(&mut Bench, Vec<Lease>);
    // what happens, and where the request goes
    let rows: [(&str, Event, Option<u32>); 8] = [
        ("nothing", |_, _| {}, None),
        ("a first byte", |bench, mut open| bench.pool.answered(bench.now, &mut open[1]), Some(1)),
        ("an end", |bench, mut open| bench.end(open.remove(0), Verdict::Neutral), Some(0)),
        ("a scrape says that others are done", |bench, _| bench.scrape(2, healthy(0, 0)), Some(2)),
        ("a scrape says that others are not", |bench, _| bench.scrape(2, healthy(0, 3)), None),
        ("time", |bench, _| bench.pass_with(Duration::from_millis(1101), |_, _| None), Some(0)),
        ("not enough of it", |bench, _| bench.pass_with(Duration::from_millis(1099), |_, _| None), None),
        (
            "a new replica",
            |bench, _| {
                let id = bench.pool.add(bench.now, spec("new", Origin::Startup));
                bench.pool.scraped(bench.now, id, healthy(0, 0), None);
            },
            Some(3),
        ),
    ];
    for (event, apply, replica) in rows {
        let mut bench = bench(3);
        let mut open = bench.burdened(&[LONG, LONG, LONG]);
        // The third one's burden is of others.
        bench.scrape(2, healthy(1, 9));
        bench.end(open.pop().expect("three"), Verdict::Neutral);
        let ticket = bench.queued_for(&asks(10), by(1));
        apply(&mut bench, open);
        let granted: Vec<(Ticket, u32, Reason)> =
            bench.grants().into_iter().map(|(ticket, p)| (ticket, p.replica.0, p.reason)).collect();
        let expected: Vec<_> = replica.map(|id| (ticket, id, Reason::Predicted)).into_iter().collect();
        assert_eq!(granted, expected, "{event}");
    }
}

#[test]
fn the_driver_is_told_when_to_look_again_and_looks_once() {
    let mut bench = bench(1);
    let first = bench.placed_for(&silent(asks(LONG)), by(1)).lease;
    let ticket = bench.queued_for(&asks(10), by(1));
    let due = bench.pool.next_deadline().expect("somebody is held back");
    let expected = Duration::from_secs_f64(prefill(LONG) - HOLD.as_secs_f64());
    assert!(due.since(bench.now).abs_diff(expected) < Duration::from_micros(1), "{due:?}");
    bench.pool.tick(due);
    let (whose, granted) = bench.grants().pop().expect("there is no second look");
    assert_eq!(whose, ticket);
    // What is before the second is all that time can bring down: a first byte must come.
    bench.now = due;
    let scrape = bench.pool.next_deadline();
    let _second = bench.burdened(&[4000]);
    let ticket = bench.queued_for(&asks(10), by(1));
    assert_eq!(bench.pool.next_deadline(), scrape, "nothing of it is to be seen before");
    bench.now = bench.now + HOLD;
    [first, granted.lease].into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    let due = bench.pool.next_deadline().expect("the second is begun");
    let expected = Duration::from_secs_f64(prefill(4000) - HOLD.as_secs_f64());
    assert!(due.since(bench.now).abs_diff(expected) < Duration::from_micros(1), "{due:?}");
    bench.pool.tick(due);
    assert_eq!(bench.tickets(), [ticket]);
}

#[test]
fn a_newcomer_does_not_overtake_whom_time_alone_has_brought_a_place() {
    let mut bench = bench(1);
    let _open = bench.burdened(&[LONG]);
    let first = bench.queued_for(&asks(LONG), by(1));
    bench.now = bench.now + seconds(2);
    let second = bench.queued_for(&asks(10), by(1));
    assert_eq!(bench.tickets(), [first], "nobody has ticked");
    assert!(bench.pool.leave(second));
}

#[test]
fn whom_a_full_queue_would_turn_away_only_for_being_held_back_sends_on_who_is_first() {
    // What waits, of which keys; who comes; which one goes on, the newcomer being the last.
    type Row = (&'static str, &'static [(u32, u32)], (u32, u32), usize);
    let rows: [Row; 4] = [
        ("the shortest of the key", &[(1, 4000), (1, 2000)], (1, 8000), 1),
        ("the newcomer, if it is first", &[(1, 4000), (1, 2000)], (1, 1000), 2),
        ("the key whose turn it is", &[(1, 4000), (1, 4000)], (2, 1000), 0),
        ("where nobody may wait, itself", &[], (1, 8000), 0),
    ];
    for (rule, waiting, (key, tokens), goes) in rows {
        let mut bench = bench(1);
        let _open = bench.burdened(&[HUGE]);
        let of = |key| Waiting { key: KeyIndex(key), ..bounded(waiting.len(), seconds(60)) };
        let mut tickets: Vec<Ticket> =
            waiting.iter().map(|(key, tokens)| bench.queued_for(&asks(*tokens), of(*key))).collect();
        tickets.push(bench.queued_for(&asks(tokens), of(key)));
        assert_eq!(bench.tickets(), [tickets[goes]], "{rule}");
        let seen = bench.pool.queue(bench.now);
        assert_eq!((bench.waiting(), seen.sent_on, seen.refused), (waiting.len(), 1, 0), "{rule}");
    }
}

#[test]
fn the_end_of_its_wait_sends_one_on_that_was_only_held_back() {
    let mut bench = bench(1);
    let _open = bench.burdened(&[HUGE]);
    let ticket = bench.queued_for(&asks(10), bounded(9, seconds(2)));
    bench.pass(Duration::from_millis(1999));
    assert_eq!(bench.tickets(), []);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.tickets(), [ticket]);
    let seen = bench.pool.queue(bench.now);
    assert_eq!((seen.sent_on, seen.timeouts, bench.waiting()), (1, 0, 0));
}

#[test]
fn whoever_waits_for_a_slot_is_turned_away_as_ever() {
    let mut bench = bench(1);
    bench.pool.set_slots(ReplicaId(0), Some(1));
    let open = bench.placed_for(&asks(LONG), by(1)).lease;
    let first = bench.queued_for(&asks(10), bounded(1, seconds(1)));
    assert!(matches!(bench.pool.admit(bench.now, &asks(10), bounded(1, seconds(1))), Admission::Full { .. }));
    let seen = bench.pool.queue(bench.now);
    assert_eq!((seen.waiting[0].waiting, seen.waiting[0].held), (1, 0), "no slot, whatever the hold");
    bench.pass(seconds(1));
    let told = bench.told();
    assert!(
        matches!(told.as_slice(), [Told::Denied(whose, Denial::QueueTimeout { .. })] if *whose == first),
        "{told:?}"
    );
    bench.end(open, Verdict::Success);
}

#[test]
fn where_nobody_is_in_service_nobody_is_held_back() {
    let mut bench = bench(1);
    let open = bench.burdened(&[HUGE]);
    let ticket = bench.queued_for(&asks(10), by(1));
    bench.book(0, Verdict::Refused);
    let granted = bench.grants();
    assert_eq!(granted[0].0, ticket);
    assert_eq!(granted[0].1.reason, Reason::LastResort, "as without a hold");
    open.into_iter().for_each(|lease| bench.end(lease, Verdict::Refused));
    bench.pool.drain(bench.now, ReplicaId(0));
    let admission = bench.pool.admit(bench.now, &asks(10), by(1));
    assert!(matches!(admission, Admission::No(NoReplica::NotReady)), "{admission:?}");
}

#[test]
fn a_client_that_leaves_while_its_request_is_held_back_leaves_nothing_behind() {
    let mut bench = bench(1);
    let open = bench.burdened(&[HUGE]);
    let first = bench.queued_for(&asks(10), by(1));
    let second = bench.queued_for(&asks(4000), by(2));
    assert!(bench.pool.leave(first) && !bench.pool.leave(first));
    open.into_iter().for_each(|lease| bench.end(lease, Verdict::Neutral));
    let granted = bench.grants();
    assert_eq!(granted.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [second]);
    // It left at the very moment of its grant: the place goes on.
    let third = bench.queued_for(&asks(10), by(3));
    for (_, mut picked) in granted {
        bench.pool.served(&mut picked.lease, 0);
        bench.end(picked.lease, Verdict::Neutral);
    }
    assert_eq!(bench.tickets(), [third]);
    assert!(!bench.pool.holds() && bench.waiting() == 0);
}

#[test]
fn what_is_held_back_and_why_is_shown() {
    let mut bench = bench(2);
    let _open = bench.burdened(&[HUGE, HUGE]);
    let _ = (bench.queued_for(&asks(4000), by(1)), bench.queued_for(&asks(1000), by(1)));
    let seen = bench.pool.queue(bench.now);
    assert_eq!((seen.waiting[0].waiting, seen.waiting[0].held), (2, 2));
    let told = bench.pool.explain(bench.now, &asks(2000), Some(by(1)));
    assert_eq!(told.outcome, Err(NoPlace::Held { ahead: 1 }), "behind the shorter one, before the longer");
    for candidate in &told.candidates {
        assert_eq!(candidate.excluded, Some("more prefill queued than `hold`, as all"));
        assert!(candidate.predicted.is_some_and(|predicted| predicted.wait > 29.0));
    }
    let steps = told.steps.join("\n");
    assert!(steps.contains("none with at most 0.1 s of prefill queued"), "{steps}");
    assert!(steps.contains("held back"), "{steps}");
}

#[test]
fn once_one_has_little_enough_queued_the_cheapest_of_all_is_chosen() {
    let mut bench = bench(2);
    let talk: Vec<u64> = (1..=30).collect();
    let prompt = Prompt { tokens: 15_100, blocks: &talk, block_tokens: 500, whole_answer: false };
    let known = PickRequest { prompt, ..asks(15_100) };
    let home = bench.placed_for(&known, by(1));
    let at = home.replica.0;
    bench.end(home.lease, Verdict::Neutral);
    // 0.3 s are before it there, and 1.5 s of prefill elsewhere.
    let burden = if at == 0 { [3000, HUGE] } else { [HUGE, 3000] };
    let open = bench.burdened(&burden);
    let ticket = bench.queued_for(&known, by(1));
    open.into_iter()
        .filter(|lease| lease.replica().0 != at)
        .for_each(|lease| bench.end(lease, Verdict::Neutral));
    let granted: Vec<(Ticket, u32)> =
        bench.grants().into_iter().map(|(whose, picked)| (whose, picked.replica.0)).collect();
    assert_eq!(granted, [(ticket, at)], "where it is known, though the other one is idle");
}
