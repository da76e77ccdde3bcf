//! Several targets as one: the modes over the pools of a route.

use crate::bench::{healthy, request, session};
use crate::lanes_bench::{LanesBench, in_mode};
use crate::queue_bench::{bounded, by};
use sluicegate_core::*;
use std::collections::BTreeMap;
use std::time::Duration;

#[test]
fn the_least_loaded_of_all_pools_wins_and_ties_go_round_all_of_them() {
    let mut bench = LanesBench::live(&[1, 3]);
    let order: Vec<(usize, u32)> = (0..8).map(|_| bench.turn(request())).map(|(p, r, _)| (p, r)).collect();
    let round = [(1, 0), (1, 1), (1, 2), (0, 0)];
    assert_eq!(order, [round, round].concat());
    [(0, 0, 3), (1, 0, 5), (1, 1, 2), (1, 2, 4)].into_iter().for_each(|(pool, id, running)| {
        bench.pools[pool].scrape(id, healthy(running, 0));
    });
    assert_eq!(bench.turn(request()), (1, 1, Reason::Load));
    bench.pools[1].scrape(1, healthy(2, 1));
    assert_eq!(bench.turn(request()), (0, 0, Reason::Load), "no-wait is asked of all pools together");
    (0..3).for_each(|id| bench.pools[1].book(id, Verdict::Refused));
    bench.pools[0].scrape(0, healthy(99, 9));
    assert_eq!(bench.turn(request()), (0, 0, Reason::Load), "one pool is dead, the other one serves");
}

#[test]
fn nobody_in_service_is_said_of_all_pools_together() {
    let mut bench = LanesBench::live(&[2, 1]);
    let all = [vec![ReplicaId(0), ReplicaId(1)], vec![ReplicaId(0)]];
    let none = bench.try_pick(request(), &all, &mut None).err();
    assert_eq!(none, Some(NoReplica::AllTried));
    (0..2).for_each(|id| bench.pools[0].book(id, Verdict::Refused));
    bench.pools[1].book(0, Verdict::Refused);
    let seen: std::collections::BTreeSet<_> = (0..64).map(|_| bench.turn(request())).collect_pairs();
    assert_eq!(seen.len(), 3, "the last resort is a random one of all: {seen:?}");
    let away = PickRequest { has_fallback: true, ..request() };
    let none = bench.try_pick(away, &[], &mut None).err();
    assert_eq!(none, Some(NoReplica::NotReady), "whoever has a fallback is no last resort's");
}

trait Pairs {
    fn collect_pairs(self) -> std::collections::BTreeSet<(usize, u32)>;
}

impl<I: Iterator<Item = (usize, u32, Reason)>> Pairs for I {
    fn collect_pairs(self) -> std::collections::BTreeSet<(usize, u32)> {
        self.map(|(pool, replica, _)| (pool, replica)).collect()
    }
}

#[test]
fn a_session_is_found_in_whichever_pool_it_is_pinned_in() {
    let mut bench = LanesBench::live(&[2, 2]);
    let homes: Vec<_> = (0..8).map(|key| bench.turn(session(key))).collect();
    assert_eq!(homes.iter().map(|(pool, ..)| *pool).collect::<std::collections::BTreeSet<_>>().len(), 2);
    for (key, (pool, replica, _)) in (0..8).zip(&homes) {
        assert_eq!(bench.turn(session(key)), (*pool, *replica, Reason::AffinitySession));
    }
    assert_eq!(
        bench.pools.iter().map(|pool| pool.pins().0).sum::<usize>(),
        8,
        "one pin each, and no second one"
    );
}

#[test]
fn a_session_that_moves_to_another_pool_takes_its_pin_along() {
    let mut bench = LanesBench::live(&[1, 1]);
    let (home, ..) = bench.turn(session(1));
    let other = 1 - home;
    bench.pools[home].scrape(0, healthy(2, 0));
    for spills in 1..=2 {
        assert_eq!(bench.turn(session(1)), (other, 0, Reason::Load), "spill {spills}");
        assert_eq!((bench.pools[home].pins().0, bench.pools[other].pins().0), (1, 0), "no second pin");
    }
    assert_eq!(bench.turn(session(1)), (other, 0, Reason::Rebind));
    assert_eq!((bench.pools[home].pins().0, bench.pools[other].pins().0), (0, 1));
    assert_eq!(bench.turn(session(1)), (other, 0, Reason::AffinitySession));
    bench.pools[home].scrape(0, healthy(0, 0));
    bench.pools[other].scrape(0, healthy(3, 0));
    assert_eq!(
        bench.turn(session(1)),
        (home, 0, Reason::Rebind),
        "three above the least loaded one: at once"
    );
}

