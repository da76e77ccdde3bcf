//! Mode `policy`: totals, ties, abstention, and who is a candidate.

use crate::bench::{Bench, healthy, request, seconds, session};
use crate::lanes_bench::{LanesBench, in_mode};
use crate::queue_bench::by;
use proptest::prelude::*;
use sluicegate_core::*;
use std::collections::BTreeMap;

fn policies(list: &[(Policy, f64)]) -> Policies {
    Policies::new(list.to_vec()).expect("sound")
}

fn scoring(policies: &Policies) -> Mode<'_> {
    Mode::Policy(Scoring { policies, decision: None })
}

#[test]
fn a_session_stays_until_the_published_load_moves_it() {
    let both = policies(&[(Policy::SessionAffinity, 1.0), (Policy::LeastInflight, 1.0)]);
    let mut bench = Bench::live(3, PoolSettings::default());
    let asked = PickRequest { mode: scoring(&both), ..session(5) };
    let home = bench.turn(&asked);
    assert_eq!(home.1, Reason::Policy);
    for x in 0..2 {
        assert_eq!(bench.turn(&asked), home, "{x} in flight");
        bench.load(&[home.0]);
    }
    let tied: std::collections::BTreeSet<u32> = (0..64).map(|_| bench.turn(&asked).0).collect();
    assert_eq!(tied.len(), 2, "2 in flight: a tie with the next in order");
    bench.load(&[home.0]);
    assert!((0..16).all(|_| bench.turn(&asked).0 != home.0), "3 in flight move it");
    assert_eq!(bench.pins(), (0, 0), "no table");
}

#[test]
fn exact_ties_are_broken_uniformly() {
    let load = policies(&[(Policy::LeastInflight, 1.0)]);
    let mut bench = Bench::live(4, PoolSettings::default());
    let mut counts = BTreeMap::new();
    for _ in 0..4000 {
        *counts.entry(bench.turn(&in_mode(scoring(&load))).0).or_insert(0_u32) += 1;
    }
    assert!(counts.len() == 4 && counts.values().all(|n| (880..1120).contains(n)), "{counts:?}");
}

#[test]
fn where_all_abstain_it_is_their_turn() {
    let silent = policies(&[
        (Policy::SessionAffinity, 1.0),
        (Policy::DecisionService, 10.0),
        (Policy::KvHeadroom, 1.0),
    ]);
    let mut bench = Bench::live(3, PoolSettings::default());
    let order: Vec<_> = (0..6).map(|_| bench.turn(&in_mode(scoring(&silent)))).collect();
    assert_eq!(order.iter().map(|(id, ..)| *id).collect::<Vec<_>>(), [1, 2, 0, 1, 2, 0]);
    assert!(order.iter().all(|(_, reason, _)| *reason == Reason::RoundRobin));
}

#[test]
fn a_decision_chooses_the_target_and_its_confidence_is_its_weight() {
    let list = policies(&[(Policy::DecisionService, 10.0), (Policy::LeastInflight, 1.0)]);
    let mut bench = LanesBench::live(&[2, 2]);
    for (p, confidence, expected) in [(0.1, 0.9, 1), (0.9, 0.9, 0)] {
        let decision = Decision::new(vec![p, 1.0 - p], Some(confidence), 2);
        let mode = Mode::Policy(Scoring { policies: &list, decision: Some(&decision) });
        let placed: Vec<Placed> = (0..8).map(|_| bench.pick(in_mode(mode))).collect();
        assert!(placed.iter().all(|p| p.target == TargetIndex(expected)), "{placed:?}");
        let at = |id| placed.iter().filter(|p| p.picked.replica == ReplicaId(id)).count();
        assert_eq!((at(0), at(1)), (4, 4), "inside it the load decides");
        placed.into_iter().for_each(|placed| bench.end(placed));
    }
    let unsure = Decision::new(vec![1.0, 0.0], Some(0.0), 2);
    let mode = Mode::Policy(Scoring { policies: &list, decision: Some(&unsure) });
    let targets: Vec<u32> = (0..8).map(|_| bench.pick(in_mode(mode)).target.0).collect();
    assert_eq!(targets.iter().filter(|target| **target == 1).count(), 4, "without confidence it abstains");
}

#[test]
fn one_replica_under_two_models_is_two_candidates() {
    let list = policies(&[(Policy::DecisionService, 10.0), (Policy::LeastInflight, 1.0)]);
    let mut bench = LanesBench::shared(2, 2);
    let decision = Decision::new(vec![0.2, 0.8], Some(1.0), 2);
    let mode = Mode::Policy(Scoring { policies: &list, decision: Some(&decision) });
    assert!((0..8).all(|_| bench.pick(in_mode(mode)).target == TargetIndex(1)));
}

#[test]
fn a_full_winner_s_target_is_waited_for() {
    let list = policies(&[(Policy::DecisionService, 10.0)]);
    let decision = Decision::new(vec![0.9, 0.1], Some(1.0), 2);
    let mode = || in_mode(Mode::Policy(Scoring { policies: &list, decision: Some(&decision) }));
    let mut bench = LanesBench::live(&[2, 1]);
    for (pool, id) in [(0, 0), (0, 1), (1, 0)] {
        bench.pools[pool].pool.set_slots(ReplicaId(id), Some(1));
    }
    let mut placed = Vec::new();
    for n in 0..2 {
        let Entry::Placed(one) = bench.admit(mode(), by(1)) else {
            panic!("{n}: a slot of the target is free")
        };
        assert_eq!(one.lane, 0);
        placed.push(one);
    }
    let Entry::Queued(waits) = bench.admit(mode(), by(1)) else { panic!("its target is full") };
    assert_eq!((waits.len(), waits[0].lane), (1, 0), "the other target's free slot is not what was decided");
    bench.end(placed.remove(0));
    let granted = bench.pools[0].grants();
    assert_eq!((granted[0].0, granted[0].1.reason), (waits[0].ticket, Reason::Policy));
}

