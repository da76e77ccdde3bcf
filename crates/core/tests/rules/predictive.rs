//! Mode `predictive` through the pool: what it learns, who is a candidate, what it says.

use crate::bench::{Bench, healthy, request, seconds};
use sluicegate_core::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Before there is data 10,000 tokens take a second of prefill and a fifth for their attention.
const LONG: u32 = 10_000;

fn bench(n: usize) -> Bench {
    Bench::live(n, PoolSettings { predict: true, ..PoolSettings::default() })
}

/// Blocks of 500 tokens.
fn asks(tokens: u32, blocks: &[u64]) -> PickRequest<'_> {
    let prompt = Prompt { tokens, blocks, block_tokens: 500, whole_answer: false };
    let weight = Weight::from_prompt_tokens(u64::from(tokens));
    PickRequest { weight, prompt, mode: Mode::Predictive, ..request() }
}

fn chain(family: u64, len: u64) -> Vec<u64> {
    (0..len).map(|at| family * 1000 + at + 1).collect()
}

/// Serves the request to its end; the first byte comes when it was predicted to.
fn served(bench: &mut Bench, request: &PickRequest<'_>) -> usize {
    let told = bench.pool.explain(bench.now, request, None);
    let mut picked = bench.pick(request);
    let predicted = told.candidates[picked.replica.0 as usize].predicted.expect("a candidate");
    bench.now = bench.now + Duration::from_secs_f64(predicted.wait + predicted.prefill + predicted.forgiven);
    bench.pool.answered(bench.now, &mut picked.lease);
    bench.end(picked.lease, Verdict::Success);
    picked.replica.0 as usize
}

fn distinct(picked: &[Picked]) -> usize {
    picked.iter().map(|picked| picked.replica).collect::<BTreeSet<_>>().len()
}

#[test]
fn g2_a_burst_between_two_scrapes_is_spread_to_within_one_request() {
    for (burst, tokens) in [(4, 10), (8, 1000), (16, LONG)] {
        let mut bench = bench(4);
        let picked: Vec<Picked> = (0..burst).map(|_| bench.pick(&asks(tokens, &[]))).collect();
        for id in 0..4 {
            let own = picked.iter().filter(|picked| picked.replica == ReplicaId(id)).count();
            assert_eq!(own, burst / 4, "{burst} of {tokens} tokens");
        }
        assert!(picked.iter().all(|picked| picked.reason == Reason::Predicted && !picked.spilled));
    }
}

#[test]
fn g3_a_heavy_request_weighs_while_it_prefills() {
    let mut bench = bench(4);
    let mut heavy = bench.pick(&asks(100_000, &[]));
    let mut small: Vec<Picked> = (0..30).map(|_| bench.pick(&asks(100, &[]))).collect();
    assert!(small.iter().all(|small| small.replica != heavy.replica));
    bench.now = bench.now + seconds(40);
    bench.pool.answered(bench.now, &mut heavy.lease);
    small.iter_mut().for_each(|small| bench.pool.answered(bench.now, &mut small.lease));
    let later: Vec<Picked> = (0..8).map(|_| bench.pick(&asks(LONG, &[]))).collect();
    assert!(later.iter().any(|later| later.replica == heavy.replica), "it decodes");
}

#[test]
fn g8_a_talk_stays_where_it_is_warm_until_that_costs_more_than_starting_afresh() {
    let mut bench = bench(4);
    let talk = chain(1, 20);
    let home = bench.turn(&asks(LONG, &talk)).0;
    let next = chain(1, 24);
    assert_eq!(bench.turn(&asks(12_000, &next)).0, home);
    // 2,000 tokens are cold there and 12,000 elsewhere: half a second of work before it is nothing against that.
    let all_but = |home: u32| (0..4).filter(|id| *id != home).map(ReplicaId).collect::<Vec<_>>();
    let others = all_but(home);
    let load = |tokens| PickRequest { tried: &others, ..asks(tokens, &[]) };
    let _some = bench.pick(&load(4000));
    assert_eq!(bench.turn(&asks(12_000, &next)).0, home);
    let _much = bench.pick(&load(20_000));
    assert_ne!(bench.turn(&asks(12_000, &chain(1, 24))).0, home);
}

