//! Mode `predictive` and sessions whose prompts no hash can tell: short ones, or such as are not text.

use crate::bench::{Bench, healthy, request, seconds};
use crate::queue_bench::by;
use sluicegate_core::*;

fn bench() -> Bench {
    Bench::live(4, PoolSettings { predict: true, ..PoolSettings::default() })
}

fn turn_of(session: Session) -> PickRequest<'static> {
    let prompt = Prompt { tokens: 200, ..Prompt::default() };
    PickRequest { session: Some(session), prompt, mode: Mode::Predictive, ..request() }
}

fn named(hash: u64) -> PickRequest<'static> {
    turn_of(Session::Explicit(hash))
}

fn by_its_words(hash: u64, continued: bool) -> PickRequest<'static> {
    turn_of(Session::Conversation { hash, continued })
}

/// The same, which only `id` may still serve.
fn at<'a>(id: u32, others: &'a mut Vec<ReplicaId>, request: PickRequest<'static>) -> PickRequest<'a> {
    others.extend((0..4).filter(|other| *other != id).map(ReplicaId));
    PickRequest { tried: others, ..request }
}

/// Where each of so many sessions was answered first.
fn begun(bench: &mut Bench, sessions: u64) -> Vec<u32> {
    (0..sessions).map(|session| bench.turn(&named(session)).0).collect()
}

#[test]
fn a_session_returns_to_where_it_was_answered_last_among_replicas_that_are_alike() {
    let mut bench = bench();
    let homes = begun(&mut bench, 12);
    for id in 0..4 {
        assert_eq!(homes.iter().filter(|home| **home == id).count(), 3, "new ones are spread: {homes:?}");
    }
    for turn in 0..20 {
        bench.now = bench.now + seconds(30);
        for (session, home) in (0..).zip(&homes) {
            assert_eq!(bench.turn(&named(session)), (*home, Reason::Predicted, false), "turn {turn}");
        }
    }
    assert_eq!(bench.pins(), (12, 0));
}

/// How many requests more than elsewhere its replica has, and whether the session stays there.
#[test]
fn it_stays_with_one_request_more_at_its_replica_and_a_talk_without_a_name_with_none() {
    for (own, more, stays) in [
        (named(1), 0, true),
        (named(1), 1, true),
        (named(1), 2, false),
        (by_its_words(1, true), 0, true),
        (by_its_words(1, true), 1, false),
        (by_its_words(1, false), 0, false),
    ] {
        let mut bench = bench();
        let home = bench.turn(&own).0;
        let _others = bench.load(&[0, 1, 2, 3]);
        let _more = bench.load(&vec![home; more]);
        let went = bench.turn(&own).0;
        assert_eq!(went == home, stays, "{more} more, {own:?}");
        if more == 0 {
            let next =
                if matches!(own.session, Some(Session::Explicit(_))) { own } else { by_its_words(1, true) };
            assert_eq!(
                bench.turn(&next).0,
                went,
                "the next turn follows wherever this one was answered: {own:?}"
            );
        }
    }
}

/// A system prompt of four blocks, and beside it nothing that would be a block.
#[test]
fn g9_talks_that_share_every_block_are_spread_and_each_stays_where_it_was_answered() {
    let blocks = [1, 2, 3, 4];
    let prompt = Prompt { tokens: 2100, blocks: &blocks, block_tokens: 500, whole_answer: false };
    let turn = |session| PickRequest { prompt, ..named(session) };
    let mut bench = bench();
    let homes: Vec<u32> = (0..200).map(|session| bench.turn(&turn(session)).0).collect();
    for id in 0..4 {
        let own = homes.iter().filter(|home| **home == id).count();
        assert!((40..=60).contains(&own), "{own} of 200 at {id}");
    }
    for (session, home) in (0..).zip(&homes) {
        assert_eq!(bench.turn(&turn(session)).0, *home);
    }
    let told = bench.pool.explain(bench.now, &turn(0), None);
    assert!(told.candidates.iter().all(|candidate| candidate.predicted.expect("LIVE").forgiven == 0.0));
}

#[test]
fn a_session_leaves_a_replica_that_would_answer_later_or_has_left_service() {
    let mut bench = bench();
    let home = bench.turn(&named(1)).0;
    let mut others = Vec::new();
    let long = Prompt { tokens: 20_000, ..Prompt::default() };
    let _long = bench.pick(&PickRequest { prompt: long, ..at(home, &mut others, named(9)) });
    let next = bench.turn(&named(1)).0;
    assert_ne!(next, home, "a prompt of 20,000 tokens is before it");
    assert_eq!(bench.turn(&named(1)).0, next);
    bench.book(next, Verdict::Refused);
    let last = bench.turn(&named(1)).0;
    assert_ne!(last, next);
    assert_eq!(bench.turn(&named(1)).0, last);
    assert_eq!(bench.pins(), (1, 0));
}

#[test]
fn where_affinity_is_off_or_computed_predictions_keep_no_pins() {
    for mode in [AffinityMode::Off, AffinityMode::Consistent] {
        let affinity = AffinitySettings { mode, ..AffinitySettings::default() };
        let mut bench = Bench::live(4, PoolSettings { predict: true, affinity, ..PoolSettings::default() });
        begun(&mut bench, 4);
        assert_eq!(bench.pins(), (0, 0), "{mode:?}");
    }
}

#[test]
fn a_request_without_a_session_makes_no_pin_and_a_session_lives_as_long_as_its_pin() {
    let mut bench = bench();
    let prompt = Prompt { tokens: 200, ..Prompt::default() };
    bench.turn(&PickRequest { prompt, prefix: Some(1), mode: Mode::Predictive, ..request() });
    assert_eq!(bench.pins(), (0, 0));
    bench.turn(&named(1));
    assert_eq!(bench.pins(), (1, 0));
    bench.pass_with(seconds(61 * 60), |_, _| Some(healthy(0, 0)));
    assert_eq!(bench.pins(), (0, 0));
}

/// It goes where a slot comes free, and its next turns follow it there.
#[test]
fn a_session_that_has_waited_for_a_slot_is_known_by_its_pin_as_any_other() {
    for waits_for in [0, 1] {
        let mut bench = Bench::live(2, PoolSettings { predict: true, ..PoolSettings::default() });
        (0..2).for_each(|id| bench.pool.set_slots(ReplicaId(id), Some(1)));
        let mut full: Vec<Picked> = (8..10).map(|other| bench.placed_for(&named(other), by(1))).collect();
        full.sort_by_key(|picked| picked.replica.0);
        let ticket = bench.queued_for(&named(1), by(1));
        bench.end(full.remove(waits_for).lease, Verdict::Success);
        let (granted, mut picked) = bench.grants().remove(0);
        assert_eq!((granted, picked.replica.0), (ticket, waits_for as u32));
        bench.pool.answered(bench.now, &mut picked.lease);
        bench.end(picked.lease, Verdict::Success);
        bench.end(full.remove(0).lease, Verdict::Success);
        assert_eq!(bench.pins(), (1, 0));
        for _ in 0..4 {
            bench.now = bench.now + seconds(1);
            assert_eq!(bench.turn(&named(1)).0, waits_for as u32);
        }
    }
}
