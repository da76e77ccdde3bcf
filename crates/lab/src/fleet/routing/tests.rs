//! Several pools and routes in one fleet.

use super::*;
use crate::engine::Profile;
use crate::fleet::tests::ms;
use crate::fleet::{Decider, Fallback, Fleet, Gateway, Happening, Job, Limits, Outcome, Record, Settings};
use sluicegate_core::{RouteIndex, Shares};
use std::time::Duration;

fn plain(block_tokens: u32) -> Profile {
    Profile { block_tokens, kv_blocks: 100, ..crate::fleet::tests::plain() }
}

fn pool(replicas: usize, slots: Option<u32>) -> PoolPart {
    PoolPart { settings: PoolSettings::default(), replicas, slots, scraped: true }
}

fn route(targets: &[usize], fallback: Option<usize>) -> RoutePart {
    let queue = QueueLimits { max_length: 1, max_wait: Duration::from_secs(2) };
    RoutePart { choosing: Choosing::Adaptive, targets: targets.to_vec(), fallback, queue }
}

fn fleet(pools: Vec<PoolPart>, routes: Vec<RoutePart>, on: Fallback) -> Fleet<Gateway> {
    let limits = |route: &RoutePart| Limits { fallback: route.fallback.map(|_| on), ..Limits::default() };
    let settings = Settings {
        replicas: pools.iter().map(|pool| pool.replicas).sum(),
        profile: plain(16),
        routes: routes.iter().map(limits).collect(),
        ..Settings::default()
    };
    let gateway = Gateway::of(pools, routes, &settings, 1);
    Fleet::new(settings, gateway)
}

/// What becomes of the jobs, in their order. Nothing is left behind.
fn played(mut fleet: Fleet<Gateway>, jobs: impl IntoIterator<Item = Job>) -> Vec<Record> {
    for job in jobs {
        fleet.submit(job);
    }
    let mut records: Vec<Record> = std::iter::from_fn(|| fleet.next(ms(200_000)))
        .filter_map(|happening| match happening {
            Happening::Ended(record) => Some(record),
            _ => None,
        })
        .collect();
    records.sort_by_key(|record| record.job);
    assert_eq!((fleet.open(), fleet.decider().held()), (0, (0, 0)));
    assert!(fleet.hosts().iter().all(|host| host.inflight() == 0));
    records
}

fn replica_of(record: &Record) -> Option<u32> {
    record.replica.map(|replica| replica.0)
}

const NOT_ON_STATUS: Fallback = Fallback { on_4xx: false, on_5xx: false };

#[test]
fn each_request_goes_to_a_pool_of_its_own_route() {
    let routes = vec![route(&[0], None), route(&[1], None), route(&[0, 1], None)];
    let jobs = (0..90)
        .map(|i| Job { route: RouteIndex(i % 3), ..Job::unique(ms(5_000 + 500 * u64::from(i)), 20, 2) });
    let records = played(fleet(vec![pool(2, None), pool(1, None)], routes, NOT_ON_STATUS), jobs);
    for record in &records {
        let (replica, route) = (replica_of(record).unwrap(), record.job.0 % 3);
        assert!(
            match route {
                0 => replica < 2,
                1 => replica == 2,
                _ => true,
            },
            "{route} {replica}"
        );
    }
    let of_both =
        |replica| records.iter().filter(|r| r.job.0 % 3 == 2 && replica_of(r) == Some(replica)).count();
    assert!((0..3).all(|replica| of_both(replica) > 0), "the third has all replicas to choose among");
}

#[test]
fn shares_of_targets_hold_whatever_the_pools_sizes() {
    let shares = Choosing::Weighted(Shares::new(vec![100, 300]).unwrap());
    let routes = vec![RoutePart { choosing: shares, ..route(&[0, 1], None) }];
    let jobs = (0..400).map(|i| Job::unique(ms(5_000 + 10 * i), 20, 2));
    let records = played(fleet(vec![pool(3, None), pool(1, None)], routes, NOT_ON_STATUS), jobs);
    assert_eq!(records.iter().filter(|record| replica_of(record) == Some(3)).count(), 300);
    assert!(records.iter().all(|record| record.reason == "weighted"));
}

#[test]
fn a_request_that_waits_in_two_pools_takes_one_slot_and_leaves_no_place_behind() {
    // Both slots come free in the same moment, for the only one that waits.
    let jobs = [(5_000, 40), (5_000, 40), (5_010, 40), (6_000, 40), (6_000, 40)];
    let jobs = jobs.map(|(at, prompt)| Job::unique(ms(at), prompt, 3));
    let pools = vec![pool(1, Some(1)), pool(1, Some(1))];
    let records = played(fleet(pools, vec![route(&[0, 1], None)], NOT_ON_STATUS), jobs);
    assert!(records.iter().all(|record| record.outcome == Outcome::Ok));
    assert_eq!(records[2].queued, Duration::from_millis(60));
    assert!(records[3..].iter().all(|record| record.queued.is_zero()), "both slots are free again");
}

