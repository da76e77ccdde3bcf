//! The pin table's rules, as choices show them.

use crate::bench::{Bench, healthy, prefix, request, seconds, session};
use sluicegate_core::*;

const SESSION: Reason = Reason::AffinitySession;
const PREFIX: Reason = Reason::AffinityPrefix;

/// A bench of `n` where session 1 (and prefix 1) is pinned to replica 0, which the first choices go to.
fn pinned(n: usize) -> Bench {
    let mut bench = Bench::live(n, PoolSettings::default());
    let others: Vec<ReplicaId> = (1..n as u32).map(ReplicaId).collect();
    let first = PickRequest { tried: &others, prefix: Some(1), ..session(1) };
    assert_eq!(bench.turn(&first).0, 0);
    assert_eq!(bench.pins(), (1, 1));
    bench
}

fn talk(hash: u64, continued: bool) -> PickRequest<'static> {
    PickRequest { session: Some(Session::Conversation { hash, continued }), ..request() }
}

/// Load at the pin's replica and at the others (running, waiting), and what becomes of a pinned request.
#[test]
fn a_pin_is_used_within_its_slack_and_only_without_a_queue() {
    type Row = (PickRequest<'static>, (u32, u32), (u32, u32), Reason, bool);
    let rows: [Row; 12] = [
        (session(1), (0, 0), (0, 0), SESSION, false),
        (session(1), (1, 0), (0, 0), SESSION, false),
        (session(1), (2, 0), (0, 0), Reason::Load, true),
        (session(1), (3, 0), (0, 0), Reason::Rebind, true),
        (session(1), (0, 1), (0, 0), Reason::Load, true),
        (session(1), (5, 0), (4, 0), SESSION, false),
        (session(1), (5, 0), (9, 1), SESSION, false),
        (session(1), (5, 1), (9, 1), Reason::Load, false),
        (prefix(1), (0, 0), (0, 0), PREFIX, false),
        (prefix(1), (1, 0), (0, 0), Reason::Load, true),
        (prefix(1), (4, 0), (4, 0), PREFIX, false),
        (prefix(1), (3, 0), (0, 0), Reason::Rebind, true),
    ];
    for (asked, at_pin, elsewhere, reason, spilled) in rows {
        let mut bench = pinned(3);
        bench.scrape(0, healthy(at_pin.0, at_pin.1));
        (1..3).for_each(|id| bench.scrape(id, healthy(elsewhere.0, elsewhere.1)));
        let (id, got, did_spill) = bench.turn(&asked);
        assert_eq!((got, did_spill), (reason, spilled), "{at_pin:?} {elsewhere:?} {asked:?}");
        assert_eq!(id == 0, !spilled, "{at_pin:?} {elsewhere:?} {asked:?}");
    }
}

#[test]
fn the_session_pin_comes_before_the_prefix_pin_which_is_not_asked_when_it_is_unusable() {
    let both = PickRequest { prefix: Some(1), ..session(1) };
    let mut bench = pinned(3);
    assert_eq!(bench.turn(&both).1, SESSION);
    // The prefix moves to replica 1, where it would be usable.
    bench.scrape(0, healthy(3, 0));
    assert_eq!(bench.turn(&prefix(1)).1, Reason::Rebind);
    assert_eq!(bench.turn(&prefix(1)), (1, PREFIX, false));
    bench.scrape(0, healthy(2, 0));
    assert_eq!(bench.turn(&both), (2, Reason::Load, true), "in turn, not by the prefix");
    assert_eq!(bench.turn(&PickRequest { prefix: Some(1), ..session(2) }).1, PREFIX, "a new session asks it");
}

#[test]
fn a_pin_is_made_at_the_first_answer_byte_at_a_live_replica() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let mut picked = bench.pick(&session(1));
    assert_eq!(bench.pins(), (0, 0), "not at the choice");
    bench.pool.answered(bench.now, &mut picked.lease);
    assert_eq!((bench.pins(), bench.snapshot(picked.replica.0).pins), ((1, 0), 1));
    bench.end(picked.lease, Verdict::Success);
    let unanswered = bench.pick(&session(2));
    bench.end(unanswered.lease, Verdict::Neutral);
    assert_eq!(bench.pins(), (1, 0));
    let mut late = bench.pick(&session(3));
    bench.book(late.replica.0, Verdict::Refused);
    let before = bench.pins();
    bench.pool.answered(bench.now, &mut late.lease);
    assert_eq!(bench.pins(), before, "EJECTED meanwhile");
}

