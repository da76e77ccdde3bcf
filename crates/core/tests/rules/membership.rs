//! Replicas that come, leave and come back.

use crate::bench::{Bench, healthy, request, seconds, session, spec, words};
use sluicegate_core::*;

fn ids(bench: &Bench) -> Vec<u32> {
    bench.pool.snapshot(bench.now).replicas.iter().map(|replica| replica.id.0).collect()
}

fn remove(bench: &mut Bench, id: u32) {
    bench.pool.remove(bench.now, &[ReplicaId(id)]);
}

fn add(bench: &mut Bench, name: &str) -> ReplicaId {
    bench.pool.add(bench.now, spec(name, Origin::Discovered))
}

#[test]
fn a_removed_replica_drains_and_is_gone_with_its_last_lease() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let first = bench.load(&[0]);
    let second = bench.load(&[0]);
    remove(&mut bench, 0);
    remove(&mut bench, 0);
    assert_eq!(words(&bench.take_effects(), false), ["draining(drained)"]);
    assert_eq!((bench.health(0), bench.snapshot(0).inflight), (Health::Draining, 2));
    (0..3).for_each(|_| assert_eq!(bench.turn(&request()).0, 1, "it takes nothing new"));
    first.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert_eq!(ids(&bench), [0, 1], "a lease is out");
    second.into_iter().for_each(|lease| bench.end(lease, Verdict::Refused));
    assert_eq!(ids(&bench), [1]);
    assert_eq!(words(&bench.take_effects(), false), ["removed"], "the last word about it");
}

#[test]
fn nothing_that_comes_late_touches_another_replica() {
    let mut bench = Bench::live(3, PoolSettings::default());
    remove(&mut bench, 0);
    let late = add(&mut bench, "r9");
    assert_eq!((late, ids(&bench)), (ReplicaId(3), vec![1, 2, 3]), "an id is never used again");
    bench.take_effects();
    bench.scrape(0, Scrape::Refused);
    bench.book(0, Verdict::Refused);
    bench.pool.canary(bench.now, ReplicaId(0), false);
    bench.pool.undrain(bench.now, ReplicaId(0));
    bench.pool.set_slots(ReplicaId(0), Some(1));
    assert!(bench.take_effects().is_empty());
    let bound = PickRequest { only: Some(ReplicaId(0)), ..request() };
    assert_eq!(bench.pool.pick(bench.now, &bound), Err(NoReplica::NoneKnown));
    let tried = PickRequest { tried: &[ReplicaId(0), ReplicaId(1)], ..request() };
    assert_eq!(bench.turn(&tried).0, 2);
}

#[test]
fn a_pin_to_a_removed_replica_is_dead_and_others_stay() {
    let mut bench = Bench::live(3, PoolSettings::default());
    let homes: Vec<u32> = (0..6).map(|key| bench.turn(&session(key)).0).collect();
    assert_eq!(bench.pins(), (6, 0));
    remove(&mut bench, 1);
    assert_eq!(bench.pins(), (4, 0));
    for (key, home) in (0..6).zip(homes) {
        let (now_at, reason, _) = bench.turn(&session(key));
        assert_eq!(now_at == home, home != 1, "session {key}");
        assert_eq!(reason == Reason::AffinitySession, home != 1, "session {key}");
    }
}

#[test]
fn turns_go_on_where_they_were() {
    for removed in 0..4 {
        let mut bench = Bench::live(4, PoolSettings::default());
        (1..3).for_each(|id| assert_eq!(bench.turn(&request()).0, id));
        remove(&mut bench, removed);
        let turns: Vec<u32> = (0..4).map(|_| bench.turn(&request()).0).collect();
        let expected: Vec<u32> = (3..9).map(|n| n % 4).filter(|id| *id != removed).take(4).collect();
        assert_eq!(turns, expected, "after {removed} has left");
    }
}

#[test]
fn one_that_comes_back_while_it_leaves_stays_what_it_was() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let running = bench.load(&[0]);
    remove(&mut bench, 0);
    assert_eq!(add(&mut bench, "r0"), ReplicaId(0));
    assert_eq!(bench.health(0), Health::Starting);
    bench.scrape(0, healthy(1, 0));
    running.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert_eq!((ids(&bench), bench.health(0)), (vec![0, 1], Health::Live), "known since start-up");
}

/// Two LIVE replicas, and a list that has neither of them and a new one instead.
fn replaced() -> Bench {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.pool.add(bench.now, spec("new", Origin::Startup));
    assert_eq!(bench.pool.remove(bench.now, &[ReplicaId(0), ReplicaId(1)]), 2);
    assert!([0, 1].iter().all(|id| bench.snapshot(*id).outgoing && bench.health(*id) == Health::Live));
    bench.take_effects();
    bench
}