#[test]
fn the_fallback_takes_what_finds_no_place_or_waits_too_long() {
    let routes = vec![route(&[0], Some(1))];
    // The first has the slot for ten seconds, the second waits for two, the third finds the queue full.
    let jobs = [(5_000, 1_000), (5_010, 5), (5_020, 5)].map(|(at, output)| Job::unique(ms(at), 20, output));
    let pools = vec![pool(1, Some(1)), pool(1, None)];
    let records = played(fleet(pools, routes, NOT_ON_STATUS), jobs);
    let seen: Vec<_> = records.iter().map(|r| (replica_of(r), r.reason, r.sent, r.outcome)).collect();
    assert_eq!(seen[0], (Some(0), "load", Some(ms(5_000)), Outcome::Ok));
    assert_eq!(seen[1], (Some(1), "fallback", Some(ms(7_010)), Outcome::Ok));
    assert_eq!(seen[2], (Some(1), "fallback", Some(ms(5_020)), Outcome::Ok));
    assert_eq!(records[1].queued, Duration::from_secs(2));
}

#[test]
fn where_the_fallback_has_no_place_either_the_first_refusal_stands() {
    let routes = vec![route(&[0], Some(1))];
    let jobs = [5_000, 5_010, 5_020].map(|at| Job::unique(ms(at), 20, 1_000));
    let pools = vec![pool(1, Some(1)), pool(0, None)];
    let records = played(fleet(pools, routes, NOT_ON_STATUS), jobs);
    let outcomes: Vec<_> = records.iter().map(|record| record.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::RejectedQueue, Outcome::RejectedQueue]);
    assert_eq!(replica_of(&records[2]), None);
}

#[test]
fn the_fallback_takes_an_answer_of_a_class_that_it_is_for() {
    let rows = [
        (NOT_ON_STATUS, 0, Outcome::ClientError),
        (Fallback { on_4xx: true, on_5xx: false }, 1, Outcome::Ok),
    ];
    for (on, replica, outcome) in rows {
        let mut fleet = fleet(vec![pool(1, None), pool(1, None)], vec![route(&[0], Some(1))], on);
        fleet.change(ms(0), ReplicaId(0), Some(crate::fault::Fault::Status(404).into()));
        let records = played(fleet, [Job::unique(ms(5_000), 20, 2)]);
        assert_eq!((replica_of(&records[0]), records[0].outcome), (Some(replica), outcome));
    }
}

#[test]
fn a_classes_requests_wait_before_those_of_lower_ones() {
    let queue = QueueLimits { max_length: 9, max_wait: Duration::from_secs(60) };
    let routes = vec![RoutePart { queue, ..route(&[0], None) }];
    let jobs = [(5_000, 0), (5_001, 0), (5_002, 5)];
    let jobs = jobs.map(|(at, priority)| Job { priority, ..Job::unique(ms(at), 40, 2) });
    let records = played(fleet(vec![pool(1, Some(1))], routes, NOT_ON_STATUS), jobs);
    assert!(records[2].sent < records[1].sent);
}

#[test]
fn blocks_of_different_sizes_find_what_they_hold() {
    let settings = Settings { replicas: 2, profiles: vec![plain(16), plain(48)], ..Settings::default() };
    assert_eq!(settings.block_tokens(), 16);
    let gateway = Gateway::of(
        vec![pool(1, None), pool(1, None)],
        vec![route(&[0], None), route(&[1], None)],
        &settings,
        1,
    );
    let job = |at, route| Job {
        blocks: (1..=6).collect(),
        route: RouteIndex(route),
        ..Job::unique(ms(at), 100, 4)
    };
    let jobs = [job(5_000, 0), job(5_000, 1), job(9_000, 0), job(9_000, 1)];
    let records = played(Fleet::new(settings, gateway), jobs);
    let cached: Vec<u32> = records.iter().map(|record| record.cached_tokens).collect();
    assert_eq!(cached, [0, 0, 96, 96]);
}

#[test]
fn a_gateways_deadline_is_that_of_its_pool_that_is_first() {
    let settings = Settings { replicas: 2, ..Settings::default() };
    let routes = vec![route(&[0], None), route(&[1], None)];
    let both = Gateway::of(vec![pool(1, None), pool(1, None)], routes, &settings, 1);
    let alone =
        |seed| Gateway::of(vec![pool(1, None)], vec![route(&[0], None)], &settings, seed).next_deadline();
    assert_eq!(both.next_deadline(), alone(1).min(alone(2)));
}
