//! What each rival is known for, on a small fleet.

use super::*;
use crate::engine::Profile;
use crate::fleet::{Fleet, Happening, Job, Record, Settings};
use crate::rng::SeededRng;
use sluicegate_core::KeyIndex;

const BLOCK: u32 = 512;

fn at(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

fn run(rival: impl Rival, replicas: usize, jobs: Vec<Job>) -> Vec<Record> {
    let settings = Settings { replicas, profile: Profile::h100(), ..Settings::default() };
    let mut fleet = Fleet::new(settings, Bench::new(rival, replicas));
    let expected = jobs.len();
    for job in jobs {
        fleet.submit(job);
    }
    let mut records = Vec::new();
    while let Some(happening) = fleet.next(at(100_000.0)) {
        if let Happening::Ended(record) = happening {
            records.push(record);
        }
    }
    assert_eq!((records.len(), fleet.open()), (expected, 0));
    assert_eq!(fleet.decider().books.inflight(), 0);
    records.sort_by_key(|record| record.job);
    records
}

fn places(records: &[Record]) -> Vec<u32> {
    records.iter().map(|record| record.replica.unwrap().0).collect()
}

fn talk(seconds: f64, session: u64, tokens: u32) -> Job {
    let blocks = (0..u64::from(tokens / BLOCK)).map(|block| session * 1_000 + block).collect();
    let session = Some(Session::Explicit(session));
    Job { blocks, session, key: KeyIndex(0), ..Job::unique(at(seconds), tokens, 20) }
}

#[test]
fn round_robin_goes_round() {
    let jobs = (0..7).map(|i| talk(f64::from(i), 1, 600)).collect();
    assert_eq!(places(&run(RoundRobin::default(), 3, jobs)), [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn least_connections_avoids_who_is_busy() {
    let mut jobs = vec![Job::unique(at(1.0), 1_000, 9_000)];
    jobs.extend((0..4).map(|i| talk(2.0 + f64::from(i) * 9.0, 1, 600)));
    let places = places(&run(LeastConnections::default(), 3, jobs));
    assert!(places[1..].iter().all(|place| *place != places[0]), "{places:?}");
}

#[test]
fn least_prefill_lets_a_decoding_replica_take_more() {
    let jobs = vec![talk(1.0, 1, 1_000), talk(1.001, 2, 40_000), talk(1.1, 3, 1_000), talk(1.101, 4, 1_000)];
    let places = places(&run(LeastPrefill::default(), 2, jobs));
    assert_eq!([places[2], places[3]], [places[0]; 2], "the other one prefills for two seconds");
}

#[test]
fn power_of_two_never_takes_the_busiest_of_three() {
    let mut jobs = vec![Job::unique(at(1.0), 1_000, 9_000)];
    jobs.extend((0..40).map(|i| talk(2.0 + f64::from(i), 1, 600)));
    let places = places(&run(PowerOfTwo::new(1), 3, jobs));
    assert!(places[1..].iter().all(|place| *place != places[0]), "{places:?}");
}

#[test]
fn a_session_hash_keeps_a_session_at_one_replica() {
    let jobs = (0..40).map(|i| talk(f64::from(i), u64::from(i as u32 % 10), 600)).collect();
    let places = places(&run(SessionHash::default(), 4, jobs));
    assert!((10..40).all(|i| places[i] == places[i - 10]));
    assert!((1..4).any(|i| places[i] != places[0]));
}

#[test]
fn a_bounded_hash_passes_a_full_replica_over() {
    let alone = (0..5).map(|i| talk(f64::from(i) * 10.0, 7, 600)).collect();
    let alone = places(&run(BoundedHash::new(4), 4, alone));
    assert!(alone.iter().all(|place| *place == alone[0]), "{alone:?}");
    let crowd: Vec<Job> = (0..40).map(|_| talk(1.0, 7, 600)).collect();
    let crowd = places(&run(BoundedHash::new(4), 4, crowd));
    let most = (0..4).map(|at| crowd.iter().filter(|place| **place == at).count()).max();
    assert!(most <= Some(13), "125 % of ten and the one itself: {most:?}");
}

#[test]
fn cache_aware_follows_a_known_prefix_and_spreads_the_unknown() {
    let mut jobs: Vec<Job> = (0..4).map(|i| talk(f64::from(i), i as u64, 5_120)).collect();
    jobs.extend((0..4).map(|i| talk(10.0 + f64::from(i), 3 - i as u64, 6_000)));
    let places = places(&run(CacheAware::new(4, BLOCK), 4, jobs));
    assert_eq!(places[4..], [places[3], places[2], places[1], places[0]]);
    assert_ne!(places[0], places[1]);
}

#[test]
fn old_numbers_herd_and_fresh_ones_do_not() {
    let largest_crowd = |freshness| {
        let mut jobs = vec![Job::unique(at(0.5), 300_000, 9_000)];
        // Long prompts at the same moment: KV use tells the replicas apart only where it is known at once.
        jobs.extend((0..12).map(|i| Job::unique(at(5.0 + f64::from(i) * 0.05), 60_000, 9)));
        let records = run(Scorers::new(4, 780, BLOCK, freshness, 1), 4, jobs);
        let places = places(&records);
        (0..4).map(|at| places[1..].iter().filter(|place| **place == at).count()).max().unwrap()
    };
    let (old, fresh) = (largest_crowd(Freshness::Scraped), largest_crowd(Freshness::Fresh));
    assert!(fresh <= 5 && old > fresh, "{fresh} fresh, {old} old");
}

#[test]
fn cost_rules_stay_where_it_is_warm_until_the_queue_costs_more() {
    let overlap = run(Overlap::new(BLOCK), 3, warm_then_crowd());
    let product = run(Product::new(3, 780, BLOCK), 3, warm_then_crowd());
    let oracle = run(Oracle::default(), 3, warm_then_crowd());
    for (name, records) in [("overlap", overlap), ("product", product), ("oracle", oracle)] {
        let places = places(&records);
        assert_eq!(places[1], places[0], "{name}: warm");
        let elsewhere = places[2..].iter().filter(|place| **place != places[0]).count();
        assert!(elsewhere >= 8, "{name}: {elsewhere} of 20 left the crowd");
    }
}

fn warm_then_crowd() -> Vec<Job> {
    let mut jobs = vec![talk(1.0, 1, 20_480), talk(20.0, 1, 21_000)];
    // They share what is warm, and each has half as much of its own.
    jobs.extend((0..20).map(|i| {
        let own = (0..20).map(|block| 100_000 + i * 100 + block);
        let blocks = (0..40).map(|block| 1_000 + block).chain(own).collect();
        Job { blocks, ..talk(40.0, 1, 31_000) }
    }));
    jobs
}

#[test]
fn the_same_seed_is_the_same_run() {
    let jobs = || {
        let mut rng = SeededRng::new(5);
        (0..200).map(|_| talk(rng.unit() * 60.0, rng.below(20), rng.below(9_000) as u32)).collect::<Vec<_>>()
    };
    assert_eq!(run(Random::new(3), 4, jobs()), run(Random::new(3), 4, jobs()));
    assert_ne!(run(Random::new(3), 4, jobs()), run(Random::new(4), 4, jobs()));
}