#[test]
fn probing_replicas_are_candidates_only_without_a_live_one() {
    let load = policies(&[(Policy::LeastInflight, 1.0)]);
    for mode in [scoring(&load), Mode::RoundRobin] {
        let mut bench = Bench::live(2, PoolSettings::default());
        bench.book(0, Verdict::Refused);
        (0..2).for_each(|_| bench.scrape(0, healthy(0, 0)));
        bench.pass(seconds(30));
        assert_eq!(bench.health(0), Health::Probing);
        assert!((0..4).all(|_| bench.turn(&in_mode(mode)).0 == 1), "{mode:?}");
        bench.pool.drain(bench.now, ReplicaId(1));
        let probe = bench.pick(&in_mode(mode));
        assert_eq!(probe.replica, ReplicaId(0));
        let none = bench.pool.pick(bench.now, &in_mode(mode)).err();
        assert_eq!(none, Some(NoReplica::NotReady), "at its limit");
        bench.end(probe.lease, Verdict::Refused);
        assert_eq!(bench.turn(&in_mode(mode)).1, Reason::LastResort);
    }
}

/// Blocks of 500 tokens.
fn long(blocks: &[u64]) -> Prompt<'_> {
    Prompt { tokens: 10_000, blocks, block_tokens: 500, whole_answer: false }
}

#[test]
fn the_replica_that_knows_the_prompt_and_the_one_that_answers_first() {
    let talk: Vec<u64> = (1..=20).collect();
    for (policy, stays) in [(Policy::PrefixCache, true), (Policy::PredictedTtft, false)] {
        let list = policies(&[(policy, 1.0)]);
        let mut bench = Bench::live(3, PoolSettings { predict: true, ..PoolSettings::default() });
        let asked = PickRequest { prompt: long(&talk), ..in_mode(scoring(&list)) };
        let home = bench.turn(&asked).0;
        assert!((0..8).all(|_| bench.turn(&asked).0 == home), "{policy:?}: warm there, and idle");
        // A prompt that nobody knows goes ahead of it and takes longer than starting afresh elsewhere.
        let others: Vec<ReplicaId> = (0..3).filter(|id| *id != home).map(ReplicaId).collect();
        let foreign = Prompt { tokens: 60_000, ..long(&[]) };
        bench.pick(&PickRequest { prompt: foreign, tried: &others, ..in_mode(scoring(&list)) });
        assert_eq!(bench.turn(&asked).0 == home, stays, "{policy:?}");
    }
}

#[test]
fn without_predictions_the_policies_that_go_by_them_abstain() {
    let list = policies(&[(Policy::PrefixCache, 1.0), (Policy::PredictedTtft, 1.0)]);
    let mut bench = Bench::live(3, PoolSettings::default());
    let asked = PickRequest { prompt: long(&[1, 2]), ..in_mode(scoring(&list)) };
    let order: Vec<_> = (0..3).map(|_| bench.turn(&asked)).map(|(id, reason, _)| (id, reason)).collect();
    assert_eq!(order, [1, 2, 0].map(|id| (id, Reason::RoundRobin)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// In every mode: nothing that is out of service, has failed the request or serves another model is chosen.
    #[test]
    fn no_mode_chooses_an_unusable_replica(
        sick in prop::collection::vec(0_u8..5, 6),
        tried in prop::collection::vec(0_u32..6, 0..4),
        key in prop::option::of(any::<u64>()),
        mode in any::<usize>(),
        seed in any::<u64>(),
    ) {
        let all: Vec<(Policy, f64)> = Policy::ALL.map(|policy| (policy, policy.default_weight())).to_vec();
        let lists: Vec<Policies> = all.iter().map(|one| policies(&[*one])).chain([policies(&all)]).collect();
        let shares = Shares::new(vec![1]).expect("above zero");
        let modes: Vec<Mode<'_>> = lists
            .iter()
            .map(scoring)
            .chain([Mode::Adaptive, Mode::RoundRobin, Mode::Predictive, Mode::Weighted(&shares)])
            .collect();
        let mut bench = Bench::live(6, PoolSettings { predict: true, ..PoolSettings::default() });
        (0..seed % 7).for_each(|_| { bench.turn(&request()); });
        for (id, sick) in (0..).zip(&sick) {
            match sick {
                1 => bench.book(id, Verdict::Refused),
                2 => bench.pool.drain(bench.now, ReplicaId(id)),
                3 => bench.scrape(id, Scrape::Loading),
                4 => bench.pool.set_serves(ReplicaId(id), Serves::Only(Vec::new())),
                _ => {}
            }
        }
        let tried: Vec<ReplicaId> = tried.into_iter().map(ReplicaId).collect();
        let asked = PickRequest {
            model: Some(ModelId(1)),
            session: key.map(Session::Explicit),
            tried: &tried,
            mode: modes[mode % modes.len()],
            has_fallback: true,
            ..request()
        };
        let usable: Vec<ReplicaId> =
            (0..6).filter(|id| sick[*id as usize] == 0).map(ReplicaId).filter(|id| !tried.contains(id)).collect();
        match bench.pool.pick(bench.now, &asked) {
            Ok(picked) => {
                prop_assert!(usable.contains(&picked.replica));
                bench.end(picked.lease, Verdict::Success);
            }
            Err(_) => prop_assert!(usable.is_empty()),
        }
    }
}
