//! How waiting ends otherwise than with a place: the client leaves, the wait is over, nobody is left, it is full.

use crate::bench::{Bench, healthy, request, seconds, spec};
use crate::queue_bench::{Told, bounded, by};
use sluicegate_core::*;
use std::time::Duration;

#[test]
fn one_who_leaves_is_out_at_once_and_only_once() {
    let mut bench = Bench::slotted(&[1]);
    let open = bench.placed(by(9)).lease;
    let waiting: Vec<Ticket> = (0..4).map(|_| bench.queued(by(1))).collect();
    assert!(bench.pool.leave(waiting[0]) && bench.pool.leave(waiting[3]));
    assert_eq!((bench.waiting(), bench.pool.leave(waiting[0])), (2, false));
    assert_eq!(bench.serve_all(open), [waiting[1], waiting[2]]);
    assert!(!bench.pool.leave(waiting[1]), "served");
    let seen = bench.pool.queue(bench.now);
    assert_eq!((seen.left, seen.grants, seen.waiting.len()), (2, 2, 0));
}

#[test]
fn a_place_given_to_one_who_has_left_goes_to_the_next() {
    let mut bench = Bench::slotted(&[1]);
    let open = bench.placed(by(1)).lease;
    let waiting: Vec<Ticket> = (0..2).map(|_| bench.queued(by(1))).collect();
    bench.end(open, Verdict::Success);
    assert!(!bench.pool.leave(waiting[0]), "it has its place already");
    for (ticket, mut picked) in bench.grants() {
        assert_eq!(ticket, waiting[0]);
        bench.pool.served(&mut picked.lease, 0);
        bench.end(picked.lease, Verdict::Neutral);
    }
    assert_eq!(bench.tickets(), waiting[1..]);
}

#[test]
fn a_route_is_full_at_its_length_all_classes_together_and_others_are_not() {
    let mut bench = Bench::slotted(&[1]);
    let _open = bench.fill();
    let route = |route, priority| Waiting { route: RouteIndex(route), priority, ..bounded(3, seconds(30)) };
    let waiting: Vec<Ticket> = [0, i32::MAX, i32::MIN].map(|class| bench.queued(route(1, class))).to_vec();
    for _ in 0..3 {
        assert!(matches!(bench.admit(route(1, i32::MIN)), Admission::Full { .. }));
    }
    bench.queued(route(0, 0));
    bench.queued(route(2, 0));
    bench.pool.leave(waiting[1]);
    bench.queued(route(1, 0));
    assert!(matches!(bench.admit(route(1, i32::MIN)), Admission::Full { .. }));
    assert!(
        matches!(bench.admit(bounded(0, seconds(30))), Admission::Full { .. }),
        "no length: nobody waits"
    );
    assert_eq!((bench.waiting(), bench.pool.queue(bench.now).refused), (5, 6));
}

#[test]
fn a_wait_ends_at_its_route_s_limit_and_the_next_deadline_says_when() {
    let mut bench = Bench::slotted(&[1]);
    let _open = bench.fill();
    bench.pass_with(seconds(5), |_, _| Some(healthy(1, 0)));
    let start = bench.now;
    let tickets = [7, 2, 4].map(|s| bench.queued(bounded(9, seconds(s))));
    let mut ends = Vec::new();
    for _ in 0..100 {
        bench.pass_with(Duration::from_millis(100), |_, _| Some(healthy(1, 0)));
        for told in bench.told() {
            let Told::Denied(ticket, Denial::QueueTimeout { retry_after }) = told else { panic!("{told:?}") };
            assert!(retry_after >= seconds(1));
            ends.push((ticket, bench.now.since(start).as_millis()));
        }
    }
    assert_eq!(ends, [(tickets[1], 2000), (tickets[2], 4000), (tickets[0], 7000)]);
    assert_eq!((bench.waiting(), bench.pool.queue(bench.now).timeouts), (0, 3));
}

