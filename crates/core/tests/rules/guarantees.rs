//! Behavioural guarantees that need nothing but decisions and a clock.

use crate::bench::{Bench, healthy, request, seconds, session};
use sluicegate_core::*;
use std::collections::BTreeSet;

fn per_replica(picked: &[Picked], n: usize) -> Vec<usize> {
    (0..n as u32).map(|id| picked.iter().filter(|p| p.replica == ReplicaId(id)).count()).collect()
}

#[test]
fn g2_a_burst_between_two_scrapes_is_spread_to_within_one_request() {
    for burst in [4, 8, 16] {
        let mut bench = Bench::live(4, PoolSettings::default());
        let picked: Vec<Picked> = (0..burst).map(|_| bench.pick(&request())).collect();
        assert_eq!(per_replica(&picked, 4), vec![burst / 4; 4]);
    }
}

#[test]
fn g3_a_heavy_request_weighs() {
    let mut bench = Bench::live(4, PoolSettings::default());
    let heavy = bench.pick(&PickRequest { weight: Weight::from_prompt_tokens(100_000), ..request() });
    let small: Vec<Picked> = (0..30).map(|_| bench.pick(&request())).collect();
    assert_eq!(per_replica(&small, 4)[heavy.replica.0 as usize], 0);
}

#[test]
fn g4_recovery_is_found_by_scrapes_and_takes_two_of_them_and_fifteen_seconds() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let killed = bench.now;
    bench.book(0, Verdict::Refused);
    let alive_again = killed + seconds(50);
    let mut good = Vec::new();
    let mut probing = None;
    for _ in 0..100 {
        bench.pass_with(seconds(1), |now, id| {
            let alive = id.0 == 1 || now >= alive_again;
            if id.0 == 0 && alive {
                good.push(now);
            }
            Some(if alive { healthy(0, 0) } else { Scrape::Refused })
        });
        if bench.health(0) == Health::Ejected {
            assert_eq!(bench.turn(&request()).0, 1, "no user request discovers it");
        }
        for effect in bench.take_effects() {
            match effect {
                Effect::Transition(t) if t.to == Health::Probing => {
                    assert_eq!(t.at, good[1], "at the second good scrape");
                    probing = Some(t.at);
                }
                Effect::Transition(t) if t.to == Health::Live => {
                    assert_eq!(Some(t.at), probing.map(|at| at + seconds(15)), "and 15 s later");
                }
                _ => {}
            }
        }
    }
    assert_eq!(bench.health(0), Health::Live);
}

#[test]
fn g5_a_killed_replica_is_ejected_within_six_seconds_and_its_unanswered_requests_go_elsewhere() {
    for seed in 0..20 {
        let mut bench = Bench::live(4, PoolSettings::default());
        bench.pass_with(seconds(seed), |_, _| Some(healthy(0, 0)));
        bench.take_effects();
        let killed = bench.now;
        bench.pass_with(seconds(6), |_, id| Some(if id.0 == 0 { Scrape::Refused } else { healthy(0, 0) }));
        let effects = bench.take_effects();
        let ejected = effects.iter().find_map(|effect| match effect {
            Effect::Transition(t) => Some(t.at),
            _ => None,
        });
        assert!(ejected.expect("ejected").since(killed) <= seconds(6));
        assert!(effects.contains(&Effect::AbortUnanswered(ReplicaId(0))));
    }
}

#[test]
fn g6_a_flapping_replica_is_held_off_ever_longer() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let start = bench.now;
    let alive = move |now: Time| now.since(start).as_secs() % 20 < 10;
    let mut cooldowns = Vec::new();
    for second in 0..1800 {
        bench.pass_with(seconds(1), |now, id| {
            Some(if id.0 == 1 || alive(now) { healthy(0, 0) } else { Scrape::Refused })
        });
        bench.turn(&session(second % 7));
        if bench.health(0) == Health::Probing {
            assert_eq!(bench.snapshot(0).pins, 0, "no pins while PROBING");
        }
        cooldowns.extend(bench.take_effects().into_iter().filter_map(|effect| match effect {
            Effect::Transition(t) => t.cooldown.map(|cooldown| cooldown.as_secs()),
            _ => None,
        }));
    }
    assert!(cooldowns.len() >= 6, "{cooldowns:?}");
    let expected: Vec<u64> =
        [30, 60, 120, 240].into_iter().chain(std::iter::repeat(300)).take(cooldowns.len()).collect();
    assert_eq!(cooldowns, expected);
}

#[test]
fn g10_pins_die_and_are_gone_from_the_table() {
    let asked = PickRequest { prefix: Some(1), ..session(1) };
    let good = |_, _| Some(healthy(0, 0));
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.turn(&asked);
    bench.pass_with(seconds(6 * 60), good);
    assert_eq!(bench.pins(), (1, 0), "an idle prefix after 6 min");
    bench.pass_with(seconds(55 * 60), good);
    assert_eq!(bench.pins(), (0, 0), "an idle session after 61 min");
    let (home, reason, _) = bench.turn(&asked);
    assert_eq!(reason, Reason::Load);
    bench.book(home, Verdict::Refused);
    assert_eq!(bench.pins(), (0, 0), "an ejected replica");
    assert_eq!(bench.turn(&asked), (1 - home, Reason::Load, false));
}

#[test]
fn g11_a_queued_replica_gets_nothing_while_one_is_free() {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.scrape(0, healthy(0, 1));
    bench.scrape(1, healthy(50, 0));
    let picked: Vec<Picked> = (0..20).map(|_| bench.pick(&request())).collect();
    assert_eq!(per_replica(&picked, 2), [0, 20]);
}

#[test]
fn g12_last_resort_is_a_random_known_replica_then_nobody() {
    let mut bench = Bench::live(3, PoolSettings::default());
    (0..3).for_each(|id| bench.book(id, Verdict::Refused));
    let seen: BTreeSet<_> =
        (0..60).map(|_| bench.turn(&request())).collect::<Vec<_>>().into_iter().map(|t| t.0).collect();
    assert_eq!(seen.len(), 3);
    let mut empty = Bench::new(PoolSettings::default());
    assert_eq!(empty.pool.pick(empty.now, &request()).err(), Some(NoReplica::NoneKnown));
}

#[test]
fn g17_a_timeout_is_not_a_fault() {
    let mut bench = Bench::live(1, PoolSettings::default());
    for _ in 0..2 {
        let long = bench.pick(&request());
        bench.pass_with(seconds(600), |_, _| Some(healthy(1, 0)));
        bench.end(long.lease, Verdict::SilentTimeout);
        let (_, reason, _) = bench.turn(&request());
        assert_eq!((bench.health(0), reason), (Health::Live, Reason::Load));
    }
}
