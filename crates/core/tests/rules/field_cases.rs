//! Field cases that are pure decisions.

use crate::bench::{Bench, healthy, request, seconds, session};
use sluicegate_core::*;
use std::time::Duration;

#[test]
fn a_38_a_frozen_engine_with_good_health_leaves_rotation_and_returns_only_by_progress() {
    let frozen = |total| Scrape::Healthy {
        load: Some(EngineLoad {
            running: 2,
            waiting: 3,
            tokens_total: Some(total),
            kv_usage: None,
            kv_tokens: None,
        }),
    };
    for (frozen_for, health) in [(55, Health::Live), (70, Health::Ejected)] {
        let mut bench = Bench::live(2, PoolSettings::default());
        bench.scrape(0, frozen(100));
        bench.scrape(0, frozen(110));
        bench.pass_with(seconds(frozen_for), |_, id| {
            Some(if id.0 == 0 { frozen(110) } else { healthy(0, 0) })
        });
        assert_eq!(bench.health(0), health, "after {frozen_for} s");
        assert_eq!(bench.turn(&request()).0, 1, "traffic continues on the peer");
    }
    let mut bench = Bench::live(2, PoolSettings::default());
    for lease in bench.load(&[0, 0, 0]) {
        bench.end(lease, Verdict::SilentTimeout);
    }
    for _ in 0..300 {
        bench.pass_with(Duration::ZERO, |_, _| None);
        for id in 0..2 {
            bench.scrape(id, healthy(0, 0));
        }
        while let Some(effect) = bench.pool.poll_effect() {
            if effect == Effect::Canary(ReplicaId(0)) {
                bench.pool.canary(bench.now, ReplicaId(0), false);
            }
        }
        bench.now = bench.now + seconds(1);
    }
    assert_eq!(bench.health(0), Health::Ejected, "its good /health alone brings it back never");
    bench.pass_with(seconds(20), |_, _| Some(healthy(0, 0)));
    assert_eq!(bench.health(0), Health::Live, "an answered canary does");
}

#[test]
fn a_40_late_health_answers_of_busy_replicas_eject_nobody() {
    let mut bench = Bench::live(2, PoolSettings::default());
    for _ in 0..60 {
        bench.now = bench.now + seconds(2);
        let byte = Some(bench.now);
        (0..2).for_each(|id| bench.pool.scraped(bench.now, ReplicaId(id), Scrape::TimedOut, byte));
    }
    assert_eq!((bench.health(0), bench.health(1)), (Health::Live, Health::Live));
}

/// A variation of A-40's other side: what an engine counted while it had work excuses nothing once it is idle.
#[test]
fn a_40_an_idle_replica_that_stops_answering_is_ejected_although_it_counted_tokens_just_now() {
    for (running, expected) in [(3, Health::Live), (0, Health::Ejected)] {
        let mut bench = Bench::live(2, PoolSettings::default());
        for tokens in [100, 200] {
            bench.now = bench.now + seconds(3);
            let load = EngineLoad { running, tokens_total: Some(tokens), ..EngineLoad::default() };
            bench.pool.scraped(bench.now, ReplicaId(0), Scrape::Healthy { load: Some(load) }, None);
        }
        for _ in 0..2 {
            bench.now = bench.now + seconds(3);
            bench.pool.tick(bench.now);
            bench.pool.scraped(bench.now, ReplicaId(0), Scrape::TimedOut, None);
        }
        assert_eq!(bench.health(0), expected, "running at the last good scrape: {running}");
    }
}

#[test]
fn a_41_a_poison_request_ejects_nobody() {
    let mut bench = Bench::live(3, PoolSettings::default());
    let settings = RetrySettings::default();
    let mut budget = RetryBudget::new(&settings);
    for _ in 0..10 {
        let mut attempts = Attempts::new();
        loop {
            let picked = bench
                .pool
                .pick(bench.now, &PickRequest { tried: attempts.tried(), ..request() })
                .expect("one");
            attempts.started(picked.replica);
            let (verdict, next) =
                attempts.failed(bench.now, AttemptFailure::Status(500), &settings, &mut budget);
            bench.end(picked.lease, verdict);
            if next == Next::GiveUp {
                break;
            }
        }
        assert_eq!((attempts.count(), attempts.is_suspect()), (2, true));
        bench.now = bench.now + seconds(1);
    }
    assert!((0..3).all(|id| bench.health(id) == Health::Live));
}

#[test]
fn a_42_a_quarantined_replica_comes_back_by_itself() {
    let mut bench = Bench::live(1, PoolSettings::default());
    let start = bench.now;
    bench.pass_with(seconds(20), |_, _| Some(Scrape::Failed));
    assert_eq!(bench.health(0), Health::Ejected);
    bench.pass_with(seconds(45), |_, _| Some(healthy(0, 0)));
    assert!(bench.now.since(start) <= seconds(65));
    assert_eq!(bench.health(0), Health::Live);
    assert_eq!(bench.turn(&request()), (0, Reason::Load, false));
}

#[test]
fn a_43_missing_metrics_leave_a_healthy_replica_live_on_its_own_count() {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.pass_with(seconds(60), |_, id| {
        Some(if id.0 == 0 { Scrape::Healthy { load: None } } else { healthy(0, 0) })
    });
    let changes = |effects: Vec<Effect>| {
        effects
            .into_iter()
            .filter(|effect| matches!(effect, Effect::MetricsChanged { .. }))
            .collect::<Vec<_>>()
    };
    let gone = Effect::MetricsChanged { replica: ReplicaId(0), available: false };
    assert_eq!((changes(bench.take_effects()), bench.health(0)), (vec![gone], Health::Live));
    let open = bench.load(&[0, 0]);
    let snapshot = bench.snapshot(0);
    assert_eq!((snapshot.scraped, snapshot.effective_running), (None, 2.0));
    assert_eq!(bench.turn(&request()).0, 1);
    open.into_iter().for_each(|lease| bench.end(lease, Verdict::Success));
}

#[test]
fn a_45_clients_that_leave_before_the_head_leave_no_count_behind() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let open: Vec<Picked> = (0..500_u64)
        .map(|n| bench.pick(&PickRequest { weight: Weight::from_prompt_tokens(n * 37), ..session(n) }))
        .collect();
    open.into_iter().for_each(|picked| bench.end(picked.lease, Verdict::Neutral));
    for id in 0..2 {
        let snapshot = bench.snapshot(id);
        assert_eq!((snapshot.inflight, snapshot.inflight_weight, snapshot.effective_waiting), (0, 0.0, 0.0));
    }
    let next: Vec<u32> = (0..100).map(|_| bench.pick(&request()).replica.0).collect();
    assert_eq!(next.iter().filter(|id| **id == 0).count(), 50);
}

#[test]
fn a_47_requests_between_two_scrapes_see_each_other() {
    for (n, slots) in [(2, Some(100)), (10, Some(100)), (50, Some(100)), (2, None), (10, None), (50, None)] {
        let mut bench = Bench::live(2, PoolSettings::default());
        (0..2).for_each(|id| bench.pool.set_slots(ReplicaId(id), slots));
        let at_first = (0..n).filter(|_| bench.pick(&request()).replica == ReplicaId(0)).count();
        assert_eq!(at_first, n / 2, "{n} requests, slots {slots:?}");
    }
}

#[test]
fn a_48_the_summed_load_of_all_engines_counts() {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.scrape(0, healthy(9, 4));
    bench.scrape(1, healthy(3, 0));
    assert_eq!(bench.turn(&request()).0, 1);
}
