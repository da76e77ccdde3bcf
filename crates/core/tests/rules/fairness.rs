//! Fairness between keys in the queue.

use crate::bench::{Bench, request, seconds};
use crate::queue_bench::by;
use sluicegate_core::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What a key sends: how many tokens a request costs, how much of them it says beforehand, in percent.
struct Sender {
    key: u32,
    tokens: u64,
    said: u64,
}

/// One slot, every key always waiting with three requests: the tokens each is served in `places` places.
fn contend(senders: &[Sender], places: usize) -> Vec<u64> {
    let mut bench = Bench::slotted(&[1]);
    let mut lease = Some(bench.placed(by(99)).lease);
    let mut waiting = BTreeMap::new();
    let queue = |bench: &mut Bench, waiting: &mut BTreeMap<Ticket, usize>, index: usize| {
        let sender = &senders[index];
        let cost_tokens = sender.tokens * sender.said / 100;
        waiting.insert(bench.queued(Waiting { cost_tokens, ..by(sender.key) }), index);
    };
    for _ in 0..3 {
        (0..senders.len()).for_each(|index| queue(&mut bench, &mut waiting, index));
    }
    let mut served = vec![0; senders.len()];
    for _ in 0..places {
        bench.end(lease.take().expect("one place"), Verdict::Success);
        let (ticket, mut picked) = bench.grants().remove(0);
        let index = waiting.remove(&ticket).expect("it waited");
        queue(&mut bench, &mut waiting, index);
        bench.pool.served(&mut picked.lease, senders[index].tokens);
        served[index] += senders[index].tokens;
        lease = Some(picked.lease);
    }
    served
}

#[test]
fn keys_that_always_wait_are_served_the_same_number_of_tokens() {
    let rows: [&[Sender]; 4] = [
        &[Sender { key: 1, tokens: 100, said: 100 }, Sender { key: 2, tokens: 100, said: 100 }],
        &[Sender { key: 1, tokens: 3000, said: 100 }, Sender { key: 2, tokens: 100, said: 100 }],
        &[Sender { key: 1, tokens: 500, said: 10 }, Sender { key: 2, tokens: 500, said: 300 }],
        &[
            Sender { key: 1, tokens: 10, said: 0 },
            Sender { key: 2, tokens: 700, said: 900 },
            Sender { key: 3, tokens: 4000, said: 100 },
        ],
    ];
    for senders in rows {
        let served = contend(senders, 2000);
        let (least, most) = (served.iter().min().expect("some"), served.iter().max().expect("some"));
        let one = senders.iter().map(|s| s.tokens * s.said.max(100) / 100).max().expect("some");
        assert!(most - least <= 2 * one, "{served:?}: apart by more than two requests of {one}");
    }
}

#[test]
fn nobody_saves_up_service_by_not_asking_for_it() {
    let mut bench = Bench::slotted(&[1]);
    for _ in 0..100 {
        let lease = bench.placed(by(1)).lease;
        bench.end(lease, Verdict::Success);
    }
    let open = bench.placed(by(1)).lease;
    let mut tickets: Vec<Ticket> = Vec::new();
    for key in [1, 1, 1, 1, 2, 2, 2, 2] {
        tickets.push(bench.queued(by(key)));
    }
    let order = bench.serve_all(open);
    let keys: Vec<usize> =
        order.iter().map(|t| 1 + tickets.iter().position(|o| o == t).expect("one of them") / 4).collect();
    assert_eq!(keys, [2, 1, 2, 1, 2, 1, 2, 1], "they take turns; a hundred requests ago is no debt");
}