#[test]
fn g8_a_request_never_stays_where_its_first_token_is_later_than_elsewhere_by_more_than_the_window() {
    let mut bench = bench(2);
    let talk = chain(1, 20);
    let home = served(&mut bench, &asks(LONG, &talk));
    // A busy pool: what a second of prefill costs those who come after speaks for the warm replica.
    for family in 2..40 {
        served(&mut bench, &asks(6000, &chain(family, 12)));
    }
    let elsewhere = [ReplicaId(1 - home as u32)];
    let _queue = bench.pick(&PickRequest { tried: &elsewhere, ..asks(LONG + 1000, &[]) });
    let request = asks(LONG, &talk);
    let told = bench.pool.explain(bench.now, &request, None);
    let of = |at: usize| told.candidates[at].predicted.expect("a candidate");
    let first_token = |at: usize| of(at).wait + of(at).prefill;
    assert!(first_token(home) > first_token(1 - home) + 0.02, "it would wait longer at home");
    assert!(of(home).cost < of(1 - home).cost, "and be cheaper to everybody else");
    assert_eq!(bench.turn(&request).0 as usize, 1 - home);
}

#[test]
fn g9_new_talks_on_one_beginning_spread_though_it_is_warm_on_one_replica() {
    let mut bench = bench(4);
    let mut counts = [0; 4];
    for talk in 0..40 {
        let blocks: Vec<u64> = chain(1, 6).into_iter().chain([9000 + talk]).collect();
        counts[served(&mut bench, &asks(3500, &blocks))] += 1;
        bench.pass(Duration::from_millis(300));
    }
    assert!(counts.iter().all(|count| (8..=12).contains(count)), "{counts:?}");
}

#[test]
fn g1_talks_that_begin_anew_on_one_beginning_do_not_gather() {
    let mut bench = bench(4);
    let mut counts = [0; 4];
    for turn in 0..400 {
        // Twenty talks take turns; each begins anew after five of them.
        let (talk, nth) = (turn % 20, turn / 20);
        let own = chain(100 + talk + 20 * (nth / 5), 2 * (nth % 5 + 1));
        let blocks: Vec<u64> = chain(1, 12).into_iter().chain(own).collect();
        counts[served(&mut bench, &asks(500 * blocks.len() as u32 + 100, &blocks))] += 1;
        bench.pass(Duration::from_millis(600));
    }
    assert!(counts.iter().all(|count| *count <= 400 * 45 / 100), "{counts:?}");
}

#[test]
fn g11_a_replica_with_a_queue_gets_only_what_is_still_answered_sooner_there() {
    let mut bench = bench(2);
    bench.scrape(0, healthy(2, 3));
    assert_eq!(
        bench.turn(&asks(1000, &[])).0,
        1,
        "nothing is known of the three: some prompts of the usual length"
    );
}

#[test]
fn it_makes_no_pins_of_prefixes_and_keeps_to_the_only_replica() {
    let mut bench = bench(2);
    let with_session =
        PickRequest { session: Some(Session::Explicit(7)), prefix: Some(8), ..asks(1000, &[]) };
    bench.turn(&with_session);
    assert_eq!(bench.pins(), (1, 0));
    let bound = PickRequest { only: Some(ReplicaId(1)), ..asks(LONG, &[]) };
    for _ in 0..3 {
        let picked = bench.serve(&bound);
        assert_eq!((picked.replica, picked.reason), (ReplicaId(1), Reason::Pinned));
    }
}

#[test]
fn health_slots_and_what_was_tried_decide_who_is_a_candidate() {
    let settings = || PoolSettings { predict: true, ..PoolSettings::default() };
    let mut bench = Bench::live(4, settings());
    bench.book(0, Verdict::Refused);
    let tried = [ReplicaId(1)];
    let picked: Vec<Picked> =
        (0..8).map(|_| bench.pick(&PickRequest { tried: &tried, ..asks(LONG, &[]) })).collect();
    assert_eq!(distinct(&picked), 2);
    assert!(picked.iter().all(|picked| picked.replica.0 >= 2));

    let mut bench = Bench::new(settings());
    for name in ["a", "b"] {
        let spec = ReplicaSpec { slots: Some(1), ..crate::bench::spec(name, Origin::Startup) };
        let id = bench.pool.add(bench.now, spec);
        bench.pool.scraped(bench.now, id, healthy(0, 0), None);
    }
    let waiting = crate::queue_bench::by(1);
    let admit = |bench: &mut Bench| bench.pool.admit(bench.now, &asks(LONG, &[]), waiting);
    let (first, second) = (admit(&mut bench), admit(&mut bench));
    let (Admission::Picked(first), Admission::Picked(second)) = (first, second) else { panic!("two slots") };
    assert_ne!(first.replica, second.replica);
    let Admission::Queued(ticket) = admit(&mut bench) else { panic!("no third slot") };
    bench.end(second.lease, Verdict::Success);
    let granted = bench.take_effects().into_iter().find_map(|effect| match effect {
        Effect::Granted { ticket: whose, picked } => Some((whose, picked)),
        _ => None,
    });
    let (whose, picked) = granted.expect("a slot came free");
    assert_eq!((whose, picked.replica, picked.reason), (ticket, second.replica, Reason::Predicted));
}

