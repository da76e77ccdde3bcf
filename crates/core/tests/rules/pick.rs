//! The five steps of choosing.

use crate::bench::{Bench, healthy, prefix, request, seconds, session};
use sluicegate_core::*;
use std::collections::BTreeSet;

fn settings(change: impl FnOnce(&mut PoolSettings)) -> PoolSettings {
    let mut settings = PoolSettings::default();
    change(&mut settings);
    settings
}

/// Sends replica `id` to EJECTED and back to PROBING.
fn make_probing(bench: &mut Bench, id: u32) {
    bench.book(id, Verdict::Refused);
    (0..2).for_each(|_| bench.scrape(id, healthy(0, 0)));
    bench.pass(seconds(30));
    assert_eq!(bench.health(id), Health::Probing);
}

#[test]
fn the_least_loaded_of_those_without_a_queue_wins() {
    // (running, waiting) of each engine -> where the next request goes
    let rows: [(&[(u32, u32)], u32); 7] = [
        (&[(3, 0), (1, 0), (2, 0)], 1),
        (&[(3, 0), (1, 1), (2, 0)], 2),
        (&[(9, 0), (1, 1), (2, 5)], 0),
        (&[(3, 1), (1, 9), (2, 5)], 1),
        (&[(3, 1), (3, 1), (2, 5)], 2),
        (&[(0, 0), (0, 0), (0, 0)], 1),
        (&[(0, 0), (1, 0), (0, 0)], 2),
    ];
    for (engines, expected) in rows {
        let mut bench = Bench::live(3, PoolSettings::default());
        for (id, (running, waiting)) in engines.iter().enumerate() {
            bench.scrape(id as u32, healthy(*running, *waiting));
        }
        assert_eq!(bench.turn(&request()), (expected, Reason::Load, false), "{engines:?}");
    }
}

#[test]
fn ties_go_round() {
    let mut bench = Bench::live(4, PoolSettings::default());
    let order: Vec<u32> = (0..8).map(|_| bench.turn(&request()).0).collect();
    assert_eq!(order, [1, 2, 3, 0, 1, 2, 3, 0]);
}

#[test]
fn live_comes_before_probing_and_probing_has_a_limit() {
    let mut bench = Bench::live(2, PoolSettings::default());
    make_probing(&mut bench, 0);
    assert_eq!(bench.turn(&request()).0, 1, "a LIVE one without a queue exists");
    bench.scrape(1, healthy(0, 1));
    assert_eq!(bench.turn(&request()).0, 1, "both have nothing running: LIVE first");
    bench.scrape(1, healthy(5, 1));
    let probe = bench.pick(&request());
    assert_eq!(probe.replica, ReplicaId(0), "the PROBING one is less loaded");
    assert_eq!(bench.turn(&request()).0, 1, "and at its limit");
    bench.book(1, Verdict::Refused);
    assert_eq!(
        bench.pool.pick(bench.now, &request()).err(),
        Some(NoReplica::NotReady),
        "nobody else is in service"
    );
    bench.end(probe.lease, Verdict::Success);
    assert_eq!(bench.turn(&request()).0, 0);
}

#[test]
fn only_replicas_that_serve_the_model_and_have_not_failed_it() {
    let (a, b, c) = (ModelId(1), ModelId(2), ModelId(3));
    let mut bench = Bench::live(3, PoolSettings::default());
    bench.pool.set_serves(ReplicaId(0), Serves::Only(vec![a]));
    bench.pool.set_serves(ReplicaId(1), Serves::Only(vec![a, b]));
    bench.pool.set_serves(ReplicaId(2), Serves::Only(vec![b]));
    type Row = (Option<ModelId>, &'static [ReplicaId], Result<&'static [u32], NoReplica>);
    let rows: [Row; 7] = [
        (Some(a), &[], Ok(&[0, 1])),
        (Some(b), &[], Ok(&[1, 2])),
        (None, &[], Ok(&[0, 1, 2])),
        (Some(a), &[ReplicaId(0)], Ok(&[1])),
        (Some(a), &[ReplicaId(0), ReplicaId(1)], Err(NoReplica::AllTried)),
        (Some(c), &[], Err(NoReplica::NoneKnown)),
        (None, &[ReplicaId(0), ReplicaId(1), ReplicaId(2)], Err(NoReplica::AllTried)),
    ];
    for (model, tried, expected) in rows {
        let asked = PickRequest { model, tried, ..request() };
        let got: Result<BTreeSet<u32>, NoReplica> = (0..6)
            .map(|_| {
                let picked = bench.pool.pick(bench.now, &asked)?;
                bench.end(picked.lease, Verdict::Success);
                Ok(picked.replica.0)
            })
            .collect();
        assert_eq!(got, expected.map(|ids| ids.iter().copied().collect()), "{model:?} {tried:?}");
    }
}

