//! The whole of it on synthetic traffic.

use super::*;
use crate::fleet::Outcome;
use crate::rng::SeededRng;

/// Talks that grow turn by turn, arriving at random, `rate` requests a second.
fn traffic(seed: u64, requests: usize, rate: f64) -> Vec<Job> {
    let mut rng = SeededRng::new(seed);
    let mut talks: Vec<Vec<u64>> = Vec::new();
    let (mut now, mut sessions) = (0.0, Sessions::default());
    let job = |_| {
        now += rng.exponential(1.0 / rate);
        let grown = rng.chance(0.5).then(|| rng.below(talks.len() as u64) as usize);
        let mut ids = grown.and_then(|at| talks.get(at).cloned()).unwrap_or_else(|| vec![0]);
        ids.extend((0..=rng.below(20)).map(|_| rng.next_u64()));
        talks.push(ids.clone());
        let blocks = chained(&ids);
        let prompt = blocks.len() as u32 * 512 + rng.below(512) as u32;
        let session = sessions.of(&blocks);
        let arrives = Time::ZERO + Duration::from_secs_f64(now);
        Job {
            prefix: blocks.first().copied(),
            blocks: blocks.into(),
            session,
            ..Job::unique(arrives, prompt, rng.below(300) as u32)
        }
    };
    (0..requests).map(job).collect()
}

/// Few slots.
fn given() -> Given {
    Given { slots: 4, ..Given::of(&Profile::h100()) }
}

#[test]
fn every_policy_serves_everything_and_the_same_seed_is_the_same_run() {
    let settings = settings(3, Profile::h100());
    let jobs = at_speed(&traffic(1, 150, 5.0), 1.0);
    for policy in Policy::ALL {
        let play = || run(&settings, policy.decider(&settings, given(), 9), &jobs, |_| {});
        let first = play();
        let summary = Summary::of(&first);
        assert_eq!((summary.ok, first.records.len()), (jobs.len(), jobs.len()), "{}", policy.name());
        assert!(summary.ttft.mean > 0.0 && summary.total.mean > summary.ttft.mean);
        assert!(summary.ttft.p50 <= summary.ttft.p95 && summary.ttft.p95 <= summary.ttft.p99);
        assert_eq!(first, play(), "{}", policy.name());
    }
}

#[test]
fn at_light_load_the_first_byte_takes_as_long_as_the_prefill() {
    let profile = Profile::h100();
    let settings = settings(4, profile.clone());
    let jobs = at_speed(&traffic(2, 60, 0.02), 1.0);
    for policy in [Policy::RoundRobin, Policy::Adaptive, Policy::Oracle] {
        let run = run(&settings, policy.decider(&settings, given(), 9), &jobs, |_| {});
        for record in &run.records {
            let cold = record.prompt_tokens - record.cached_tokens;
            let steps = cold.div_ceil(profile.max_num_batched_tokens);
            let work = Duration::from_nanos(profile.cost.prefill_ns(cold, record.cached_tokens) as u64);
            let expected = profile.cost.base * steps + work;
            let ttft = record.ttft().unwrap();
            assert!(ttft.abs_diff(expected) < Duration::from_micros(1), "{ttft:?} {expected:?}");
        }
    }
}

#[test]
fn late_binding_brings_first_bytes_forward_where_there_are_queues_and_loses_nobody() {
    let jobs = traffic(5, 1_000, 5.0);
    let settings = settings(2, Profile::h100());
    let jobs = at_speed(&jobs, capacity(&settings, &jobs).speed * 0.9);
    let ttft = |policy: Policy| {
        let run = run(&settings, policy.decider(&settings, given(), 1), &jobs, |_| {});
        assert!(run.records.iter().all(|record| record.outcome == Outcome::Ok), "{}", policy.name());
        assert_eq!(run.records.len(), jobs.len());
        Summary::of(&run).ttft.mean
    };
    let (at_once, held) = (ttft(Policy::Predictive), ttft(Policy::PredictiveHold));
    assert!(held < at_once * 0.95, "{held} held back, {at_once} at once");
}

#[test]
fn capacity_grows_with_the_fleet_and_loads_it() {
    let jobs = traffic(3, 1_500, 5.0);
    let rate = |replicas| capacity(&settings(replicas, Profile::h100()), &jobs).requests_per_second;
    let (two, four) = (rate(2), rate(4));
    assert!((1.5..2.7).contains(&(four / two)), "{two} {four}");
    let settings = settings(4, Profile::h100());
    let capacity = capacity(&settings, &jobs);
    let ttft = |load: f64| {
        let jobs = at_speed(&jobs, capacity.speed * load);
        let run = run(&settings, Policy::RoundRobin.decider(&settings, given(), 1), &jobs, |_| {});
        assert!(run.records.iter().all(|record| record.outcome == Outcome::Ok));
        Summary::of(&run).ttft.mean
    };
    assert!(ttft(0.5) * 2.0 < ttft(1.0) && ttft(1.0) * 2.0 < ttft(1.6));
}

#[test]
fn speed_moves_arrivals_and_nothing_else() {
    let jobs = traffic(4, 5, 1.0);
    let fast = at_speed(&jobs, 2.0);
    let gaps = |jobs: &[Job]| jobs[4].arrives.since(jobs[0].arrives).as_secs_f64();
    assert!((gaps(&jobs) / gaps(&fast) - 2.0).abs() < 1e-6);
    assert_eq!((fast[0].arrives, fast[3].prompt_tokens), (WARM_UP, jobs[3].prompt_tokens));
}