#[test]
fn g18_shares_hold_whatever_the_number_of_replicas() {
    let shares = Shares::new(vec![100, 300]).expect("both are above zero");
    for sizes in [[1, 3], [2, 2], [5, 1]] {
        let mut bench = LanesBench::live(&sizes);
        let mut counts = BTreeMap::new();
        for n in 1..=1000 {
            let (pool, replica, reason) = bench.turn(in_mode(Mode::Weighted(&shares)));
            assert_eq!(reason, Reason::Weighted);
            *counts.entry((pool, replica)).or_insert(0) += 1;
            let first: i32 = counts.iter().filter(|((pool, _), _)| *pool == 0).map(|(_, n)| *n).sum();
            assert!((f64::from(first) - f64::from(n) / 4.0).abs() <= 1.0, "{first} of the first {n}");
        }
        for (pool, part) in [(0, 250), (1, 750)] {
            let even = part as f64 / sizes[pool] as f64;
            let own = counts.iter().filter(|((p, _), _)| *p == pool).map(|(_, n)| f64::from(*n));
            assert!(own.into_iter().all(|n| (n - even).abs() <= 1.0), "{sizes:?}: {counts:?}");
        }
    }
}

#[test]
fn a_retry_stays_in_its_target_and_then_goes_to_the_next_by_share() {
    let shares = Shares::new(vec![1, 3, 0]).expect("one is above zero");
    let mut bench = LanesBench::live(&[2, 2, 1]);
    let mut firsts = [0; 3];
    for n in 0..400 {
        let (mut tried, mut aim) = (vec![Vec::new(), Vec::new(), Vec::new()], None);
        let mut path = Vec::new();
        while let Ok(placed) = bench.try_pick(in_mode(Mode::Weighted(&shares)), &tried, &mut aim) {
            assert_eq!(aim, Some(placed.target));
            path.push(placed.lane);
            tried[placed.lane].push(placed.picked.replica);
            bench.end(placed);
        }
        let first = path[0];
        assert_eq!(path, [first, first, 1 - first, 1 - first], "request {n}: weight 0 takes no retry either");
        firsts[first] += 1;
    }
    assert_eq!(firsts, [100, 300, 0], "retries have no part in the shares");
}

#[test]
fn a_target_out_of_service_leaves_its_share_to_the_others_and_comes_back_without_a_claim() {
    let shares = Shares::new(vec![1, 1]).expect("both are above zero");
    let weighted = || in_mode(Mode::Weighted(&shares));
    let mut bench = LanesBench::live(&[1, 1]);
    bench.pools[0].book(0, Verdict::Refused);
    assert!((0..100).all(|_| bench.turn(weighted()).0 == 1));
    bench.pools[1].book(0, Verdict::Refused);
    assert_eq!(bench.turn(weighted()).2, Reason::LastResort);
    bench.pass(31);
    for pool in &mut bench.pools {
        let now = pool.now;
        pool.pool.tick(now);
        (0..2).for_each(|_| pool.scrape(0, healthy(0, 0)));
    }
    let back: Vec<usize> = (0..10).map(|_| bench.turn(weighted()).0).collect();
    assert_eq!(back.iter().filter(|pool| **pool == 0).count(), 5, "{back:?}");
}

#[test]
fn a_weighted_request_waits_for_its_target_while_another_one_has_slots() {
    let shares = Shares::new(vec![1, 1]).expect("both are above zero");
    let weighted = || in_mode(Mode::Weighted(&shares));
    let mut bench = LanesBench::live(&[1, 1]);
    bench.pools[0].pool.set_slots(ReplicaId(0), Some(1));
    let mut entries: Vec<Entry> = (0..4).map(|_| bench.admit(weighted(), by(1))).collect();
    let Some(Entry::Queued(waits)) = entries.iter().find(|entry| matches!(entry, Entry::Queued(_))) else {
        panic!("{entries:?}")
    };
    assert_eq!((waits.len(), waits[0].lane, waits[0].target), (1, 0, TargetIndex(0)));
    let waits = waits[0].ticket;
    let held = entries.iter().position(|e| matches!(e, Entry::Placed(p) if p.lane == 0)).expect("the first");
    let Entry::Placed(held) = entries.swap_remove(held) else { panic!("just found") };
    bench.end(held);
    let granted = bench.pools[0].grants();
    assert_eq!((granted[0].0, granted[0].1.reason), (waits, Reason::Weighted));
}

