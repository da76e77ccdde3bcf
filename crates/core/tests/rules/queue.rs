//! Who waits, who gets a place at once, and who is next.

use crate::bench::{Bench, healthy, request, seconds, session, spec, told as telling};
use crate::queue_bench::by;
use sluicegate_core::*;

#[test]
fn without_slots_nobody_waits_and_admit_is_pick() {
    let mut bench = Bench::live(2, PoolSettings::default());
    (0..2).for_each(|id| bench.pool.set_slots(ReplicaId(id), None));
    bench.scrape(0, healthy(500, 20));
    bench.scrape(1, healthy(400, 30));
    for n in 0..50 {
        let told = telling(&bench.pool.explain(bench.now, &session(n % 5), None));
        let mut picked = bench.placed_for(&session(n % 5), by(1));
        assert_eq!(told, Ok((picked.replica, picked.reason, picked.spilled)));
        bench.pool.answered(bench.now, &mut picked.lease);
    }
    let mut empty = Bench::new(PoolSettings::default());
    assert!(matches!(empty.admit(by(1)), Admission::No(NoReplica::NoneKnown)));
    empty.pool.add(empty.now, spec("r0", Origin::Startup));
    assert!(matches!(empty.admit(by(1)), Admission::No(NoReplica::NotReady)), "STARTING, slots unknown");
}

#[test]
fn a_slot_is_free_below_the_slots_counting_what_others_put_on_the_engine() {
    // slots, the engine's running and waiting, own requests -> free
    let rows = [
        (4, None, 0, true),
        (4, None, 3, true),
        (4, None, 4, false),
        (4, Some((3, 0)), 0, true),
        (4, Some((4, 0)), 0, false),
        (4, Some((9, 0)), 1, false),
        (4, Some((0, 1)), 0, false),
        (1, Some((0, 0)), 0, true),
        (0, None, 0, false),
    ];
    for (slots, engine, own, free) in rows {
        let mut bench = Bench::slotted(&[slots]);
        let _open: Vec<Picked> = (0..own).map(|_| bench.placed(by(1))).collect();
        if let Some((running, waiting)) = engine {
            bench.scrape(0, healthy(running, waiting));
        }
        let got = matches!(bench.admit(by(1)), Admission::Picked(_));
        assert_eq!(got, free, "{slots} slots, {engine:?}, {own} own");
    }
}

#[test]
fn a_replica_whose_slots_are_not_known_always_has_one() {
    let mut bench = Bench::slotted(&[1, 1]);
    bench.pool.set_slots(ReplicaId(1), None);
    let at: Vec<u32> = (0..20).map(|_| bench.placed(by(1)).replica.0).collect();
    assert_eq!((at.iter().filter(|id| **id == 0).count(), bench.waiting()), (1, 0));
}

#[test]
fn whatever_brings_a_place_gives_it_to_one_who_waits() {
    type Event = fn(&mut Bench, Vec<Lease>);
    // what happens, how many of three who wait get a place
    let rows: [(&str, Event, usize); 9] = [
        ("nothing", |_, _| {}, 0),
        ("a release", |bench, mut open| bench.end(open.remove(0), Verdict::Success), 1),
        ("two releases", |bench, open| open.into_iter().for_each(|l| bench.end(l, Verdict::Neutral)), 2),
        ("one slot more", |bench, _| bench.pool.set_slots(ReplicaId(0), Some(2)), 1),
        ("slots that are not known any more", |bench, _| bench.pool.set_slots(ReplicaId(0), None), 3),
        ("a new hosted replica", |bench, _| bench.add_hosted(1), 3),
        (
            "a drain's end",
            |bench, _| (bench.pool.undrain(bench.now, ReplicaId(2)), bench.scrape(2, healthy(0, 0))).1,
            2,
        ),
        (
            "a good scrape of one that STARTS",
            |bench, _| {
                let spec = ReplicaSpec { slots: Some(1), ..spec("new", Origin::Startup) };
                let id = bench.pool.add(bench.now, spec);
                assert_eq!(bench.grants().len(), 0, "not before");
                bench.pool.scraped(bench.now, id, healthy(0, 0), None);
            },
            1,
        ),
        ("another model", |bench, _| bench.pool.set_serves(ReplicaId(3), Serves::All), 1),
    ];
    for (event, apply, places) in rows {
        let mut bench = Bench::slotted(&[1, 1, 2, 1]);
        bench.pool.set_serves(ReplicaId(3), Serves::Only(vec![ModelId(7)]));
        bench.pool.drain(bench.now, ReplicaId(2));
        let asked = PickRequest { model: Some(ModelId(1)), ..request() };
        let open: Vec<Lease> = (0..2).map(|_| bench.placed_for(&asked, by(9)).lease).collect();
        let waiting: Vec<Ticket> = (0..3).map(|_| bench.queued_for(&asked, by(1))).collect();
        apply(&mut bench, open);
        assert_eq!(bench.tickets(), waiting[..places], "{event}");
    }
}

#[test]
fn load_that_others_put_on_the_engine_keeps_the_request_here_until_it_is_gone() {
    let mut bench = Bench::slotted(&[4]);
    bench.scrape(0, healthy(4, 2));
    let ticket = bench.queued(by(1));
    for (running, waiting) in [(4, 1), (4, 0), (3, 1)] {
        bench.scrape(0, healthy(running, waiting));
        assert_eq!(bench.tickets(), [], "{running} running, {waiting} waiting");
    }
    bench.scrape(0, healthy(3, 0));
    assert_eq!(bench.tickets(), [ticket]);
}

