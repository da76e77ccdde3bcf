//! What a decision takes of memory: nothing, once the pool has seen as much. Counted by the allocator.

use sluicegate_core::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Blocks of a prompt that shares its first `shared` with all others, and the next ones with those of its talk.
fn prompt(talk: u64, shared: usize, len: usize, blocks: &mut Vec<u64>) {
    blocks.clear();
    blocks.extend((0..len as u64).map(|at| if (at as usize) < shared { at + 1 } else { talk << 20 | at }));
}

/// A hundred requests, a tenth of a second apart, each answered and ended before the next: allocations made meanwhile.
fn a_hundred(pool: &mut Pool, now: &mut Time, talks: u64, blocks: &mut Vec<u64>) -> usize {
    let region = Region::new(ALLOCATOR);
    for turn in 0..100 {
        prompt(turn * 7 % talks, 4, 60, blocks);
        let prompt = Prompt { tokens: 15_000, blocks, block_tokens: 256, whole_answer: false };
        let request = PickRequest {
            weight: Weight(15_000),
            // More pins than the invariants of a debug build walk over, which allocates.
            session: (turn % 3 > 0).then_some(Session::Explicit(now.as_nanos())),
            prompt,
            mode: Mode::Predictive,
            ..PickRequest::default()
        };
        let mut picked = pool.pick(*now, &request).expect("all are LIVE");
        *now = *now + Duration::from_millis(100);
        pool.answered(*now, &mut picked.lease);
        pool.release(*now, picked.lease, Verdict::Success, None);
    }
    region.change().allocations
}

/// One test, since the allocator counts for all threads.
#[test]
fn no_decision_allocates() {
    a_choice_by_predicted_cost_allocates_nothing();
    a_choice_in_adaptive_mode_allocates_nothing();
    a_key_with_every_limit_allocates_nothing();
    what_a_pool_remembers_of_prompts_has_a_bound();
}

/// Four replicas, each with room for more prompts than a pool remembers, and three times as many prompts of a MiB.
fn what_a_pool_remembers_of_prompts_has_a_bound() {
    let region = Region::new(ALLOCATOR);
    let mut pool = live(4, PoolSettings { predict: true, ..PoolSettings::default() });
    let boundless = EngineLoad { kv_tokens: Some(1 << 40), ..EngineLoad::default() };
    (0..4).for_each(|id| {
        pool.scraped(Time::ZERO, ReplicaId(id), Scrape::Healthy { load: Some(boundless) }, None)
    });
    let (mut now, mut blocks) = (Time::ZERO, Vec::new());
    for talk in 0..3 << 10 {
        prompt(talk, 0, 1 << 10, &mut blocks);
        let prompt = Prompt { tokens: 1 << 18, blocks: &blocks, block_tokens: 256, whole_answer: false };
        let request = PickRequest { prompt, mode: Mode::Predictive, ..PickRequest::default() };
        now = now + Duration::from_secs(60);
        let picked = pool.pick(now, &request).expect("all are LIVE");
        pool.release(now, picked.lease, Verdict::Success, None);
    }
    let change = region.change();
    let held = (change.bytes_allocated as isize + change.bytes_reallocated
        - change.bytes_deallocated as isize)
        >> 20;
    assert!((8..128).contains(&held), "{held} MiB");
}

/// A pool of LIVE replicas.
fn live(replicas: usize, settings: PoolSettings) -> Pool {
    let mut pool = Pool::new(settings, 1);
    for index in 0..replicas {
        let spec = ReplicaSpec {
            name: format!("r{index}"),
            origin: Origin::Startup,
            scraped: true,
            slots: None,
            serves: Serves::All,
        };
        let id = pool.add(Time::ZERO, spec);
        pool.scraped(Time::ZERO, id, Scrape::Healthy { load: None }, None);
    }
    while pool.poll_effect().is_some() {}
    pool
}

/// Mode `predictive`, its mirrors full.
fn a_choice_by_predicted_cost_allocates_nothing() {
    for replicas in [4, 200] {
        let settings = PoolSettings { predict: true, ..PoolSettings::default() };
        let mut pool = live(replicas, settings);
        let (mut now, mut blocks) = (Time::ZERO + Duration::from_secs(1), Vec::with_capacity(100));
        // More prompts than fit: the mirror evicts all the time.
        for _ in 0..100 {
            a_hundred(&mut pool, &mut now, 1000, &mut blocks);
        }
        assert_eq!(a_hundred(&mut pool, &mut now, 1000, &mut blocks), 0, "{replicas} replicas");
    }
}

/// Mode `adaptive`, with and without pins.
fn a_choice_in_adaptive_mode_allocates_nothing() {
    for replicas in [4, 100] {
        let mut pool = live(replicas, PoolSettings::default());
        let mut now = Time::ZERO + Duration::from_secs(1);
        let mut a_thousand = |pool: &mut Pool| {
            let region = Region::new(ALLOCATOR);
            for turn in 0..1000_u64 {
                // More pins than the invariants of a debug build walk over, which allocates.
                let session = (turn % 3 > 0).then_some(Session::Explicit(turn));
                let request = PickRequest {
                    weight: Weight(1000),
                    session,
                    prefix: Some(turn % 7),
                    ..PickRequest::default()
                };
                let mut picked = pool.pick(now, &request).expect("all are LIVE");
                now = now + Duration::from_millis(1);
                pool.answered(now, &mut picked.lease);
                pool.release(now, picked.lease, Verdict::Success, None);
            }
            region.change().allocations
        };
        a_thousand(&mut pool);
        assert_eq!(a_thousand(&mut pool), 0, "{replicas} replicas");
    }
}

/// Limits, reserved and settled.
fn a_key_with_every_limit_allocates_nothing() {
    let limits = KeyLimits {
        max_concurrent: Some(10),
        requests_per_minute: Some(1_000_000),
        tokens_per_minute: Some(1_000_000_000),
        tokens_per_day: Some(1_000_000_000_000),
        tokens_per_month: Some(1_000_000_000_000),
        cost_per_day: None,
        cost_per_month: None,
    };
    let hour = Duration::from_secs(3600);
    let calendar = Calendar { day: 1, month: 1, day_left: hour, month_left: 24 * hour };
    let mut ledger = KeyLedger::new(limits);
    let mut now = Time::ZERO;
    let mut two_minutes = |ledger: &mut KeyLedger| {
        let region = Region::new(ALLOCATOR);
        for _ in 0..1200 {
            now = now + Duration::from_millis(100);
            let ask = Ask { tokens: 1000, cost: Micros::default() };
            let reserved = ledger.reserve(now, calendar, ask).expect("no limit is near");
            ledger.settle(now, calendar, reserved, Spent { tokens: 900, cost: Micros::default() });
        }
        region.change().allocations
    };
    two_minutes(&mut ledger);
    assert_eq!(two_minutes(&mut ledger), 0);
}