#[test]
fn a_failed_attempt_and_a_place_never_used_cost_the_key_nothing() {
    let costs = |end: fn(&mut Bench, Picked)| {
        let mut bench = Bench::slotted(&[1]);
        let open = bench.placed(by(9)).lease;
        bench.queued(Waiting { cost_tokens: 5000, ..by(1) });
        bench.end(open, Verdict::Success);
        let picked = bench.grants().remove(0).1;
        let (first, second) = (bench.queued(by(1)), bench.queued(by(2)));
        end(&mut bench, picked);
        let (next, picked) = bench.grants().remove(0);
        bench.end(picked.lease, Verdict::Success);
        assert!(next == first || next == second);
        next == second
    };
    let refused = |bench: &mut Bench, picked: Picked| bench.end(picked.lease, Verdict::Busy);
    let left = |bench: &mut Bench, mut picked: Picked| {
        bench.pool.served(&mut picked.lease, 0);
        bench.end(picked.lease, Verdict::Neutral);
    };
    let served = |bench: &mut Bench, picked: Picked| bench.end(picked.lease, Verdict::Success);
    assert!(!costs(refused) && !costs(left), "its next request is the older one and goes first");
    assert!(costs(served), "the other key's turn");
}

/// Four slots; `flood` keeps a hundred requests of key 1 waiting, key 2 sends one a second. How long key 2 waits for
/// its answers, and how many requests of key 1 are given a place between its asking and its being given one.
fn once_a_second(flood: bool) -> (Vec<Duration>, usize) {
    let mut bench = Bench::slotted(&[2, 2]);
    let mut random = 1_u64;
    let mut service = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Duration::from_millis(500 + (random >> 33) % 1000)
    };
    let mut running: VecDeque<(Time, Option<Time>, Lease)> = VecDeque::new();
    let mut asked: BTreeMap<Ticket, Time> = BTreeMap::new();
    let (mut waits, mut flooding, mut passed, mut most_passed) = (Vec::new(), 0, 0, 0);
    let long = QueueLimits { max_length: 1000, max_wait: seconds(600) };
    for step in 0..100_000_u64 {
        bench.now = bench.now + Duration::from_millis(10);
        let now = bench.now;
        let mut start = |bench: &Bench, since: Option<Time>, lease: Lease| {
            running.push_back((bench.now + service(), since, lease));
        };
        if step % 100 == 37 {
            match bench.pool.admit(now, &request(), Waiting { limits: long, ..by(2) }) {
                Admission::Picked(picked) => start(&bench, Some(now), picked.lease),
                Admission::Queued(ticket) => {
                    asked.insert(ticket, now);
                    passed = 0;
                }
                other => panic!("{other:?}"),
            }
        }
        while flood && flooding < 100 {
            match bench.pool.admit(now, &request(), Waiting { limits: long, ..by(1) }) {
                Admission::Picked(picked) => start(&bench, None, picked.lease),
                Admission::Queued(_) => flooding += 1,
                other => panic!("{other:?}"),
            }
        }
        for index in (0..running.len()).rev().filter(|index| running[*index].0 <= now).collect::<Vec<_>>() {
            let (_, since, lease) = running.remove(index).expect("it runs");
            waits.extend(since.map(|since| now.since(since)));
            bench.end(lease, Verdict::Success);
        }
        for (ticket, picked) in bench.grants() {
            let since = asked.remove(&ticket);
            if since.is_none() {
                flooding -= 1;
                passed += usize::from(!asked.is_empty());
                most_passed = passed.max(most_passed);
            }
            running.push_back((now + Duration::from_millis(500 + (step * 7919) % 1000), since, picked.lease));
        }
    }
    waits.sort_unstable();
    (waits, most_passed)
}

#[test]
fn g16_a_flooding_key_does_not_double_the_wait_of_one_that_asks_once_a_second() {
    let p99 = |waits: &[Duration]| waits[waits.len() * 99 / 100];
    let (alone, _) = once_a_second(false);
    let (flooded, passed) = once_a_second(true);
    assert!(alone.len() > 900 && flooded.len() > 900, "{} and {} answers", alone.len(), flooded.len());
    assert!(p99(&flooded) < 2 * p99(&alone), "p99 {:?} flooded, {:?} alone", p99(&flooded), p99(&alone));
    assert_eq!(passed, 0, "the next place that comes free is its own");
}
