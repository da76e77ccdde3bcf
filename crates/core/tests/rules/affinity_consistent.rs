//! Mode `consistent`: no table, the same choice at every gateway.

use crate::bench::{Bench, healthy, prefix, request, session, spec};
use sluicegate_core::*;

fn settings() -> PoolSettings {
    let mut settings = PoolSettings::default();
    settings.affinity.mode = AffinityMode::Consistent;
    settings
}

fn owner(bench: &mut Bench, key: u64) -> u32 {
    let (id, reason, spilled) = bench.turn(&session(key));
    assert_eq!((reason, spilled), (Reason::AffinitySession, false));
    id
}

#[test]
fn every_gateway_picks_the_same_replica_whatever_the_order_and_the_seed() {
    let names = ["http://a:8000", "http://b:8000", "http://c:8000", "http://d:8000"];
    let gateway = |seed: u64, order: &[usize]| -> Vec<String> {
        let mut pool = Pool::new(settings(), seed);
        for index in order {
            let spec = ReplicaSpec { slots: Some(9), ..spec(names[*index], Origin::Startup) };
            let id = pool.add(Time::ZERO, spec);
            pool.scraped(Time::ZERO, id, healthy(0, 0), None);
        }
        (0..64)
            .map(|key| {
                let picked = pool.pick(Time::ZERO, &session(key)).expect("LIVE");
                let name = names[order[picked.replica.0 as usize]].to_owned();
                pool.release(Time::ZERO, picked.lease, Verdict::Success, None);
                name
            })
            .collect()
    };
    let one = gateway(1, &[0, 1, 2, 3]);
    assert_eq!(one, gateway(99, &[2, 0, 3, 1]));
    assert!(names.iter().all(|name| one.iter().any(|picked| picked == name)), "all take part");
}

#[test]
fn an_unusable_owner_is_left_at_once_for_that_request() {
    for key in 0..16 {
        let mut bench = Bench::live(4, settings());
        let home = owner(&mut bench, key);
        bench.scrape(home, healthy(2, 0));
        let (next, reason, spilled) = bench.turn(&session(key));
        assert_eq!((reason, spilled), (Reason::AffinitySession, true));
        assert_ne!(next, home);
        bench.scrape(next, healthy(0, 1));
        let (third, ..) = bench.turn(&session(key));
        assert!(third != home && third != next, "next in order, not in turn");
        assert_eq!(bench.turn(&session(key)).0, third);
        bench.scrape(home, healthy(1, 0));
        assert_eq!(owner(&mut bench, key), home, "within the slack again");
        bench.book(home, Verdict::Refused);
        bench.scrape(next, healthy(0, 0));
        assert_eq!(owner(&mut bench, key), next, "a dead owner hands on to the next");
        assert_eq!(bench.pins(), (0, 0));
    }
}

#[test]
fn when_nobody_passes_the_test_the_least_loaded_takes_it() {
    let mut bench = Bench::live(3, settings());
    let home = owner(&mut bench, 5);
    (0..3).for_each(|id| bench.scrape(id, healthy(if id == home { 9 } else { 4 }, 1)));
    let (id, reason, spilled) = bench.turn(&session(5));
    assert_eq!((id != home, reason, spilled), (true, Reason::Load, true));
}

#[test]
fn a_tried_owner_is_passed_over() {
    let mut bench = Bench::live(3, settings());
    let home = owner(&mut bench, 5);
    let tried = [ReplicaId(home)];
    let (id, _, spilled) = bench.turn(&PickRequest { tried: &tried, ..session(5) });
    assert!(id != home && spilled);
}

#[test]
fn the_prefix_counts_without_a_session_and_has_its_own_slack() {
    let mut bench = Bench::live(3, settings());
    let (home, reason, _) = bench.turn(&prefix(5));
    assert_eq!(reason, Reason::AffinityPrefix);
    bench.scrape(home, healthy(1, 0));
    assert_ne!(bench.turn(&prefix(5)).0, home, "slack 0");
    let by_session = owner(&mut bench, 77);
    let both = PickRequest { prefix: Some(5), ..session(77) };
    assert_eq!(bench.turn(&both).0, by_session);
    assert_eq!(bench.turn(&request()).1, Reason::Load);
}

#[test]
fn a_talk_s_first_turn_goes_where_its_later_turns_will_look() {
    for hash in 0..8 {
        let mut bench = Bench::live(4, settings());
        let turn =
            |continued| PickRequest { session: Some(Session::Conversation { hash, continued }), ..request() };
        let (first, ..) = bench.turn(&turn(false));
        assert_eq!(bench.turn(&turn(true)), (first, Reason::AffinitySession, false));
    }
}