#[test]
fn order_is_class_then_retries_then_the_least_served_key_then_arrival() {
    // Each who waits: key, class, retry; then the order in which they are served, one after the other. 100 tokens each.
    type Row = (&'static str, &'static [(u32, i32, bool)], &'static [usize]);
    let rows: [Row; 7] = [
        ("arrival, inside a key", &[(1, 0, false), (1, 0, false), (1, 0, false)], &[0, 1, 2]),
        ("keys take turns", &[(1, 0, false), (1, 0, false), (1, 0, false), (2, 0, false)], &[0, 3, 1, 2]),
        ("the higher class first", &[(1, 0, false), (2, -3, false), (3, 5, false)], &[2, 0, 1]),
        ("a class is strict", &[(1, 0, false), (3, 5, false), (3, 5, false), (3, 5, false)], &[1, 2, 3, 0]),
        ("a retry goes ahead of its class", &[(1, 0, false), (2, 0, true), (2, 1, false)], &[2, 1, 0]),
        ("retries in order of arrival", &[(1, 0, true), (1, 0, true), (2, 0, true)], &[0, 1, 2]),
        ("equal keys in order of arrival", &[(3, 0, false), (1, 0, false), (2, 0, false)], &[0, 1, 2]),
    ];
    for (rule, waiting, order) in rows {
        let mut bench = Bench::slotted(&[1, 100]);
        bench.pool.drain(bench.now, ReplicaId(1));
        let open = bench.placed(by(99)).lease;
        let tried = [ReplicaId(1)];
        let tickets: Vec<Ticket> = waiting
            .iter()
            .map(|(key, priority, retry)| {
                let tried: &[ReplicaId] = if *retry { &tried } else { &[] };
                let asked = PickRequest { tried, ..request() };
                bench.queued_for(&asked, Waiting { priority: *priority, ..by(*key) })
            })
            .collect();
        let expected: Vec<Ticket> = order.iter().map(|index| tickets[*index]).collect();
        assert_eq!(bench.serve_all(open), expected, "{rule}");
    }
}

#[test]
fn a_newcomer_overtakes_only_those_who_cannot_use_its_place() {
    let mut bench = Bench::slotted(&[1, 1]);
    (0..2).for_each(|id| bench.pool.set_serves(ReplicaId(id), Serves::Only(vec![ModelId(id)])));
    let asked = |model| PickRequest { model: Some(ModelId(model)), ..request() };
    let first = bench.placed_for(&asked(0), by(1));
    let waits = bench.queued_for(&asked(0), by(1));
    let other = bench.placed_for(&asked(1), by(2));
    assert_eq!(other.replica, ReplicaId(1), "another model does not wait behind it");
    let tried = [ReplicaId(0)];
    let retry = PickRequest { tried: &tried, ..request() };
    let retry = bench.queued_for(&retry, by(2));
    bench.end(first.lease, Verdict::Success);
    let granted = bench.grants();
    assert_eq!(granted[0].0, waits, "the retry could not use the place");
    let late = bench.queued_for(&asked(0), Waiting { priority: 9, ..by(3) });
    bench.end(other.lease, Verdict::Success);
    assert_eq!(bench.tickets(), [retry], "nor a higher class the one that is free now");
    assert!(bench.pool.leave(late));
}

#[test]
fn a_pin_is_followed_at_the_grant_if_its_replica_is_the_one_with_a_free_slot() {
    // which of the two is released, where the session goes and why
    let rows = [(1, 1, Reason::AffinitySession, false), (0, 0, Reason::Load, true)];
    for (released, replica, reason, spilled) in rows {
        let mut bench = Bench::slotted(&[1, 1]);
        let mut home = bench.placed_for(&session(1), by(1));
        bench.pool.answered(bench.now, &mut home.lease);
        let other = bench.placed(by(9));
        assert_eq!((other.replica.0, home.replica.0), (0, 1));
        let ticket = bench.queued_for(&session(1), by(1));
        bench.end(if released == 0 { other.lease } else { home.lease }, Verdict::Success);
        let granted = bench.grants();
        assert_eq!(granted.len(), 1);
        let (whose, picked) = &granted[0];
        assert_eq!(
            (*whose, picked.replica.0, picked.reason, picked.spilled),
            (ticket, replica, reason, spilled)
        );
        assert_eq!(picked.lease.replica(), picked.replica);
    }
}

#[test]
fn a_probing_replica_takes_one_of_those_who_wait_until_it_is_live() {
    let mut bench = Bench::slotted(&[4]);
    bench.book(0, Verdict::Refused);
    bench.pass_with(seconds(32), |_, _| Some(healthy(0, 0)));
    assert_eq!(bench.health(0), Health::Probing);
    let first = bench.placed(by(1));
    let waiting: Vec<Ticket> = (0..2).map(|_| bench.queued(by(1))).collect();
    bench.end(first.lease, Verdict::Success);
    assert_eq!(bench.tickets(), waiting[..1]);
    bench.pass_with(seconds(20), |_, _| Some(healthy(1, 0)));
    assert_eq!((bench.health(0), bench.tickets()), (Health::Live, waiting[1..].to_vec()));
}

#[test]
fn the_last_resort_is_an_ejected_replica_with_a_free_slot() {
    let mut bench = Bench::slotted(&[1, 1]);
    let open = bench.fill();
    let waiting: Vec<Ticket> = (0..2).map(|_| bench.queued(by(1))).collect();
    bench.book(0, Verdict::Refused);
    open.into_iter()
        .filter(|lease| lease.replica().0 == 0)
        .for_each(|lease| bench.end(lease, Verdict::Refused));
    assert_eq!(bench.tickets(), [], "not while one is LIVE");
    bench.book(1, Verdict::Refused);
    let granted = bench.grants();
    assert_eq!(granted.len(), 1);
    assert_eq!(
        (granted[0].0, granted[0].1.reason, granted[0].1.replica),
        (waiting[0], Reason::LastResort, ReplicaId(0))
    );
}
