//! What is told of a request that would have to wait for a slot.

use crate::bench::{Bench, request, told as telling};
use crate::queue_bench::{bounded, by};
use sluicegate_core::*;
use std::time::Duration;

fn told(bench: &mut Bench, waiting: Waiting) -> Explanation {
    bench.pool.explain(bench.now, &request(), Some(waiting))
}

#[test]
fn it_is_what_the_admission_does_and_changes_nothing() {
    let mut bench = Bench::slotted(&[1, 1]);
    for _ in 0..2 {
        let foretold = telling(&told(&mut bench, by(1)));
        let picked = bench.placed(by(1));
        assert_eq!(foretold, Ok((picked.replica, picked.reason, picked.spilled)));
    }
    let two = bounded(2, Duration::from_secs(60));
    for ahead in 0..2 {
        let foretold = told(&mut bench, two);
        assert_eq!(foretold.outcome, Err(NoPlace::Waits { ahead }));
        let why: Vec<_> = foretold.candidates.iter().map(|candidate| candidate.excluded).collect();
        assert_eq!(why, [Some("no free slot"); 2]);
        let last = foretold.steps.last().expect("the queue's step");
        assert_eq!(*last, format!("queue: waits for a slot, {ahead} before it"));
        bench.queued(two);
    }
    let Err(NoPlace::Full { retry_after }) = told(&mut bench, two).outcome else {
        panic!("the queue is full")
    };
    assert_eq!(bench.pool.queue(bench.now).refused, 0, "asking is no refusal");
    assert!(matches!(bench.admit(two), Admission::Full { retry_after: after } if after == retry_after));
    assert!(bench.pool.explain(bench.now, &request(), None).outcome.is_ok(), "a pick knows no slots");

    let mut nobody = Bench::new(PoolSettings::default());
    assert_eq!(told(&mut nobody, by(1)).outcome, Err(NoPlace::NoReplica(NoReplica::NoneKnown)));
    let mut drained = Bench::slotted(&[0]);
    drained.pool.drain(drained.now, ReplicaId(0));
    assert_eq!(told(&mut drained, by(1)).outcome, Err(NoPlace::NoReplica(NoReplica::NotReady)));
}

#[test]
fn as_many_as_are_told_are_served_before_it() {
    // Who waits: key, class, tokens, retry.
    type Waits = &'static [(u32, i32, u64, bool)];
    let queues: [Waits; 5] = [
        &[],
        &[(1, 0, 100, false), (1, 0, 100, false), (1, 0, 100, false), (2, 0, 100, false)],
        &[(1, 0, 500, false), (2, 0, 100, false), (2, 0, 100, false), (1, 0, 1, false), (2, 0, 900, false)],
        &[(1, 0, 100, true), (2, 5, 100, false), (3, -5, 100, false), (2, 0, 100, true), (4, 0, 100, false)],
        &[(1, 0, 0, false), (1, 0, 0, false), (2, 0, 100_000, false), (2, 0, 1, false), (3, 0, 7, false)],
    ];
    let tried = [ReplicaId(1)];
    for waits in queues {
        for (key, priority, retry) in
            (0..5).flat_map(|key| [(key, 0, false), (key, 5, false), (key, -9, false), (key, 0, true)])
        {
            let mut bench = Bench::slotted(&[1]);
            // What was served before counts: key 2 is ahead of the others.
            for served in [2, 4] {
                let lease = bench.placed(Waiting { cost_tokens: 60 * u64::from(served), ..by(served) }).lease;
                bench.end(lease, Verdict::Success);
            }
            let open = bench.placed(by(9)).lease;
            let asked = |retry| PickRequest { tried: if retry { &tried } else { &[] }, ..request() };
            for (key, priority, cost_tokens, retry) in waits {
                bench.queued_for(
                    &asked(*retry),
                    Waiting { priority: *priority, cost_tokens: *cost_tokens, ..by(*key) },
                );
            }
            let newcomer = Waiting { priority, ..by(key) };
            let foretold = bench.pool.explain(bench.now, &asked(retry), Some(newcomer)).outcome;
            let ticket = bench.queued_for(&asked(retry), newcomer);
            let order = bench.serve_all(open);
            let ahead = order.iter().position(|served| *served == ticket).expect("served in the end");
            assert_eq!(foretold, Err(NoPlace::Waits { ahead }), "{key} {priority} {retry} behind {waits:?}");
        }
    }
}

#[test]
fn those_who_wait_for_other_replicas_are_not_before_it() {
    let mut bench = Bench::slotted(&[1, 1]);
    (0..2).for_each(|id| bench.pool.set_serves(ReplicaId(id), Serves::Only(vec![ModelId(id)])));
    let asked = |model| PickRequest { model: Some(ModelId(model)), ..request() };
    for model in [0, 1, 1, 1] {
        match bench.pool.admit(bench.now, &asked(model), Waiting { priority: 5, ..by(1) }) {
            Admission::Picked(_) | Admission::Queued(_) => {}
            other => panic!("{other:?}"),
        }
    }
    for (asked, ahead) in [(asked(0), 0), (asked(1), 2), (request(), 2)] {
        let foretold = bench.pool.explain(bench.now, &asked, Some(by(7))).outcome;
        assert_eq!(foretold, Err(NoPlace::Waits { ahead }), "{asked:?}");
    }
}
