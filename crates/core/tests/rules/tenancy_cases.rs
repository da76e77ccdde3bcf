//! Field cases of limits, queue and poison guard, as far as they are pure decisions.

use crate::bench::{Bench, healthy, request, seconds};
use crate::limits::{ask, at, spent, today};
use crate::queue_bench::{Told, bounded, by};
use sluicegate_core::*;
use std::time::Duration;

#[test]
fn g15_two_replicas_see_a_poison_request_and_the_identical_next_ones_are_refused() {
    let mut bench = Bench::live(3, PoolSettings::default());
    let settings = RetrySettings::default();
    let (mut budget, mut list) = (RetryBudget::new(&settings), PoisonList::default());
    let (poison, mut seen, mut refused) = (0xbad, 0, 0);
    for _ in 0..10 {
        bench.now = bench.now + seconds(1);
        if let Some(left) = list.is_suspect(bench.now, poison) {
            assert!(left <= seconds(60));
            refused += 1;
            continue;
        }
        let mut attempts = Attempts::new();
        loop {
            let picked = bench.pick(&PickRequest { tried: attempts.tried(), ..request() });
            attempts.started(picked.replica);
            seen += 1;
            let failure = AttemptFailure::Reset { sent_whole: true };
            let (verdict, next) = attempts.failed(bench.now, failure, &settings, &mut budget);
            bench.end(picked.lease, verdict);
            if next == Next::GiveUp {
                break;
            }
        }
        if attempts.is_suspect() {
            list.suspect(bench.now, poison);
        }
    }
    assert_eq!((seen, refused), (2, 9));
    assert!((0..3).all(|id| bench.health(id) == Health::Live), "nobody is ejected for it");
    assert_eq!(list.is_suspect(bench.now, 0x600d), None, "others pass");
    assert_eq!(list.is_suspect(bench.now + seconds(60), poison), None, "and itself after a minute");
}

#[test]
fn a_46_a_slot_is_free_at_the_end_of_the_body_and_not_at_its_head() {
    let mut bench = Bench::slotted(&[8]);
    let mut open: Vec<Picked> = (0..8).map(|_| bench.placed(by(1))).collect();
    open.iter_mut().for_each(|picked| bench.pool.answered(bench.now, &mut picked.lease));
    let waiting: Vec<Ticket> = (0..100).map(|_| bench.queued(by(1))).collect();
    bench.pass_with(seconds(30), |_, _| Some(healthy(8, 0)));
    assert_eq!((bench.tickets().len(), bench.snapshot(0).inflight), (0, 8));
    bench.end(open.remove(0).lease, Verdict::Success);
    assert_eq!((bench.tickets(), bench.snapshot(0).inflight), (vec![waiting[0]], 8));
}

/// One replica takes 2 s, the other answers 503 at once; 100 requests, 10 of them at a time.
#[test]
fn a_51_fast_failures_do_not_attract_traffic() {
    for slots in [None, Some(16)] {
        let mut bench = Bench::slotted(&[16, 16]);
        (0..2).for_each(|id| bench.pool.set_slots(ReplicaId(id), slots));
        let settings = RetrySettings::default();
        let mut budget = RetryBudget::new(&settings);
        let (mut first_at_broken, mut served) = (0, 0);
        for _ in 0..10 {
            let mut running = Vec::new();
            for _ in 0..10 {
                budget.request(bench.now, KeyIndex(0));
                let mut attempts = Attempts::new();
                loop {
                    let asked = PickRequest { tried: attempts.tried(), ..request() };
                    let Admission::Picked(picked) = bench.pool.admit(bench.now, &asked, by(1)) else { break };
                    attempts.started(picked.replica);
                    if picked.replica == ReplicaId(0) {
                        running.push(picked.lease);
                        break;
                    }
                    first_at_broken += u32::from(attempts.count() == 1);
                    let failure = AttemptFailure::Status(503);
                    let (verdict, next) = attempts.failed(bench.now, failure, &settings, &mut budget);
                    bench.end(picked.lease, verdict);
                    if next == Next::GiveUp {
                        break;
                    }
                }
            }
            let busy = running.len() as u32;
            bench.pass_with(seconds(2), |_, id| Some(healthy(if id.0 == 0 { busy } else { 0 }, 0)));
            served += running.len();
            running.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
        }
        assert!(
            served >= 95 && first_at_broken <= 5,
            "{served} served, {first_at_broken} began at the broken one"
        );
        assert_eq!(bench.health(1), Health::Ejected);
    }
}

#[test]
fn a_53_a_key_s_places_come_back_whatever_the_end() {
    let mut ledger = KeyLedger::new(KeyLimits { max_concurrent: Some(2), ..KeyLimits::default() });
    let mut bench = Bench::slotted(&[1]);
    type End = fn(&mut KeyLedger, Reservation, &mut Bench);
    let ends: [(&str, End); 4] = [
        ("backend timeout, 502", |ledger, r, _| ledger.settle(at(1), today(), r, spent(0))),
        ("unknown model, bad JSON", |ledger, r, _| ledger.settle(at(1), today(), r, Spent::default())),
        ("client gone mid-stream", |ledger, r, _| ledger.settle(at(1), today(), r, spent(500))),
        ("client gone while queued", |ledger, r, bench| {
            let open = bench.fill();
            let ticket = bench.queued(by(1));
            assert!(bench.pool.leave(ticket));
            ledger.settle(at(1), today(), r, Spent::default());
            open.into_iter().for_each(|lease| bench.end(lease, Verdict::Neutral));
        }),
    ];
    for (end, apply) in ends {
        for _ in 0..20 {
            let reservation = ledger.reserve(at(1), today(), ask(100)).expect("below the limit");
            apply(&mut ledger, reservation, &mut bench);
        }
        let good: Vec<Reservation> =
            (0..2).map(|_| ledger.reserve(at(1), today(), ask(1)).expect(end)).collect();
        good.into_iter().for_each(|one| ledger.settle(at(1), today(), one, spent(1)));
        assert_eq!((ledger.usage(at(1), today()).concurrent, bench.waiting()), (0, 0), "{end}");
    }
}

