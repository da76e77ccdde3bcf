//! Snapshots and explanations.

use crate::bench::{Bench, healthy, request, seconds, session, spec, told as telling};
use sluicegate_core::*;

#[test]
fn the_imbalance_index_is_the_spread_over_live_replicas() {
    let mut bench = Bench::live(3, PoolSettings::default());
    assert_eq!(bench.pool.snapshot(bench.now).imbalance_index, 0.0);
    [(0, 7), (1, 2), (2, 30)].into_iter().for_each(|(id, running)| bench.scrape(id, healthy(running, 0)));
    bench.book(2, Verdict::Refused);
    assert_eq!(bench.pool.snapshot(bench.now).imbalance_index, 5.0, "an EJECTED one does not count");
    (0..2).for_each(|id| bench.book(id, Verdict::Refused));
    assert_eq!(bench.pool.snapshot(bench.now).imbalance_index, 0.0);
}

#[test]
fn the_traffic_share_is_of_the_last_minute() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let shares = |bench: &Bench| [0, 1].map(|id| bench.snapshot(id).traffic_share);
    assert_eq!(shares(&bench), [0.0, 0.0]);
    let leases = bench.load(&[0, 0, 0, 1]);
    leases.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert_eq!(shares(&bench), [0.75, 0.25]);
    bench.now = bench.now + seconds(30);
    bench.load(&[1, 1, 1, 1]).into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert_eq!(shares(&bench), [0.375, 0.625]);
    bench.now = bench.now + seconds(30);
    assert_eq!(shares(&bench), [0.0, 1.0]);
    assert_eq!([0, 1].map(|id| bench.snapshot(id).picks), [3, 5], "ever");
}

#[test]
fn a_snapshot_tells_how_long_ago_the_health_last_changed() {
    let mut bench = Bench::new(PoolSettings::default());
    let id = bench.pool.add(bench.now, spec("r0", Origin::Startup));
    let age = |bench: &Bench| bench.snapshot(0).last_transition_age;
    assert_eq!(age(&bench), None, "it has never changed");
    bench.pool.scraped(bench.now, id, healthy(0, 0), None);
    assert_eq!(age(&bench), Some(seconds(0)));
    bench.now = bench.now + seconds(7);
    assert_eq!(age(&bench), Some(seconds(7)));
    bench.book(0, Verdict::Refused);
    bench.now = bench.now + seconds(2);
    assert_eq!((bench.health(0), age(&bench)), (Health::Ejected, Some(seconds(2))));
    let told = bench.pool.snapshot(Time::ZERO).replicas[0].last_transition_age;
    assert_eq!(told, Some(seconds(0)), "a clock that stepped back makes nothing older");
}

#[test]
fn an_explanation_is_what_the_next_pick_does_and_changes_nothing() {
    let mut bench = Bench::live(3, PoolSettings::default());
    bench.turn(&session(1));
    bench.scrape(2, healthy(4, 1));
    for asked in [request(), session(1), session(2)] {
        let told: Vec<_> = (0..3).map(|_| telling(&bench.pool.explain(bench.now, &asked, None))).collect();
        assert!(told.iter().all(|outcome| outcome.is_ok() && *outcome == told[0]), "asking changes nothing");
        let (id, reason, spilled) = bench.turn(&asked);
        assert_eq!(told[0], Ok((ReplicaId(id), reason, spilled)));
    }
    (0..3).for_each(|id| bench.book(id, Verdict::Refused));
    for _ in 0..8 {
        let told = bench.pool.explain(bench.now, &request(), None);
        let picked = bench.pick(&request());
        assert_eq!(
            telling(&told),
            Ok((picked.replica, picked.reason, picked.spilled)),
            "random, yet foretold"
        );
    }
}

#[test]
fn an_explanation_names_why_each_replica_was_left_out() {
    let mut bench = Bench::live(6, PoolSettings::default());
    bench.scrape(0, healthy(0, 2));
    bench.book(1, Verdict::Refused);
    bench.pool.drain(bench.now, ReplicaId(2));
    bench.scrape(3, Scrape::Loading);
    bench.pool.set_serves(ReplicaId(4), Serves::Only(Vec::new()));
    let asked = PickRequest { model: Some(ModelId(1)), ..request() };
    let told = bench.pool.explain(bench.now, &asked, None);
    let words: Vec<_> = told.candidates.iter().map(|c| c.excluded.unwrap_or("candidate")).collect();
    let waits = "a LIVE replica without a queue exists";
    assert_eq!(words, [waits, "EJECTED", "DRAINING", "STARTING", "does not serve the model", "candidate"]);
    assert_eq!(telling(&told), Ok((ReplicaId(5), Reason::Load, false)));
    assert_eq!(told.steps.len(), 4, "{:?}", told.steps);
    let nobody = Bench::new(PoolSettings::default()).pool.explain(bench.now, &request(), None);
    assert_eq!(telling(&nobody), Err(NoPlace::NoReplica(NoReplica::NoneKnown)));
}

#[test]
fn an_id_that_the_pool_did_not_give_out_is_ignored() {
    let mut bench = Bench::live(1, PoolSettings::default());
    let stray = ReplicaId(9);
    bench.pool.scraped(bench.now, stray, healthy(0, 0), None);
    assert_eq!(bench.pool.spell(stray), None);
    bench.pool.canary(bench.now, stray, true);
    bench.pool.drain(bench.now, stray);
    bench.pool.set_slots(stray, Some(1));
    assert_eq!((bench.take_effects().len(), bench.health(0)), (0, Health::Live));
}