#[test]
fn an_adaptive_request_waits_for_every_pool_and_takes_the_first_slot() {
    let mut bench = LanesBench::live(&[1, 1]);
    bench.pools.iter_mut().for_each(|pool| pool.pool.set_slots(ReplicaId(0), Some(1)));
    let placed: Vec<Placed> = (0..2)
        .map(|_| match bench.admit(request(), by(1)) {
            Entry::Placed(placed) => placed,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_ne!(placed[0].lane, placed[1].lane);
    let Entry::Queued(waits) = bench.admit(session(1), by(2)) else { panic!("no slot is free") };
    assert_eq!(waits.iter().map(|w| (w.lane, w.target.0)).collect::<Vec<_>>(), [(0, 0), (1, 1)]);
    let free = placed.into_iter().find(|placed| placed.lane == 1).expect("one of them");
    bench.end(free);
    assert_eq!(bench.pools[1].tickets(), [waits[1].ticket]);
    assert!(bench.pools[0].pool.leave(waits[0].ticket), "it leaves the other queue");
    let none = bounded(0, Duration::from_secs(1));
    assert!(matches!(bench.admit(request(), none), Entry::Full { .. }), "both queues are full");
}

#[test]
fn with_a_fallback_nobody_waits_for_a_replica_to_come_back() {
    let mut bench = LanesBench::live(&[1, 1]);
    bench.pools.iter_mut().for_each(|pool| pool.pool.set_slots(ReplicaId(0), Some(1)));
    let away = || PickRequest { has_fallback: true, ..request() };
    for pool in 0..2 {
        assert!(matches!(bench.admit(away(), by(1)), Entry::Placed(_)), "pool {pool}");
    }
    let Entry::Queued(waits) = bench.admit(away(), by(1)) else { panic!("it waits while somebody is LIVE") };
    assert_eq!(waits.len(), 2);
    bench.pools.iter_mut().for_each(|pool| pool.book(0, Verdict::Refused));
    assert_eq!(bench.pools.iter().map(|pool| pool.waiting()).sum::<usize>(), 0, "told so at once");
    assert!(matches!(bench.admit(away(), by(1)), Entry::No(NoReplica::NotReady)));
    assert!(!matches!(bench.admit(request(), by(1)), Entry::No(_)), "others wait");
}

#[test]
fn round_robin_is_a_plain_cycle_over_live_replicas_of_all_targets() {
    let mut bench = LanesBench::live(&[2, 1]);
    bench.pools[0].scrape(1, healthy(50, 9));
    let order: Vec<_> = (0..6).map(|_| bench.turn(in_mode(Mode::RoundRobin))).collect();
    let cycle = [(0, 1), (1, 0), (0, 0)].map(|(pool, id)| (pool, id, Reason::RoundRobin));
    assert_eq!(order, [cycle, cycle].concat(), "whatever the load");
    bench.pools[0].book(1, Verdict::Refused);
    let order: Vec<_> = (0..4).map(|_| bench.turn(in_mode(Mode::RoundRobin)).0).collect();
    assert_eq!(order, [1, 0, 1, 0]);
}

#[test]
fn two_targets_of_one_pool_are_told_apart() {
    let mut bench = LanesBench::shared(2, 2);
    let targets: Vec<u32> = (0..8).map(|_| bench.pick(request()).target.0).collect();
    assert_eq!(targets.iter().filter(|target| **target == 0).count(), 4, "in turn: {targets:?}");
    let of = |bench: &mut LanesBench, key| bench.pick(session(key)).target;
    let first: Vec<_> = (0..16).map(|key| of(&mut bench, key)).collect();
    assert!(
        (0..16).zip(&first).all(|(key, target)| of(&mut bench, key) == *target),
        "a session keeps its model"
    );
    assert!(first.contains(&TargetIndex(0)) && first.contains(&TargetIndex(1)));
    let shares = Shares::new(vec![1, 3]).expect("both are above zero");
    let mut bench = LanesBench::shared(2, 2);
    let second = (0..400).filter(|_| bench.pick(in_mode(Mode::Weighted(&shares))).target.0 == 1).count();
    assert_eq!(second, 300);
}

#[test]
fn consistent_affinity_ranks_the_replicas_of_all_pools() {
    let mut settings = PoolSettings::default();
    settings.affinity.mode = AffinityMode::Consistent;
    let mut bench = LanesBench::with(&[2, 2], &settings);
    let home = bench.turn(session(3));
    assert_eq!(home.2, Reason::AffinitySession);
    assert!((0..4).all(|_| bench.turn(session(3)) == home));
    bench.pools[home.0].scrape(home.1, healthy(2, 0));
    let next = bench.turn(session(3));
    assert!(next.2 == Reason::AffinitySession && (next.0, next.1) != (home.0, home.1));
}

#[test]
fn an_explanation_over_pools_is_what_the_next_pick_does() {
    let shares = Shares::new(vec![1, 2]).expect("both are above zero");
    let policies =
        Policies::new(vec![(Policy::SessionAffinity, 1.0), (Policy::LeastInflight, 1.0)]).expect("sound");
    let scoring = Scoring { policies: &policies, decision: None };
    let mut bench = LanesBench::live(&[2, 1]);
    for mode in [Mode::Adaptive, Mode::Weighted(&shares), Mode::RoundRobin, Mode::Policy(scoring)] {
        for key in 0..12 {
            let asked = PickRequest { mode, ..session(key) };
            let told = bench.explain(asked);
            assert_eq!(told.candidates.len(), 3, "all targets' candidates");
            let placed = bench.pick(asked);
            let chosen = told.outcome.expect("somebody can serve");
            assert_eq!(
                (chosen.lane, chosen.target, chosen.replica, chosen.reason),
                (placed.lane, Some(placed.target), placed.picked.replica, placed.picked.reason),
                "{mode:?}"
            );
            if let Mode::Policy(_) = mode {
                let sums: Vec<f64> =
                    told.candidates.iter().map(|c| c.parts.iter().map(|p| p.1).sum()).collect();
                assert!(
                    (sums.iter().sum::<f64>() - 2.0).abs() < 1e-9,
                    "each policy spreads its weight: {sums:?}"
                );
            }
            bench.end(placed);
        }
    }
}