#[test]
fn the_third_spill_in_a_row_rebinds_a_session() {
    let mut bench = pinned(2);
    bench.scrape(0, healthy(2, 0));
    let reasons: Vec<_> = (0..4).map(|_| bench.turn(&session(1))).collect();
    let away = (1, Reason::Load, true);
    assert_eq!(reasons, [away, away, (1, Reason::Rebind, true), (1, SESSION, false)]);
}

#[test]
fn a_use_ends_a_row_of_spills() {
    let mut bench = pinned(2);
    for _ in 0..3 {
        bench.scrape(0, healthy(2, 0));
        (0..2).for_each(|_| assert_eq!(bench.turn(&session(1)).1, Reason::Load));
        bench.scrape(0, healthy(0, 0));
        assert_eq!(bench.turn(&session(1)), (0, SESSION, false));
    }
}

#[test]
fn the_second_spill_in_a_row_deletes_a_prefix_pin() {
    let mut bench = pinned(2);
    bench.scrape(0, healthy(1, 0));
    assert_eq!(bench.turn(&prefix(1)), (1, Reason::Load, true));
    assert_eq!(bench.pins().1, 1);
    let mut second = bench.pick(&prefix(1));
    assert_eq!((second.reason, second.spilled, bench.pins().1), (Reason::Load, true, 0));
    bench.pool.answered(bench.now, &mut second.lease);
    bench.end(second.lease, Verdict::Success);
    assert_eq!(bench.turn(&prefix(1)), (1, PREFIX, false), "made anew where the request went");
}

#[test]
fn lifetimes_are_renewed_by_uses_and_not_by_spills() {
    for (asked, ttl) in [(session(1), 3600), (prefix(1), 300)] {
        for (uses, expected) in [(true, (1, true)), (false, (0, false))] {
            let mut bench = pinned(2);
            bench.pass(seconds(ttl - 1));
            bench.scrape(0, healthy(if uses { 0 } else { 2 }, 0));
            assert_eq!(bench.turn(&asked).2, !uses);
            bench.pass(seconds(ttl - 1));
            let (sessions, prefixes) = bench.pins();
            let left = if asked.prefix.is_some() { prefixes } else { sessions };
            bench.scrape(0, healthy(0, 0));
            bench.scrape(1, healthy(0, 0));
            let warm = bench.pick(&asked).reason != Reason::Load;
            assert_eq!((left, warm), expected, "{asked:?}, used: {uses}");
        }
    }
}

#[test]
fn an_idle_pin_is_not_used_even_before_it_is_swept() {
    for (asked, ttl) in [(session(1), 3600), (prefix(1), 300)] {
        for (idle, warm) in [(ttl - 1, true), (ttl, false)] {
            let mut bench = pinned(3);
            bench.now = bench.now + seconds(idle);
            assert_eq!(bench.pick(&asked).reason != Reason::Load, warm, "{asked:?} after {idle} s");
        }
    }
}