#[test]
fn a_probing_replica_is_as_good_as_another_only_where_it_is_sooner() {
    let mut bench = bench(2);
    let spec = ReplicaSpec { slots: Some(100), ..crate::bench::spec("new", Origin::Discovered) };
    let id = bench.pool.add(bench.now, spec);
    bench.pool.scraped(bench.now, id, healthy(0, 0), None);
    assert_eq!(bench.health(2), Health::Probing);
    assert!((0..8).all(|_| bench.turn(&asks(100, &[])).0 != 2), "LIVE ones are as soon");
    let picked: Vec<Picked> = (0..5).map(|_| bench.pick(&asks(LONG, &[]))).collect();
    assert_eq!(picked.iter().filter(|picked| picked.replica == id).count(), 1, "one at a time");
}

#[test]
fn a_new_process_has_nothing_warm() {
    let mut bench = bench(2);
    let talk = chain(1, 20);
    let home = bench.turn(&asks(LONG, &talk)).0;
    let known = |bench: &mut Bench| {
        let told = bench.pool.explain(bench.now, &asks(LONG, &talk), None);
        told.candidates[home as usize].predicted.map(|predicted| predicted.known_blocks)
    };
    assert_eq!(known(&mut bench), Some(20));
    bench.book(home, Verdict::Refused);
    bench.pass_with(seconds(60), |_, _| Some(healthy(0, 0)));
    assert_eq!((bench.health(home), known(&mut bench)), (Health::Live, Some(0)));
}

#[test]
fn an_explanation_shows_what_each_cost_is_made_of_and_what_is_then_done() {
    let mut bench = bench(3);
    let talk = chain(1, 20);
    let home = bench.turn(&asks(LONG, &talk)).0 as usize;
    let _busy = bench.pick(&PickRequest { tried: &[ReplicaId(home as u32)], ..asks(LONG, &[]) });
    let request = asks(LONG, &talk);
    let told = bench.pool.explain(bench.now, &request, None);
    let costs: Vec<Predicted> = told.candidates.iter().map(|c| c.predicted.expect("a candidate")).collect();
    assert!(costs[home].prefill < 0.01 && costs[home].known_blocks == 20);
    assert_eq!(costs.iter().filter(|cost| cost.wait > 1.0).count(), 1);
    for cost in costs {
        let sum = cost.wait + cost.prefill * (1.0 + cost.delays) + 0.05 * cost.slowed;
        assert!((cost.cost - sum).abs() < 1e-12);
    }
    let chosen = told.outcome.expect("somebody");
    assert_eq!((chosen.replica.0 as usize, chosen.reason), (home, Reason::Predicted));
    assert_eq!(bench.turn(&request).0 as usize, home);
}

#[test]
fn a_whole_answer_does_not_hold_up_those_behind_it() {
    let mut bench = bench(1);
    let prompt = Prompt { tokens: LONG, whole_answer: true, ..Prompt::default() };
    let mut whole = bench.pick(&PickRequest { prompt, ..asks(LONG, &[]) });
    let wait = |bench: &mut Bench| {
        let told = bench.pool.explain(bench.now, &asks(100, &[]), None);
        told.candidates[0].predicted.expect("the only one").wait
    };
    assert!((wait(&mut bench) - 1.2).abs() < 1e-9);
    bench.now = bench.now + Duration::from_millis(1300);
    assert_eq!(wait(&mut bench), 0.0, "it must be decoding by now");
    bench.now = bench.now + seconds(60);
    bench.pool.answered(bench.now, &mut whole.lease);
    bench.end(whole.lease, Verdict::Success);
    let stays =
        bench.pool.explain(bench.now, &asks(LONG, &[]), None).candidates[0].predicted.expect("the only one");
    assert!((stays.prefill - 1.2).abs() < 1e-9, "its minute was no prefill");
}

#[test]
fn of_replicas_that_cost_the_same_the_one_with_the_fewest_requests_of_others_wins() {
    let mut bench = bench(3);
    for (id, (running, waiting)) in (0..).zip([(9, 0), (3, 0), (2, 2)]) {
        bench.scrape(id, healthy(running, waiting));
    }
    assert_eq!(bench.turn(&asks(10, &[])).0, 1);
    assert_eq!(bench.turn(&asks(10, &[])).0, 1, "it has ended");
}
