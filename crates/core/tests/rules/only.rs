//! A request that only one replica can serve goes there, or nowhere.

use crate::bench::{Bench, healthy, request, session, told as telling};
use crate::queue_bench::by;
use sluicegate_core::*;

const HOME: ReplicaId = ReplicaId(1);

fn bound() -> PickRequest<'static> {
    PickRequest { only: Some(HOME), ..request() }
}

#[test]
fn it_goes_there_whatever_the_load_the_mode_and_the_pins() {
    for mode in [AffinityMode::Pins, AffinityMode::Consistent, AffinityMode::Off] {
        let mut settings = PoolSettings::default();
        settings.affinity.mode = mode;
        let mut bench = Bench::live(3, settings);
        bench.scrape(1, healthy(50, 9));
        let pinned = bench.turn(&session(1)).0;
        assert_ne!(pinned, HOME.0, "the other ones are idle");
        for asked in [bound(), PickRequest { only: Some(HOME), ..session(1) }] {
            let told = bench.pool.explain(bench.now, &asked, None);
            assert_eq!(telling(&told), Ok((HOME, Reason::Pinned, false)));
            let excluded: Vec<bool> = told.candidates.iter().map(|c| c.excluded.is_some()).collect();
            assert_eq!(excluded, [true, false, true]);
            assert_eq!(bench.turn(&asked), (HOME.0, Reason::Pinned, false), "{mode:?}");
        }
        if mode != AffinityMode::Off {
            assert_eq!(bench.turn(&session(1)).0, pinned, "it has moved no pin");
        }
    }
}

#[test]
fn it_goes_nowhere_else() {
    let mut bench = Bench::live(3, PoolSettings::default());
    let tried = PickRequest { tried: &[HOME], ..bound() };
    assert_eq!(bench.pool.pick(bench.now, &tried).err(), Some(NoReplica::AllTried), "no retry elsewhere");
    let busy = bound();
    bench.scrape(1, healthy(50, 9));
    assert_eq!(bench.pool.pick_with_room(bench.now, &busy).err(), Some(NoReplica::AllTried), "nor for room");
    bench.book(1, Verdict::Refused);
    let last = bench.turn(&bound());
    assert_eq!(last, (HOME.0, Reason::LastResort, false), "EJECTED, and still the only one that can");
    bench.pool.drain(bench.now, HOME);
    assert_eq!(bench.pool.pick(bench.now, &bound()).err(), Some(NoReplica::NotReady));
    let unknown = PickRequest { only: Some(ReplicaId(9)), ..request() };
    assert_eq!(bench.pool.pick(bench.now, &unknown).err(), Some(NoReplica::NoneKnown));
}

#[test]
fn it_waits_for_a_slot_there_while_others_are_free() {
    let mut bench = Bench::slotted(&[1, 1]);
    let home = bench.placed_for(&bound(), by(1));
    assert_eq!((home.replica, home.reason), (HOME, Reason::Pinned));
    let waits = bench.queued_for(&bound(), by(1));
    let other = bench.placed(by(1));
    assert_eq!(other.replica, ReplicaId(0), "who is not bound does not wait behind it");
    let anywhere = bench.queued_for(&request(), by(2));
    bench.end(other.lease, Verdict::Success);
    assert_eq!(bench.tickets(), [anywhere], "a slot elsewhere is of no use to it");
    bench.end(home.lease, Verdict::Success);
    let granted = bench.grants();
    assert_eq!((granted[0].0, granted[0].1.replica, granted[0].1.reason), (waits, HOME, Reason::Pinned));
    bench.queued_for(&bound(), by(1));
    bench.pool.drain(bench.now, HOME);
    assert_eq!(bench.waiting(), 0, "nobody else can take it: it is told so");
}

#[test]
fn the_only_replica_is_the_one_that_serves_the_model() {
    let mut bench = Bench::new(PoolSettings::default());
    assert_eq!(bench.pool.only_replica(None), None);
    bench = Bench::live(3, PoolSettings::default());
    let (a, b, c) = (ModelId(1), ModelId(2), ModelId(3));
    for (id, models) in (0..).zip([vec![a], vec![a, b], vec![]]) {
        bench.pool.set_serves(ReplicaId(id), Serves::Only(models));
    }
    bench.pool.drain(bench.now, HOME);
    for (model, only) in [(Some(a), None), (Some(b), Some(HOME)), (Some(c), None), (None, None)] {
        assert_eq!(bench.pool.only_replica(model), only, "{model:?}");
    }
}