#[test]
fn a_pin_to_a_replica_out_of_service_is_dead_and_stays_so() {
    type Leave = (&'static str, fn(&mut Bench));
    let leave: [Leave; 3] = [
        ("ejected", |bench| bench.book(0, Verdict::Refused)),
        ("draining", |bench| bench.pool.drain(bench.now, ReplicaId(0))),
        ("loading", |bench| bench.scrape(0, Scrape::Loading)),
    ];
    for (name, leave) in leave {
        let mut bench = pinned(3);
        leave(&mut bench);
        assert_eq!((bench.pins(), bench.snapshot(0).pins), ((0, 0), 0), "{name}");
        bench.pool.undrain(bench.now, ReplicaId(0));
        bench.pass_with(seconds(60), |_, _| Some(healthy(0, 0)));
        assert_eq!(bench.health(0), Health::Live, "{name}");
        let (id, reason, spilled) = bench.turn(&session(1));
        assert_eq!((reason, spilled), (Reason::Load, false), "{name}: back in service, its cache is not");
        assert_eq!(bench.turn(&session(1)), (id, SESSION, false), "{name}: made anew where the request went");
    }
}

#[test]
fn a_probing_replica_takes_no_pins() {
    let mut bench = pinned(1);
    bench.book(0, Verdict::Refused);
    (0..2).for_each(|_| bench.scrape(0, healthy(0, 0)));
    bench.pass(seconds(30));
    assert_eq!(bench.health(0), Health::Probing);
    assert_eq!(bench.turn(&session(2)).1, Reason::Load);
    assert_eq!(bench.pins(), (0, 0));
}

#[test]
fn the_table_is_bounded_and_the_least_recently_used_goes_first() {
    let mut settings = PoolSettings::default();
    settings.affinity.max_pins = 3;
    let mut bench = Bench::live(1, settings);
    for key in [1, 2, 3, 1, 4] {
        bench.pass(seconds(1));
        bench.turn(&session(key));
    }
    assert_eq!(bench.pins().0, 3);
    let warm: Vec<u64> = (1..=4).filter(|key| bench.pick(&session(*key)).reason == SESSION).collect();
    assert_eq!(warm, [1, 3, 4]);
}

#[test]
fn a_talk_is_pinned_by_its_first_turn_and_followed_by_its_later_ones_with_no_slack() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let (first, ..) = bench.turn(&talk(1, false));
    assert_eq!(bench.turn(&talk(1, true)), (first, SESSION, false));
    bench.scrape(first, healthy(1, 0));
    assert_eq!(bench.turn(&talk(1, true)), (1 - first, Reason::Load, true), "slack 0");
    bench.scrape(first, healthy(0, 0));
    let another = bench.turn(&talk(1, false));
    assert_eq!((another.1, another.2), (Reason::Load, false), "a first turn follows nothing");
    assert_eq!(bench.turn(&talk(1, true)), (another.0, SESSION, false), "and makes the pin");
    assert_eq!(bench.turn(&talk(2, true)).1, Reason::Load, "a later turn of an unknown talk");
    assert_eq!(bench.turn(&talk(2, true)).1, SESSION, "makes one as well");
}

#[test]
fn a_pin_that_points_elsewhere_by_then_is_left_alone() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let (mut one, mut two) = (bench.pick(&session(1)), bench.pick(&session(1)));
    assert_ne!(one.replica, two.replica);
    bench.pool.answered(bench.now, &mut two.lease);
    bench.pool.answered(bench.now, &mut one.lease);
    let home = two.replica.0;
    bench.end(one.lease, Verdict::Success);
    bench.end(two.lease, Verdict::Success);
    assert_eq!(bench.turn(&session(1)), (home, SESSION, false));
}

#[test]
fn a_dead_session_pin_is_unusable_and_an_idle_one_is_none_at_all() {
    let both = PickRequest { prefix: Some(1), ..session(1) };
    for (dead, reason) in [(true, Reason::Load), (false, PREFIX)] {
        let mut settings = PoolSettings::default();
        settings.affinity.session_ttl = seconds(10);
        let mut bench = Bench::live(3, settings);
        let (home, ..) = bench.turn(&session(1));
        let (warm, ..) = bench.turn(&prefix(1));
        assert_ne!(home, warm);
        if dead {
            bench.book(home, Verdict::Refused);
        } else {
            bench.now = bench.now + seconds(10);
        }
        let picked = bench.pick(&both);
        assert_eq!((picked.reason, picked.spilled), (reason, false), "dead: {dead}");
    }
}
