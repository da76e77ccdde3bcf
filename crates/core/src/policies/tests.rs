//! The two published tables, and what holds for every policy.

use super::*;
use crate::rendezvous;
use proptest::prelude::*;

fn candidate(index: usize, inflight: u32) -> Candidate {
    Candidate {
        branch: 0,
        index,
        target: TargetIndex(0),
        distance: index,
        identity: rendezvous::identity(&format!("http://10.0.0.{index}:8000")),
        inflight,
        waiting: 0,
        kv_used: None,
        foreseen: None,
        score: 0.0,
        total: 0.0,
    }
}

/// What becomes of a session whose owner has `x` requests in flight while all others are idle.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Ties,
    Moves,
}

const SESSION: Asked<'static> = Asked { session: Some(77), decision: None };

fn fate(n: usize, x: u32, load_weight: f64) -> Fate {
    let mut candidates: Vec<Candidate> = (0..n).map(|index| candidate(index, 0)).collect();
    add(Policy::SessionAffinity, 1.0, &SESSION, &mut candidates);
    let owner = |candidates: &[Candidate]| {
        let most = candidates.iter().max_by(|a, b| a.total.total_cmp(&b.total)).expect("one at least");
        most.index
    };
    let owner = owner(&candidates);
    for candidate in &mut candidates {
        candidate.inflight = if candidate.index == owner { x } else { 0 };
    }
    let policies = Policies::new(vec![(Policy::SessionAffinity, 1.0), (Policy::LeastInflight, load_weight)]);
    assert!(policies.expect("sound").add_up(&SESSION, &mut candidates));
    let total = |index: usize| candidates.iter().find(|c| c.index == index).expect("there").total;
    let rest = candidates.iter().filter(|c| c.index != owner).map(|c| c.total).fold(0.0, f64::max);
    let tie = 1e-12 * rest;
    match total(owner) - rest {
        lead if lead > tie => Fate::Stays,
        lead if lead < -tie => Fate::Moves,
        _ => Fate::Ties,
    }
}

#[test]
fn the_published_table_of_a_session_whose_owner_is_loaded() {
    use Fate::{Moves, Stays, Ties};
    let rows: [(usize, [Fate; 5]); 4] = [
        (2, [Stays, Ties, Moves, Moves, Moves]),
        (3, [Stays, Stays, Ties, Moves, Moves]),
        (4, [Stays, Stays, Stays, Stays, Stays]),
        (5, [Stays, Stays, Stays, Stays, Stays]),
    ];
    for (n, fates) in rows {
        for (x, expected) in (0..).zip(fates) {
            assert_eq!(fate(n, x, 1.0), expected, "{n} candidates, {x} in flight");
        }
    }
    assert_eq!(smallest_that_moves(4, 1.0), Some(6));
    for n in 5..40 {
        assert_eq!(smallest_that_moves(n, 1.0), None, "{n} candidates: never");
    }
}

fn smallest_that_moves(n: usize, load_weight: f64) -> Option<u32> {
    // The load gap only grows with x: what does not move a session far out never does.
    (0..64).chain([1_000, 1_000_000]).find(|x| fate(n, *x, load_weight) == Fate::Moves)
}

#[test]
fn the_published_table_of_the_smallest_load_that_moves_a_session() {
    const NEVER: Option<u32> = None;
    let ratios = [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0];
    let rows: [(usize, [Option<u32>; 7]); 11] = [
        (2, [Some(2), Some(1), Some(1), Some(1), Some(1), Some(1), Some(1)]),
        (3, [Some(3), Some(1), Some(1), Some(1), Some(1), Some(1), Some(1)]),
        (4, [Some(6), Some(2), Some(1), Some(1), Some(1), Some(1), Some(1)]),
        (5, [NEVER, Some(3), Some(2), Some(1), Some(1), Some(1), Some(1)]),
        (6, [NEVER, Some(7), Some(3), Some(1), Some(1), Some(1), Some(1)]),
        (7, [NEVER, NEVER, Some(4), Some(2), Some(1), Some(1), Some(1)]),
        (8, [NEVER, NEVER, Some(9), Some(2), Some(1), Some(1), Some(1)]),
        (9, [NEVER, NEVER, NEVER, Some(3), Some(2), Some(1), Some(1)]),
        (12, [NEVER, NEVER, NEVER, Some(13), Some(3), Some(2), Some(1)]),
        (16, [NEVER, NEVER, NEVER, NEVER, Some(17), Some(4), Some(1)]),
        (32, [NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, Some(33)]),
    ];
    for (n, expected) in rows {
        for (ratio, smallest) in ratios.into_iter().zip(expected) {
            assert_eq!(smallest_that_moves(n, ratio), smallest, "{n} candidates, {ratio}:1");
        }
    }
    assert_eq!([2, 3].map(|n| fate(n, n as u32 - 1, 1.0)), [Fate::Ties, Fate::Ties]);
}