#[test]
fn a_list_without_any_of_the_old_ones_leaves_them_in_service_until_a_new_one_is_live() {
    let mut bench = replaced();
    let sent: Vec<u32> = (0..4).map(|_| bench.turn(&request()).0).collect();
    assert_eq!(sent, [1, 0, 1, 0], "as before");
    bench.scrape(2, Scrape::Loading);
    assert_eq!(ids(&bench), [0, 1, 2]);
    let running = bench.load(&[0]);
    bench.take_effects();
    bench.scrape(2, healthy(0, 0));
    assert_eq!((ids(&bench), bench.health(0)), (vec![0, 2], Health::Draining));
    let told = words(&bench.take_effects(), false);
    assert_eq!(told, ["live(first_scrape)", "draining(drained)", "draining(drained)", "removed"]);
    running.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert_eq!(ids(&bench), [2]);
}

#[test]
fn an_old_one_that_dies_while_it_waits_to_be_relieved_is_gone() {
    let mut bench = replaced();
    bench.scrape(0, Scrape::Refused);
    assert_eq!(ids(&bench), [1, 2]);
    bench.scrape(1, Scrape::Refused);
    assert_eq!(ids(&bench), [2], "dead is dead, also where nobody is left");
    assert_eq!(bench.pool.pick(bench.now, &request()), Err(NoReplica::NotReady));
}

#[test]
fn an_old_one_that_waits_to_be_relieved_takes_an_administrators_word() {
    let mut bench = replaced();
    bench.pool.drain(bench.now, ReplicaId(0));
    assert_eq!(ids(&bench), [1, 2]);
}

#[test]
fn an_old_one_that_is_listed_again_has_never_left() {
    let mut bench = replaced();
    assert_eq!(add(&mut bench, "r0"), ReplicaId(0));
    assert_eq!((ids(&bench), bench.health(0)), (vec![0, 2], Health::Live), "and relieves the other");
    assert!(!bench.snapshot(0).outgoing);
}

#[test]
fn nobody_waits_for_others_where_none_stays() {
    let mut bench = Bench::live(2, PoolSettings::default());
    assert_eq!(bench.pool.remove(bench.now, &[ReplicaId(0), ReplicaId(1)]), 0);
    assert_eq!(ids(&bench), Vec::<u32>::new());
}

#[test]
fn an_administrators_drain_outlives_a_removal_that_was_taken_back() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let running = bench.load(&[0]);
    bench.pool.drain(bench.now, ReplicaId(0));
    remove(&mut bench, 0);
    assert_eq!(add(&mut bench, "r0"), ReplicaId(0));
    assert_eq!(bench.health(0), Health::Draining);
    running.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    bench.pool.undrain(bench.now, ReplicaId(0));
    assert_eq!(bench.health(0), Health::Starting);
}

#[test]
fn one_that_comes_back_keeps_its_health_history() {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.book(0, Verdict::Refused);
    let cooldown = bench.snapshot(0).cooldown_left.expect("it cools down");
    remove(&mut bench, 0);
    let back = add(&mut bench, "r0").0;
    assert_eq!((back, bench.health(back)), (2, Health::Starting));
    assert_eq!((bench.snapshot(back).streak, bench.snapshot(back).ejections), (1, 1));
    bench.scrape(back, healthy(0, 0));
    assert_eq!(bench.health(back), Health::Starting, "its cooldown runs");
    bench.now = bench.now + cooldown;
    bench.scrape(back, healthy(0, 0));
    assert_eq!(bench.health(back), Health::Probing, "no cold burst");
    bench.book(back, Verdict::Refused);
    assert_eq!(bench.snapshot(back).streak, 2, "it flaps");
}

#[test]
fn the_history_of_a_thousand_gone_replicas_is_kept() {
    let mut bench = Bench::live(1, PoolSettings::default());
    let eject_and_remove = |bench: &mut Bench, name: &str| {
        let id = add(bench, name).0;
        bench.scrape(id, healthy(0, 0));
        bench.book(id, Verdict::Refused);
        remove(bench, id);
    };
    (0..1001).for_each(|n| eject_and_remove(&mut bench, &format!("gone{n}")));
    let streak = |bench: &mut Bench, name: &str| {
        let id = add(bench, name).0;
        bench.snapshot(id).streak
    };
    assert_eq!(streak(&mut bench, "gone0"), 0, "the one gone longest is forgotten");
    assert_eq!(streak(&mut bench, "gone1"), 1);
    assert_eq!(streak(&mut bench, "gone1000"), 1);
}

#[test]
fn those_who_wait_for_a_removed_replica_alone_are_told() {
    let mut bench = Bench::live(1, PoolSettings::default());
    bench.pool.set_slots(ReplicaId(0), Some(1));
    let running = bench.load(&[0]);
    let limits = QueueLimits { max_length: 10, max_wait: seconds(60) };
    let waiting = Waiting { key: KeyIndex(0), route: RouteIndex(0), priority: 0, cost_tokens: 1, limits };
    let Admission::Queued(ticket) = bench.pool.admit(bench.now, &request(), waiting) else {
        panic!("its slot is taken")
    };
    bench.take_effects();
    remove(&mut bench, 0);
    let told = bench.take_effects();
    let why = Denial::NoReplica(NoReplica::NotReady);
    assert!(told.contains(&Effect::Denied { ticket, why }), "{told:?}");
    running.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
    assert!(ids(&bench).is_empty());
    assert_eq!(bench.pool.pick(bench.now, &request()), Err(NoReplica::NoneKnown));
}
