//! Late binding: who of those held back goes first.

use crate::bench::{Bench, healthy, seconds};
use crate::hold_bench::{HOLD, asks, at_once, bench, prefill};
use crate::lanes_bench::LanesBench;
use crate::queue_bench::{Told, by};
use sluicegate_core::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

const HUGE: u32 = 100_000;

#[test]
fn the_shortest_goes_first_inside_a_key_and_keys_and_classes_are_served_as_ever() {
    // Each who waits: key, class, retry, tokens; then the order in which they are served, one after the other.
    type Row = (&'static str, &'static [(u32, i32, bool, u32)], &'static [usize]);
    let rows: [Row; 6] = [
        (
            "the shortest first",
            &[(1, 0, false, 8000), (1, 0, false, 2000), (1, 0, false, 4000), (1, 0, false, 1100)],
            &[3, 1, 2, 0],
        ),
        ("equals in order of arrival", &[(1, 0, false, 2000), (1, 0, false, 2000)], &[0, 1]),
        (
            "keys take turns, however long",
            &[(1, 0, false, 9000), (1, 0, false, 2000), (1, 0, false, 3000), (2, 0, false, 20_000)],
            &[1, 3, 2, 0],
        ),
        ("the higher class first", &[(1, 0, false, 1100), (2, 5, false, 20_000)], &[1, 0]),
        ("a retry goes ahead of its class", &[(1, 0, false, 1100), (1, 0, true, 20_000)], &[1, 0]),
        ("retries in order of arrival", &[(1, 0, true, 20_000), (1, 0, true, 1100)], &[0, 1]),
    ];
    for (rule, waiting, order) in rows {
        let mut bench = bench(2);
        bench.pool.drain(bench.now, ReplicaId(1));
        let open = bench.burdened(&[HUGE]).remove(0);
        let tried = [ReplicaId(1)];
        let tickets: Vec<Ticket> = waiting
            .iter()
            .map(|(key, priority, retry, tokens)| {
                let tried: &[ReplicaId] = if *retry { &tried } else { &[] };
                let asked = PickRequest { tried, ..asks(*tokens) };
                bench.queued_for(&asked, Waiting { priority: *priority, ..by(*key) })
            })
            .collect();
        let expected: Vec<Ticket> = order.iter().map(|index| tickets[*index]).collect();
        assert_eq!(bench.serve_all(open), expected, "{rule}");
    }
}

#[test]
fn what_a_replica_knows_of_a_prompt_makes_it_shorter() {
    let mut bench = bench(1);
    let talk: Vec<u64> = (1..=30).collect();
    let known = |tokens| {
        let prompt = Prompt { tokens, blocks: &talk, block_tokens: 500, whole_answer: false };
        PickRequest { prompt, ..asks(tokens) }
    };
    let picked = bench.placed_for(&known(15_000), by(1));
    bench.end(picked.lease, Verdict::Neutral);
    let open = bench.burdened(&[HUGE]).remove(0);
    let cold = bench.queued_for(&asks(5000), by(1));
    let warm = bench.queued_for(&known(16_100), by(1));
    assert_eq!(bench.serve_all(open), [warm, cold], "1,100 tokens of it are new");
}

#[test]
fn nobody_is_overtaken_by_one_of_its_key_that_comes_ten_times_its_prefill_later() {
    for (later, first) in [(0.0, false), (8.0, false), (10.9, false), (11.1, true), (20.0, true)] {
        let mut bench = bench(1);
        let open = bench.burdened(&[HUGE]).remove(0);
        let long = bench.queued_for(&asks(10_000), by(1));
        bench.now = bench.now + Duration::from_secs_f64(later);
        let short = bench.queued_for(&asks(1000), by(1));
        assert!((prefill(10_000) - prefill(1000) - 1.098).abs() < 1e-9, "ten times this is the limit");
        let expected = if first { [long, short] } else { [short, long] };
        assert_eq!(bench.serve_all(open), expected, "{later} s later");
    }
}

#[test]
fn a_request_is_held_back_by_every_pool_and_takes_the_first_place() {
    let mut lanes = LanesBench::with(&[1, 1], &PoolSettings { predict: true, ..PoolSettings::default() });
    lanes.pools.iter_mut().for_each(|bench| bench.pool.set_slots(ReplicaId(0), None));
    let mut placed: Vec<Placed> = (0..2).map(|_| lanes.pick(at_once(HUGE))).collect();
    let Entry::Queued(waits) = lanes.admit(asks(10), by(1)) else { panic!("both have too much before them") };
    assert_eq!(waits.iter().map(|w| (w.lane, w.target.0)).collect::<Vec<_>>(), [(0, 0), (1, 1)]);
    let at = placed.iter().position(|placed| placed.lane == 1).expect("one of them");
    lanes.end(placed.remove(at));
    assert_eq!(lanes.pools[1].tickets(), [waits[1].ticket]);
    assert!(lanes.pools[0].pool.leave(waits[0].ticket), "it leaves the other queue");
}

/// Two replicas that prefill one after the other, as predicted; `flood` keeps 50 requests of key 1 waiting, key 2 sends a
/// longer one each two seconds. How long key 2 waits for its first bytes.
fn each_two_seconds(flood: bool) -> Vec<Duration> {
    let mut bench = bench(2);
    let mut engines: [VecDeque<(u32, Option<Time>, Lease)>; 2] = Default::default();
    let mut until = [Time::ZERO; 2];
    let mut asked: BTreeMap<Ticket, (u32, Option<Time>)> = BTreeMap::new();
    let mut waits = Vec::new();
    let prefill = |tokens: u32| Duration::from_secs_f64(prefill(tokens));
    for step in 0..40_000_u64 {
        bench.now = bench.now + Duration::from_millis(10);
        let now = bench.now;
        let mut ask = |bench: &mut Bench, key: u32, tokens: u32, since: Option<Time>| match bench.pool.admit(
            now,
            &asks(tokens),
            by(key),
        ) {
            Admission::Picked(picked) => {
                engines[picked.replica.0 as usize].push_back((tokens, since, picked.lease));
            }
            Admission::Queued(ticket) => {
                asked.insert(ticket, (tokens, since));
            }
            other => panic!("{other:?}"),
        };
        if step % 200 == 37 {
            ask(&mut bench, 2, 6000, Some(now));
        }
        while flood && bench.waiting() < 50 {
            ask(&mut bench, 1, 1500 + (step % 7 * 300) as u32, None);
        }
        for at in 0..2 {
            if until[at] > now {
                continue;
            }
            // The one at the front has been worked on until now.
            if until[at] > Time::ZERO
                && let Some((_, since, mut lease)) = engines[at].pop_front()
            {
                waits.extend(since.map(|since| now.since(since)));
                bench.pool.answered(now, &mut lease);
                bench.end(lease, Verdict::Success);
                until[at] = Time::ZERO;
            }
            if let Some((tokens, ..)) = engines[at].front() {
                until[at] = now + prefill(*tokens);
            }
        }
        if bench.pool.next_deadline().is_some_and(|due| due <= now) {
            bench.pool.tick(now);
        }
        for told in bench.told() {
            let Told::Granted(ticket, picked) = told else { panic!("{told:?}") };
            let (tokens, since) = asked.remove(&ticket).expect("it waited");
            engines[picked.replica.0 as usize].push_back((tokens, since, picked.lease));
        }
        (0..2).for_each(|id| bench.scrape(id, healthy(0, 0)));
    }
    waits.sort_unstable();
    waits
}

#[test]
fn g16_a_flooding_key_does_not_double_the_wait_of_one_that_asks_each_two_seconds() {
    let p99 = |waits: &[Duration]| waits[waits.len() * 99 / 100];
    let (alone, flooded) = (each_two_seconds(false), each_two_seconds(true));
    assert!(alone.len() > 190 && flooded.len() > 190, "{} and {} answers", alone.len(), flooded.len());
    assert!(p99(&flooded) < 2 * p99(&alone), "p99 {:?} flooded, {:?} alone", p99(&flooded), p99(&alone));
}

#[test]
fn random_ends_and_leavers_leave_nobody_held_back_and_nobody_turned_away() {
    for seed in 1..=60_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |n: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 11) % n
        };
        let mut bench = bench(3);
        let (mut leases, mut waiting) = (Vec::new(), Vec::new());
        for _ in 0..300 {
            match below(10) {
                0..=3 => {
                    let tokens = below(100) as u32 * below(100) as u32;
                    let hold = [None, Some(HOLD), Some(HOLD), Some(5 * HOLD)][below(4) as usize];
                    let limits = QueueLimits { max_length: below(6) as usize, max_wait: seconds(below(9)) };
                    let waits = Waiting { priority: below(2) as i32, limits, ..by(below(3) as u32) };
                    match bench.pool.admit(bench.now, &PickRequest { hold, ..at_once(tokens) }, waits) {
                        Admission::Picked(picked) => leases.push(picked.lease),
                        Admission::Queued(ticket) => waiting.push(ticket),
                        other => panic!("seed {seed}: {other:?}"),
                    }
                }
                4 if !waiting.is_empty() => {
                    let ticket = waiting.remove(below(waiting.len() as u64) as usize);
                    bench.pool.leave(ticket);
                }
                5..=6 if !leases.is_empty() => {
                    let at = below(leases.len() as u64) as usize;
                    bench.pool.answered(bench.now, &mut leases[at]);
                }
                7 if !leases.is_empty() => {
                    let lease = leases.remove(below(leases.len() as u64) as usize);
                    bench.end(lease, Verdict::Success);
                }
                8 => bench.scrape(below(3) as u32, healthy(below(3) as u32, below(2) as u32)),
                _ => {
                    let time = Duration::from_millis(below(800));
                    bench.pass_with(time, |_, _| Some(healthy(0, 0)));
                }
            }
            bench.pool.check_invariants();
            for told in bench.told() {
                match told {
                    // Its client has left meanwhile, as one may.
                    Told::Granted(ticket, picked) => {
                        waiting.retain(|own| *own != ticket);
                        leases.push(picked.lease);
                    }
                    Told::Denied(..) => panic!("seed {seed}: {told:?}"),
                }
            }
        }
        bench.pass_with(seconds(10), |_, _| Some(healthy(0, 0)));
        leases.extend(bench.grants().into_iter().map(|(_, picked)| picked.lease));
        leases.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
        assert_eq!((bench.waiting(), bench.pool.holds()), (0, false), "seed {seed}");
        assert!((0..3).all(|id| bench.snapshot(id).inflight == 0), "seed {seed}");
    }
}