#[test]
fn without_live_or_probing_a_random_ejected_one_and_nobody_else() {
    let mut bench = Bench::live(5, PoolSettings::default());
    bench.pool.drain(bench.now, ReplicaId(3));
    bench.scrape(4, Scrape::Loading);
    (0..3).for_each(|id| bench.book(id, Verdict::Refused));
    let mut seen = BTreeSet::new();
    for _ in 0..64 {
        let (id, reason, spilled) = bench.turn(&session(1));
        assert_eq!((reason, spilled), (Reason::LastResort, false));
        seen.insert(id);
    }
    assert_eq!(seen, BTreeSet::from([0, 1, 2]), "STARTING and DRAINING take nothing");
    assert_eq!(bench.pins(), (0, 0), "an EJECTED replica takes no pins");
    let tried = [ReplicaId(0), ReplicaId(2)];
    let picked = bench.pick(&PickRequest { tried: &tried, ..request() });
    assert_eq!(picked.replica, ReplicaId(1), "never one that was tried");
    bench.end(picked.lease, Verdict::Refused);
    let all = [ReplicaId(0), ReplicaId(1), ReplicaId(2)];
    let none = bench.pool.pick(bench.now, &PickRequest { tried: &all, ..request() });
    assert_eq!(none.err(), Some(NoReplica::AllTried));
}

#[test]
fn nobody_known_nobody_ready() {
    let mut bench = Bench::new(PoolSettings::default());
    assert_eq!(bench.pool.pick(bench.now, &request()).err(), Some(NoReplica::NoneKnown));
    let mut bench = Bench::live(2, PoolSettings::default());
    (0..2).for_each(|id| bench.pool.drain(bench.now, ReplicaId(id)));
    assert_eq!(bench.pool.pick(bench.now, &request()).err(), Some(NoReplica::NotReady));
}

#[test]
fn a_retry_of_a_429_goes_only_where_there_is_room() {
    let mut bench = Bench::live(4, PoolSettings::default());
    bench.pool.set_slots(ReplicaId(1), Some(2));
    bench.scrape(1, healthy(2, 0));
    bench.scrape(2, healthy(5, 1));
    make_probing(&mut bench, 3);
    let tried = [ReplicaId(0)];
    let retry = PickRequest { tried: &tried, ..request() };
    assert_eq!(bench.pool.pick_with_room(bench.now, &retry).err(), Some(NoReplica::AllTried));
    bench.scrape(2, healthy(5, 0));
    let picked = bench.pool.pick_with_room(bench.now, &retry).expect("room at 2");
    assert_eq!(picked.replica, ReplicaId(2));
    bench.end(picked.lease, Verdict::Success);
    (0..4).for_each(|id| bench.book(id, Verdict::Refused));
    assert_eq!(
        bench.pool.pick_with_room(bench.now, &retry).err(),
        Some(NoReplica::AllTried),
        "no last resort"
    );
}

#[test]
fn weight_and_form_of_waiting_change_the_choice() {
    let heavy = PickRequest { weight: Weight::from_prompt_tokens(100_000), ..request() };
    for (waiting_counts, rest) in [(WaitingCounts::Requests, 30), (WaitingCounts::Weight, 30)] {
        let mut bench = Bench::live(4, settings(|s| s.waiting_counts = waiting_counts));
        let first = bench.pick(&heavy);
        let small: Vec<Picked> = (0..rest).map(|_| bench.pick(&request())).collect();
        assert!(
            small.iter().all(|p| p.replica != first.replica),
            "{waiting_counts:?}: the heavy one counts for 100"
        );
    }
}

#[test]
fn with_several_gateways_the_engine_s_numbers_lead() {
    let mut bench = Bench::live(2, settings(|s| s.load_source = LoadSource::Engine));
    let own = bench.load(&[0, 0, 0]);
    bench.pass(seconds(3));
    bench.scrape(0, healthy(3, 0));
    bench.scrape(1, healthy(5, 0));
    own.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    let order: Vec<u32> = (0..4)
        .map(|_| {
            let picked = bench.pick(&request());
            picked.replica.0
        })
        .collect();
    assert_eq!(order, [0, 0, 1, 0], "3 and 5 at the last scrape, own requests added since");
}

#[test]
fn off_follows_no_key() {
    let mut bench = Bench::live(3, settings(|s| s.affinity.mode = AffinityMode::Off));
    let order: Vec<u32> = (0..3).map(|_| bench.turn(&session(1)).0).collect();
    let reasons = bench.turn(&prefix(1)).1;
    assert_eq!((order, reasons, bench.pins()), (vec![1, 2, 0], Reason::Load, (0, 0)));
}

#[test]
fn the_same_seed_and_calls_give_the_same_choices() {
    let run = || {
        let mut bench = Bench::live(6, PoolSettings::default());
        (0..6).for_each(|id| bench.book(id, Verdict::Refused));
        (0..32).map(|_| bench.turn(&request()).0).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}
