//! The guarantees about sessions and prefixes in the affinity mode `consistent`, which keeps no table.

use crate::bench::{Bench, healthy, prefix, request, seconds, session};
use sluicegate_core::*;
use std::collections::VecDeque;

const REPLICAS: usize = 4;

fn bench() -> Bench {
    let mut settings = PoolSettings::default();
    settings.affinity.mode = AffinityMode::Consistent;
    Bench::live(REPLICAS, settings)
}

/// Where each of `requests` goes, one every 300 ms, each open for as long as `open` others come after it.
fn arrivals(
    bench: &mut Bench,
    requests: impl Iterator<Item = PickRequest<'static>>,
    open: usize,
) -> Vec<u32> {
    let mut running = VecDeque::new();
    let mut at = Vec::new();
    for asked in requests {
        let picked = bench.serve(&asked);
        at.push(picked.replica.0);
        running.push_back(picked.lease);
        if running.len() > open {
            running.pop_front().into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
        }
        bench.now = bench.now + std::time::Duration::from_millis(300);
    }
    running.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    at
}

#[test]
fn g7_the_turns_of_a_session_find_its_replica_under_light_load() {
    let mut bench = bench();
    let turns = (0..20).flat_map(|_| (0..30).map(session));
    let at = arrivals(&mut bench, turns, 1);
    let warm = (30..600).filter(|turn| at[*turn] == at[turn % 30]).count();
    assert!(warm * 100 >= 570 * 95, "{warm} of 570 turns after the first");
}

#[test]
fn g8_a_session_leaves_an_overloaded_owner_at_once_and_comes_back() {
    let mut bench = bench();
    for key in 0..20 {
        let home = bench.turn(&session(key)).0;
        let others = bench.load(&[home, home]);
        let (away, _, spilled) = bench.turn(&session(key));
        assert!(away != home && spilled, "two above the least loaded: left at once");
        others.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
        assert_eq!(bench.turn(&session(key)).0, home);
    }
}

#[test]
fn g9_new_sessions_with_one_system_prompt_are_spread() {
    let with_prompt = |key| PickRequest { prefix: Some(1), ..session(key) };
    for open in [8, 24] {
        let mut bench = bench();
        let at = arrivals(&mut bench, (0..200).map(with_prompt), open);
        for id in 0..REPLICAS as u32 {
            let own = at.iter().filter(|at| **at == id).count();
            assert!((40..=60).contains(&own), "{own} of 200 at {id}, {open} open");
        }
    }
}

#[test]
fn g10_there_is_nothing_to_die_and_a_dead_owner_is_not_used() {
    let mut bench = bench();
    let home = bench.turn(&session(1)).0;
    bench.turn(&prefix(1));
    assert_eq!(bench.pins(), (0, 0));
    bench.pass_with(seconds(61 * 60), |_, _| Some(healthy(0, 0)));
    assert_eq!(bench.turn(&session(1)).0, home, "an hour is nothing to a hash");
    bench.book(home, Verdict::Refused);
    assert!((0..8).all(|_| bench.turn(&session(1)).0 != home));
    assert!((0..8).all(|_| bench.turn(&request()).0 != home));
    assert_eq!(bench.pins(), (0, 0));
}