#[test]
fn a_session_s_candidates_are_ranked_by_halves() {
    let mut candidates: Vec<Candidate> = (0..70).map(|index| candidate(index, 0)).collect();
    Policy::SessionAffinity.score(&SESSION, &mut candidates);
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    let hash = |c: &Candidate| rendezvous::score(77, c.identity);
    assert!(candidates.windows(2).take(60).all(|pair| hash(&pair[0]) > hash(&pair[1])));
    for (rank, candidate) in (0..64).zip(&candidates) {
        assert_eq!(candidate.score, 0.5_f64.powi(rank));
    }
    assert!(candidates.iter().skip(64).all(|c| c.score == 0.0), "lost in the last bit of any total");
}

#[test]
fn scores_are_what_each_policy_says() {
    let one = |policy: Policy, asked: &Asked<'_>, candidate: Candidate| {
        let mut candidates = [candidate];
        policy.score(asked, &mut candidates);
        candidates[0].score
    };
    assert_eq!(one(Policy::LeastInflight, &SESSION, candidate(0, 3)), 0.25);
    assert_eq!(one(Policy::QueueDepth, &SESSION, Candidate { waiting: 1500, ..candidate(0, 0) }), 0.4);
    let kv = |used| one(Policy::KvHeadroom, &SESSION, Candidate { kv_used: used, ..candidate(0, 0) });
    assert_eq!([kv(Some(0.75)), kv(Some(2.0)), kv(Some(f32::NAN)), kv(None)], [0.25, 0.0, 0.0, 0.0]);
    let foreseen = |known, ttft| Candidate { foreseen: Some(Foreseen { known, ttft }), ..candidate(0, 0) };
    assert_eq!(one(Policy::PrefixCache, &SESSION, foreseen(0.75, 9.0)), 0.75);
    assert_eq!(one(Policy::PredictedTtft, &SESSION, foreseen(0.75, 4.0)), 0.25);
    assert_eq!(
        one(Policy::PredictedTtft, &SESSION, foreseen(0.0, 0.001)),
        50.0,
        "nobody feels the difference"
    );
    assert_eq!(one(Policy::PredictedTtft, &SESSION, candidate(0, 0)), 0.0, "nothing is predicted");
    let decision = Decision::new(vec![0.2, 0.8], Some(0.5), 2);
    let asked = Asked { session: None, decision: Some(&decision) };
    let second = Candidate { target: TargetIndex(1), ..candidate(0, 0) };
    assert_eq!(one(Policy::DecisionService, &asked, second), 0.8);
    let third = Candidate { target: TargetIndex(2), ..second };
    assert_eq!(one(Policy::DecisionService, &asked, third), 0.0, "it was not asked about");
    assert_eq!(one(Policy::SessionAffinity, &Asked::default(), second), 0.0, "no session");
}

#[test]
fn an_engine_that_does_not_tell_its_cache_is_taken_for_an_average_one() {
    let used = [Some(0.2), None, Some(0.6)];
    let mut candidates: Vec<Candidate> =
        (0..3).zip(used).map(|(i, kv_used)| Candidate { kv_used, ..candidate(i, 0) }).collect();
    Policy::KvHeadroom.score(&SESSION, &mut candidates);
    let scores: Vec<f64> = candidates.iter().map(|c| (c.score * 1e6).round() / 1e6).collect();
    assert_eq!(scores, [0.8, 0.6, 0.4]);
}

#[test]
fn a_decision_s_confidence_is_its_own_or_computed() {
    let rows: [(&[f64], Option<f64>, usize, f64); 7] = [
        (&[0.5, 0.5], Some(0.7), 2, 0.7),
        (&[0.5, 0.5], None, 2, 0.0),
        (&[1.0, 0.0], None, 2, 1.0),
        (&[0.7, 0.2, 0.1], None, 3, 0.55),
        (&[0.1, 0.1], None, 2, 0.0),
        (&[0.9, f64::NAN, -3.0], Some(7.0), 3, 1.0),
        (&[0.75, 0.25], Some(f64::NAN), 2, 0.5),
    ];
    for (probabilities, confidence, asked, expected) in rows {
        let decision = Decision::new(probabilities.to_vec(), confidence, asked);
        assert!((decision.confidence() - expected).abs() < 1e-9, "{probabilities:?}: {decision:?}");
    }
    let decision = Decision::new(vec![0.8, 0.2], Some(0.5), 2);
    let asked = Asked { session: None, decision: Some(&decision) };
    let mut candidates = [candidate(0, 0), Candidate { target: TargetIndex(1), ..candidate(1, 0) }];
    assert!(add(Policy::DecisionService, 10.0, &asked, &mut candidates));
    let totals = candidates.map(|c| c.total);
    assert!((totals[0] - 4.0).abs() < 1e-9 && (totals[1] - 1.0).abs() < 1e-9, "weight 10 * 0.5: {totals:?}");
}

