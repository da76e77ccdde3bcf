//! What a decision costs as the number of replicas, pins, keys and waiting requests grows: there must be no cliff.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use sluicegate_core::*;
use std::hint::black_box;
use std::time::Duration;

/// LIVE replicas with so many slots each, a second after their first scrape.
fn pool(replicas: usize, slots: Option<u32>, settings: PoolSettings) -> (Pool, Time) {
    let mut pool = Pool::new(settings, 7);
    for index in 0..replicas {
        let spec = ReplicaSpec {
            name: format!("r{index}"),
            origin: Origin::Startup,
            scraped: true,
            slots,
            serves: Serves::All,
        };
        let id = pool.add(Time::ZERO, spec);
        pool.scraped(Time::ZERO, id, Scrape::Healthy { load: None }, None);
    }
    while pool.poll_effect().is_some() {}
    (pool, Time::ZERO + Duration::from_secs(1))
}

fn request(session: Option<u64>) -> PickRequest<'static> {
    PickRequest { weight: Weight(1000), session: session.map(Session::Explicit), ..PickRequest::default() }
}

/// Choice, lease, first byte and release.
fn decide(pool: &mut Pool, now: Time, request: &PickRequest<'_>) {
    let mut picked = pool.pick(now, request).expect("all are LIVE");
    pool.answered(now, &mut picked.lease);
    pool.release(now, black_box(picked).lease, Verdict::Success, None);
}

fn replicas(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("choice_by_replicas");
    for count in [1, 4, 10, 100, 1000] {
        let (mut pool, now) = pool(count, Some(100), PoolSettings::default());
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| decide(&mut pool, now, &request(None)));
        });
    }
    group.finish();
    let mut group = criterion.benchmark_group("choice_by_replicas_predictive");
    let blocks: Vec<u64> = (1..=60).collect();
    for count in [1, 4, 10, 100, 1000] {
        let settings = PoolSettings { predict: true, ..PoolSettings::default() };
        let (mut pool, now) = pool(count, Some(100), settings);
        let prompt = Prompt { tokens: 15_000, blocks: &blocks, block_tokens: 256, whole_answer: false };
        let request = PickRequest { prompt, mode: Mode::Predictive, ..request(None) };
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| decide(&mut pool, now, &request));
        });
    }
    group.finish();
}

/// Four replicas, so many sessions in turn: each has its pin.
fn pins(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("choice_by_pins");
    for count in [1_u64, 100, 10_000, 100_000] {
        let (mut pool, now) = pool(4, Some(100), PoolSettings::default());
        let mut turn = 0_u64;
        let mut next = || {
            turn = (turn + 1) % count;
            // Spread over the table as hashes are.
            request(Some((turn + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        };
        for _ in 0..count {
            decide(&mut pool, now, &next());
        }
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| decide(&mut pool, now, &next()));
        });
    }
    group.finish();
}

/// All limits of a key, reserved and settled, so many keys in turn.
fn keys(criterion: &mut Criterion) {
    let limits = KeyLimits {
        max_concurrent: Some(1000),
        requests_per_minute: Some(u64::MAX >> 8),
        tokens_per_minute: Some(u64::MAX >> 8),
        tokens_per_day: Some(u64::MAX >> 8),
        tokens_per_month: Some(u64::MAX >> 8),
        cost_per_day: None,
        cost_per_month: None,
    };
    let calendar = Calendar {
        day: 1,
        month: 1,
        day_left: Duration::from_secs(3600),
        month_left: Duration::from_secs(90_000),
    };
    let ask = Ask { tokens: 1000, cost: Micros::default() };
    let mut group = criterion.benchmark_group("limits_by_keys");
    for count in [1_usize, 100, 10_000] {
        let mut ledgers: Vec<KeyLedger> = (0..count).map(|_| KeyLedger::new(limits.clone())).collect();
        let (mut turn, mut now) = (0, Time::ZERO);
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) % count;
                now = now + Duration::from_micros(20);
                let reserved = ledgers[turn].reserve(now, calendar, ask).expect("no limit is near");
                ledgers[turn].settle(now, calendar, reserved, Spent { tokens: 900, cost: Micros::default() });
            });
        });
    }
    group.finish();
}

/// A place is given back and goes to the next of so many waiting keys, which asks again.
fn waiting(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("grant_by_waiting_keys");
    for count in [1_u32, 100, 10_000] {
        let (mut pool, now) = pool(4, Some(1), PoolSettings::default());
        let wait = |key| Waiting {
            key: KeyIndex(key),
            route: RouteIndex(0),
            priority: 0,
            cost_tokens: 100,
            limits: QueueLimits { max_length: 20_000, ..QueueLimits::default() },
        };
        let mut open = Vec::new();
        for key in 0..count + 4 {
            if let Admission::Picked(picked) = pool.admit(now, &request(None), wait(key)) {
                open.push(picked.lease);
            }
        }
        let mut lease = open.pop();
        let mut key = 0;
        group.bench_function(BenchmarkId::from_parameter(count), |bencher| {
            bencher.iter(|| {
                pool.release(now, lease.take().expect("a place is taken"), Verdict::Success, None);
                while let Some(effect) = pool.poll_effect() {
                    if let Effect::Granted { picked, .. } = effect {
                        lease = Some(picked.lease);
                    }
                }
                key = (key + 1) % count;
                let _waits = black_box(pool.admit(now, &request(None), wait(key)));
            });
        });
    }
    group.finish();
}

criterion_group!(benches, replicas, pins, keys, waiting);
criterion_main!(benches);