#[test]
fn a_54_a_request_refused_by_one_limit_does_not_use_up_another() {
    let limits = KeyLimits { max_concurrent: Some(1), requests_per_minute: Some(2), ..KeyLimits::default() };
    let mut ledger = KeyLedger::new(limits);
    let a = ledger.reserve(at(0), today(), ask(1)).expect("A runs");
    for _ in 0..50 {
        let b = ledger.reserve(at(1), today(), ask(1)).expect_err("B is refused");
        assert_eq!(b.limit(), Limit::MaxConcurrent);
    }
    ledger.settle(at(2), today(), a, spent(1));
    assert!(ledger.reserve(at(3), today(), ask(1)).is_ok(), "C is served in the same minute");
}

#[test]
fn a_55_checking_and_using_a_token_budget_are_one_step() {
    // tokens per minute; how many of five parallel requests of 175 pass; what is left when each used 150
    for (limit, passed, left) in [(100, 0, 100), (400, 2, 100), (1000, 5, 250)] {
        let mut ledger = KeyLedger::new(KeyLimits { tokens_per_minute: Some(limit), ..KeyLimits::default() });
        let asked: Vec<_> = (0..5).map(|_| ledger.reserve(at(0), today(), ask(175))).collect();
        let open: Vec<Reservation> = asked.into_iter().flatten().collect();
        assert_eq!(open.len(), passed, "of a limit of {limit}");
        open.into_iter().for_each(|one| ledger.settle(at(5), today(), one, spent(150)));
        assert_eq!(ledger.remaining(at(5)).tokens.map(|tokens| tokens.remaining), Some(left));
    }
}

/// The route is no argument: there is one ledger per key, whatever is asked for.
#[test]
fn a_56_one_ledger_counts_every_route() {
    let mut ledger = KeyLedger::new(KeyLimits { requests_per_minute: Some(3), ..KeyLimits::default() });
    let (embeddings, tokenize, chat) = (ask(0), Ask::default(), ask(900));
    let passed = [embeddings, tokenize, chat, embeddings, tokenize, chat].map(|asked| {
        let reserved = ledger.reserve(at(0), today(), asked);
        reserved.map(|one| ledger.settle(at(0), today(), one, spent(asked.tokens))).is_ok()
    });
    assert_eq!(passed, [true, true, true, false, false, false]);
}

#[test]
fn a_57_clients_that_leave_the_queue_are_never_sent_on() {
    let mut bench = Bench::slotted(&[1]);
    let open = bench.placed(by(1)).lease;
    let waiting: Vec<Ticket> = (0..10).map(|_| bench.queued(by(1))).collect();
    bench.pass_with(seconds(1), |_, _| Some(healthy(1, 0)));
    assert!(waiting[..8].iter().all(|ticket| bench.pool.leave(*ticket)));
    assert_eq!((bench.waiting(), bench.pool.queue(bench.now).left), (2, 8), "at once");
    bench.pass_with(seconds(4), |_, _| Some(healthy(1, 0)));
    assert_eq!(bench.serve_all(open), waiting[8..]);
    assert_eq!(bench.snapshot(0).picks, 3, "the engine saw exactly two more");
}

#[test]
fn a_58_back_to_back_requests_of_a_key_with_limit_one_all_pass() {
    let mut ledger = KeyLedger::new(KeyLimits { max_concurrent: Some(1), ..KeyLimits::default() });
    for n in 0..500 {
        let one = ledger.reserve(at(n / 100), today(), ask(10)).expect("the one before has ended");
        assert!(ledger.reserve(at(n / 100), today(), ask(10)).is_err(), "not two at the same time");
        ledger.settle(at(n / 100), today(), one, spent(10));
    }
}

#[test]
fn a_59_a_full_queue_and_an_expired_wait_are_told_apart_and_both_give_a_hint() {
    let mut bench = Bench::slotted(&[1]);
    let asked = bounded(2, seconds(2));
    let (mut served, mut waiting, mut hints) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..6 {
        match bench.admit(asked) {
            Admission::Picked(picked) => served.push(picked.lease),
            Admission::Queued(ticket) => waiting.push(ticket),
            Admission::Full { retry_after } => hints.push(retry_after),
            Admission::No(why) => panic!("{why}"),
        }
    }
    assert_eq!((served.len(), waiting.len(), hints.len()), (1, 2, 3));
    bench.pass_with(Duration::from_millis(1999), |_, _| Some(healthy(1, 0)));
    assert_eq!(bench.told().len(), 0);
    bench.pass_with(Duration::from_millis(1), |_, _| Some(healthy(1, 0)));
    for (told, expected) in bench.told().into_iter().zip(&waiting) {
        let Told::Denied(ticket, Denial::QueueTimeout { retry_after }) = told else { panic!("{told:?}") };
        assert_eq!(ticket, *expected);
        hints.push(retry_after);
    }
    assert_eq!(hints.len(), 5);
    assert!(hints.iter().all(|hint| *hint >= seconds(1)), "{hints:?}");
}
