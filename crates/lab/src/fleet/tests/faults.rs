//! Faults in virtual time. That they have the consequences that they have over HTTP is held by a test of the whole gateway.

use super::*;
use sluicegate_core::{Health, Scrape};

fn seconds(seconds: u64) -> Time {
    ms(seconds * 1_000)
}

fn with(fault: FaultSpec, replicas: usize) -> Fleet<Gateway> {
    let mut fleet = fleet_of(replicas, None);
    fleet.change(seconds(1), ReplicaId(0), Some(fault));
    fleet
}

fn outcomes(fleet: &mut Fleet<Gateway>, until: Time) -> Vec<Outcome> {
    records(&all(fleet, until)).iter().map(|record| record.outcome).collect()
}

#[test]
fn what_hangs_is_answered_when_the_fault_ends() {
    let mut fleet = with(FaultSpec::from(Fault::Hang).lasting(Duration::from_secs(10)), 1);
    fleet.submit(Job::unique(seconds(2), 40, 2));
    let records = records(&all(&mut fleet, seconds(60)));
    assert_eq!((records[0].outcome, records[0].first_byte), (Outcome::Ok, Some(ms(11_050))));
    check_nothing_left(&fleet);
}

#[test]
fn a_fault_befalls_the_next_requests_or_a_share_of_them() {
    let mut fleet = with(FaultSpec::from(Fault::Status(501)).next(2), 1);
    for at in 2..6 {
        fleet.submit(Job::unique(seconds(at), 40, 2));
    }
    let (ok, failed) = (Outcome::Ok, Outcome::UpstreamError);
    assert_eq!(outcomes(&mut fleet, seconds(60)), [failed, failed, ok, ok]);

    let mut fleet = with(FaultSpec::from(Fault::Status(501)).share(0.5), 1);
    for at in 2..202 {
        fleet.submit(Job::unique(seconds(at), 40, 2));
    }
    let outcomes = outcomes(&mut fleet, seconds(600));
    let failed = outcomes.iter().filter(|outcome| **outcome == failed).count();
    assert!((70..130).contains(&failed), "{failed} of 200");
}

#[test]
fn the_time_of_a_fault_does_not_end_the_one_that_took_its_place() {
    let mut fleet = with(FaultSpec::from(Fault::Dead).lasting(Duration::from_secs(10)), 1);
    fleet.change(seconds(5), ReplicaId(0), Some(Fault::Frozen.into()));
    all(&mut fleet, seconds(20));
    assert_eq!(fleet.hosts()[0].fault(), Some(Fault::Frozen));
    fleet.change(seconds(20), ReplicaId(0), None);
    all(&mut fleet, seconds(21));
    assert_eq!(fleet.hosts()[0].fault(), None);
}

#[test]
fn a_slow_health_is_late_and_beyond_the_limit_of_a_scrape_it_is_none() {
    for (delay, health) in [(1_900, Health::Live), (2_100, Health::Ejected)] {
        let mut fleet = with(Fault::SlowHealth(Duration::from_millis(delay)).into(), 1);
        all(&mut fleet, seconds(20));
        let snapshot = fleet.decider().pool().snapshot(fleet.now());
        assert_eq!(snapshot.replicas[0].health, health, "{delay} ms");
    }
}

#[test]
fn a_flapping_replica_is_there_and_gone_by_turns_with_an_empty_cache_each_time() {
    let (alive, dead) = (Duration::from_secs(10), Duration::from_secs(5));
    let mut fleet = with(FaultSpec::from(Fault::Flap { alive, dead }).lasting(Duration::from_secs(32)), 1);
    fleet.submit(Job { blocks: [1, 2].into(), ..Job::unique(seconds(2), 40, 4) });
    let mut seen = Vec::new();
    for at in [10, 12, 17, 25, 27, 32, 34] {
        all(&mut fleet, seconds(at));
        let host = &fleet.hosts()[0];
        seen.push((at, host.scrape() != Scrape::Refused, host.engine().cached_blocks(&[1, 2])));
    }
    let (there, gone) = (true, false);
    let expected = [
        (10, there, 2),
        (12, gone, 0),
        (17, there, 0),
        (25, there, 0),
        (27, gone, 0),
        (32, there, 0),
        (34, there, 0),
    ];
    assert_eq!(seen, expected);
    assert_eq!(fleet.hosts()[0].fault(), None);
}