#[test]
fn a_list_of_policies_is_sound_or_none() {
    let (a, b) = (Policy::SessionAffinity, Policy::LeastInflight);
    let rows: [(&[(Policy, f64)], bool); 8] = [
        (&[(a, 1.0)], true),
        (&[(a, 0.0), (b, 2.0)], true),
        (&[], false),
        (&[(a, 0.0)], false),
        (&[(a, -1.0), (b, 1.0)], false),
        (&[(a, f64::NAN)], false),
        (&[(a, f64::INFINITY)], false),
        (&[(a, 1.0), (a, 1.0)], false),
    ];
    for (list, sound) in rows {
        assert_eq!(Policies::new(list.to_vec()).is_some(), sound, "{list:?}");
    }
}

prop_compose! {
    fn candidates()(
        numbers in prop::collection::vec(
            (
                0_u32..200,
                0_u64..50_000,
                prop::option::of(0.0_f32..1.2),
                0_u32..4,
                prop::option::of((0.0_f64..1.0, 0.0_f64..600.0)),
            ),
            1..90,
        )
    ) -> Vec<Candidate> {
        numbers.into_iter().enumerate().map(|(index, (inflight, waiting, kv_used, target, foreseen))| Candidate {
            waiting,
            kv_used,
            target: TargetIndex(target),
            foreseen: foreseen.map(|(known, ttft)| Foreseen { known, ttft }),
            ..candidate(index, inflight)
        }).collect()
    }
}

prop_compose! {
    fn decision()(p in prop::collection::vec(0.0_f64..1.0, 4), confidence in prop::option::of(0.0_f64..1.0)) -> Decision {
        Decision::new(p, confidence, 4)
    }
}

fn totals(candidates: &[Candidate]) -> Vec<(usize, f64)> {
    let mut totals: Vec<_> = candidates.iter().map(|c| (c.index, c.total)).collect();
    totals.sort_by_key(|(index, _)| *index);
    totals
}

proptest! {
    /// The kit that every policy has to pass, a new one as well.
    #[test]
    fn every_policy_is_finite_fair_to_scale_blind_to_order_and_may_abstain(
        candidates in candidates(),
        decision in decision(),
        session in prop::option::of(any::<u64>()),
        weight in 0.001_f64..1000.0,
    ) {
        let asked = Asked { session, decision: Some(&decision) };
        for policy in Policy::ALL {
            let mut scored = candidates.clone();
            policy.score(&asked, &mut scored);
            prop_assert!(scored.iter().all(|c| c.score.is_finite() && c.score >= 0.0), "{policy:?}");
            let sum: f64 = scored.iter().map(|c| c.score).sum();

            let mut added = candidates.clone();
            let speaks = add(policy, weight, &asked, &mut added);
            prop_assert_eq!(speaks, sum > 0.0 && effective(policy, weight, &decision) > 0.0, "{:?}", policy);
            let whole: f64 = added.iter().map(|c| c.total).sum();
            let expected = if speaks { effective(policy, weight, &decision) } else { 0.0 };
            prop_assert!((whole - expected).abs() <= expected * 1e-9, "{policy:?} spreads its weight, no more");

            let mut heavier = candidates.clone();
            add(policy, weight * 8.0, &asked, &mut heavier);
            for ((_, one), (_, eight)) in totals(&added).into_iter().zip(totals(&heavier)) {
                prop_assert!((one * 8.0 - eight).abs() <= eight * 1e-9, "{policy:?} is fair to scale");
            }

            let mut reversed: Vec<Candidate> = candidates.iter().rev().copied().collect();
            add(policy, weight, &asked, &mut reversed);
            for ((_, one), (_, other)) in totals(&added).into_iter().zip(totals(&reversed)) {
                prop_assert!((one - other).abs() <= one * 1e-9, "{policy:?} is blind to order");
            }
        }
    }
}

fn effective(policy: Policy, weight: f64, decision: &Decision) -> f64 {
    if policy == Policy::DecisionService { weight * decision.confidence() } else { weight }
}