#[test]
fn a_request_waits_only_while_a_replica_could_ever_take_it() {
    // health of the two replicas -> what becomes of the request
    type Row = (&'static str, fn(&mut Bench), Option<NoReplica>);
    let rows: [Row; 5] = [
        ("one left", |bench| bench.pool.drain(bench.now, ReplicaId(0)), None),
        ("STARTING again", |bench| (0..2).for_each(|id| bench.scrape(id, Scrape::Loading)), None),
        (
            "all EJECTED, with their slots taken",
            |bench| (0..2).for_each(|id| bench.book(id, Verdict::Refused)),
            None,
        ),
        (
            "all drained",
            |bench| (0..2).for_each(|id| bench.pool.drain(bench.now, ReplicaId(id))),
            Some(NoReplica::NotReady),
        ),
        (
            "another model",
            |bench| (0..2).for_each(|id| bench.pool.set_serves(ReplicaId(id), Serves::Only(vec![]))),
            Some(NoReplica::NoneKnown),
        ),
    ];
    for (event, apply, why) in rows {
        let asked = PickRequest { model: Some(ModelId(1)), ..request() };
        let mut bench = Bench::slotted(&[1, 1]);
        let _open = bench.fill();
        let ticket = bench.queued_for(&asked, by(1));
        apply(&mut bench);
        match (bench.told().as_slice(), why) {
            ([], None) => assert!(bench.pool.leave(ticket), "{event}: it waits"),
            ([Told::Denied(whose, Denial::NoReplica(told))], Some(why)) => {
                assert_eq!((*whose, *told), (ticket, why), "{event}");
            }
            other => panic!("{event}: {other:?}"),
        }
        let late = bench.pool.admit(bench.now, &asked, by(1));
        match (late, why) {
            (Admission::Queued(_), None) => {}
            (Admission::No(told), Some(why)) => assert_eq!(told, why, "{event}, a newcomer"),
            other => panic!("{event}, a newcomer: {other:?}"),
        }
    }
}

#[test]
fn a_retry_that_has_tried_all_does_not_wait() {
    let mut bench = Bench::slotted(&[1, 1]);
    let _open = bench.fill();
    let tried = [ReplicaId(1), ReplicaId(0)];
    let asked = PickRequest { tried: &tried, ..request() };
    assert!(matches!(bench.pool.admit(bench.now, &asked, by(1)), Admission::No(NoReplica::AllTried)));
    let ticket = bench.queued_for(&PickRequest { tried: &tried[..1], ..request() }, by(1));
    bench.pool.drain(bench.now, ReplicaId(0));
    assert!(matches!(
        bench.told().as_slice(),
        [Told::Denied(whose, Denial::NoReplica(NoReplica::AllTried))] if *whose == ticket
    ));
}

#[test]
fn while_all_are_starting_requests_wait_if_slots_are_known() {
    let mut bench = Bench::new(PoolSettings::default());
    let spec = ReplicaSpec { slots: Some(2), ..spec("r0", Origin::Startup) };
    let id = bench.pool.add(bench.now, spec);
    let waiting: Vec<Ticket> = (0..3).map(|_| bench.queued(by(1))).collect();
    bench.pool.scraped(bench.now, id, Scrape::Loading, None);
    assert_eq!(bench.tickets(), []);
    bench.pool.scraped(bench.now, id, healthy(0, 0), None);
    assert_eq!(bench.tickets(), waiting[..2]);
}

#[test]
fn the_hint_is_the_queue_s_length_at_the_pace_of_the_last_minute() {
    // places in the last minute, waiting, longest wait -> hint in seconds
    let rows =
        [(0, 4, 60, 60), (60, 4, 60, 4), (6, 2, 60, 20), (6, 9, 60, 60), (600, 3, 60, 1), (0, 3, 0, 1)];
    for (places, waiting, max_wait, hint) in rows {
        let mut bench = Bench::slotted(&[1]);
        let _open = bench.fill();
        bench.now = bench.now + seconds(100);
        let asked = bounded(waiting, seconds(max_wait));
        bench.pool.set_slots(ReplicaId(0), Some(2));
        for _ in 0..places {
            let lease = bench.placed(by(2)).lease;
            bench.end(lease, Verdict::Success);
        }
        bench.pool.set_slots(ReplicaId(0), Some(1));
        (0..waiting).for_each(|_| {
            bench.queued(asked);
        });
        let Admission::Full { retry_after } = bench.admit(asked) else { panic!("not full") };
        assert_eq!(retry_after, seconds(hint), "{places} places, {waiting} waiting");
    }
}

#[test]
fn the_snapshot_counts_by_route_and_class_and_names_the_keys() {
    let mut bench = Bench::slotted(&[1]);
    let open = bench.fill();
    for (route, priority, key, cost_tokens) in
        [(1, 0, 5, 700), (0, 0, 5, 700), (1, 0, 6, 10), (1, 3, 5, 1), (1, 0, 5, 700)]
    {
        bench.queued(Waiting { route: RouteIndex(route), priority, cost_tokens, ..by(key) });
        bench.now = bench.now + seconds(1);
    }
    let rows = |bench: &Bench| -> Vec<(u32, i32, usize, u64)> {
        let depths = bench.pool.queue(bench.now).waiting;
        depths.iter().map(|d| (d.route.0, d.priority, d.waiting, d.oldest.as_secs())).collect()
    };
    assert_eq!(rows(&bench), [(0, 0, 1, 4), (1, 3, 1, 2), (1, 0, 3, 5)]);
    open.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert_eq!(rows(&bench), [(0, 0, 1, 4), (1, 0, 3, 5)], "the higher class had the place");
    let (_, picked) = bench.grants().remove(0);
    bench.end(picked.lease, Verdict::Success);
    let seen = bench.pool.queue(bench.now);
    assert_eq!((seen.oldest, seen.grants), (seconds(4), 2));
    let keys: Vec<_> = seen.keys.iter().map(|k| (k.key.0, k.priority, k.waiting, k.served_tokens)).collect();
    assert_eq!(keys, [(5, 0, 2, 700), (6, 0, 1, 0)]);
}
