//! Who gives way where a route's queue is full.

use crate::bench::{Bench, request, seconds};
use crate::queue_bench::{Told, by};
use sluicegate_core::*;

/// Who waits or comes: key, class, and whether it is a retry.
type Row = (u32, i32, bool);

const fn new(key: u32, class: i32) -> Row {
    (key, class, false)
}

const fn retry(key: u32, class: i32) -> Row {
    (key, class, true)
}

/// One replica, drained, that nobody can have; one whose only place is taken.
fn full(waiting: &[Row]) -> (Bench, Vec<Lease>, Vec<Ticket>) {
    let mut bench = Bench::slotted(&[1, 1]);
    bench.pool.drain(bench.now, ReplicaId(1));
    let open = bench.fill();
    let tickets = waiting.iter().map(|row| match ask(&mut bench, *row, waiting.len()) {
        Admission::Queued(ticket) => ticket,
        other => panic!("does not wait: {other:?}"),
    });
    let tickets = tickets.collect();
    (bench, open, tickets)
}

fn ask(bench: &mut Bench, (key, priority, retry): Row, max_length: usize) -> Admission {
    let tried: &[ReplicaId] = if retry { &[ReplicaId(1)] } else { &[] };
    let limits = QueueLimits { max_length, max_wait: seconds(60) };
    bench.pool.admit(bench.now, &PickRequest { tried, ..request() }, Waiting { priority, limits, ..by(key) })
}

#[test]
fn a_full_queue_makes_room_for_a_higher_class_and_among_equals_for_who_has_less() {
    const FLOOD: [Row; 4] = [new(1, 0), new(1, 0), new(1, 0), new(1, 0)];
    // Who waits, who comes, which of those who wait gives way.
    let rows: [(&str, &[Row], Row, Option<usize>); 17] = [
        ("the newest of a lower class", &[new(1, 0), new(2, 0)], new(3, 1), Some(1)),
        ("of the lowest one", &[new(2, -1), new(3, -1), new(1, 0)], new(4, 1), Some(1)),
        ("also for a class between", &[new(2, -1), new(1, 1)], new(4, 0), Some(0)),
        ("of the key with most there", &[new(1, 0), new(1, 0), new(2, 0)], new(3, 1), Some(1)),
        ("even if that is its own", &[new(1, 0), new(1, 0)], new(1, 1), Some(1)),
        ("never a higher class", &[new(1, 1), new(1, 1), new(1, 1), new(1, 1)], new(2, 0), None),
        ("nor an equal one that has no more", &[new(1, 0), new(2, 0)], new(3, 0), None),
        ("a flood gives way to its equals", &FLOOD, new(2, 0), Some(3)),
        ("with two more than the newcomer's key would have", &FLOOD[..3], new(2, 0), Some(2)),
        ("and not with less", &FLOOD[..2], new(2, 0), None),
        ("nor to itself", &FLOOD, new(1, 0), None),
        ("what the newcomer's key has counts", &[FLOOD[0], FLOOD[0], FLOOD[0], new(2, 0)], new(2, 0), None),
        ("four to two", &[FLOOD[0], FLOOD[0], FLOOD[0], FLOOD[0], new(2, 0)], new(2, 0), Some(3)),
        ("no retry gives way", &[retry(1, 0), retry(1, 0), retry(1, 0)], new(2, 1), None),
        ("but those beside it", &[new(1, 0), retry(1, 0)], new(2, 1), Some(0)),
        ("or above it", &[retry(1, -1), new(2, 0)], new(3, 1), Some(1)),
        ("a retry comes like any other", &FLOOD, retry(2, 0), Some(3)),
    ];
    for (rule, waiting, newcomer, gives_way) in rows {
        let (mut bench, _open, tickets) = full(waiting);
        let before = bench.pool.queue(bench.now).refused;
        let admission = ask(&mut bench, newcomer, waiting.len());
        let told: Vec<Ticket> = bench
            .told()
            .into_iter()
            .map(|told| match told {
                Told::Denied(ticket, Denial::QueueFull { retry_after }) if retry_after >= seconds(1) => {
                    ticket
                }
                other => panic!("{rule}: {other:?}"),
            })
            .collect();
        let expected: Vec<Ticket> = gives_way.iter().map(|index| tickets[*index]).collect();
        assert_eq!(told, expected, "{rule}");
        assert_eq!(matches!(admission, Admission::Queued(_)), gives_way.is_some(), "{rule}: {admission:?}");
        let seen = bench.pool.queue(bench.now);
        assert_eq!(
            (bench.waiting(), seen.refused - before),
            (waiting.len(), 1),
            "{rule}: one is turned away"
        );
        assert!(told.iter().all(|ticket| !bench.pool.leave(*ticket)), "{rule}: it waits no more");
    }
}

#[test]
fn a_key_that_floods_leaves_room_for_every_other_key() {
    let (mut bench, _open, _) = full(&[new(0, 0); 100]);
    for round in 0..2 {
        for key in 1..20 {
            let admission = ask(&mut bench, new(key, 0), 100);
            assert!(matches!(admission, Admission::Queued(_)), "{key}, round {round}");
            assert!(
                matches!(ask(&mut bench, new(0, 0), 100), Admission::Full { .. }),
                "and takes it back never"
            );
        }
    }
    let waiting = bench.pool.queue(bench.now).keys;
    assert_eq!(waiting.iter().map(|key| key.waiting).collect::<Vec<_>>()[..2], [62, 2]);
}

#[test]
fn room_is_made_in_the_route_that_is_full_and_where_anybody_may_wait() {
    let (mut bench, _open, tickets) = full(&[new(1, 0), new(1, 0)]);
    let other =
        Waiting { route: RouteIndex(7), limits: QueueLimits { max_length: 1, ..by(1).limits }, ..by(1) };
    let first = bench.queued(other);
    assert!(matches!(ask(&mut bench, new(2, 9), 0), Admission::Full { .. }), "with no length nobody waits");
    let _ = bench.queued(Waiting { priority: 1, ..other });
    assert!(
        matches!(bench.told().as_slice(), [Told::Denied(whose, Denial::QueueFull { .. })] if *whose == first),
        "not one of the other route, which has more"
    );
    assert!(tickets.iter().all(|ticket| bench.pool.leave(*ticket)));
}
