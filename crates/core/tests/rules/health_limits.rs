//! Floors under ejection, cooldowns, hosted replicas, the timing of scrapes.

use crate::bench::{Bench, healthy, request, seconds, spec, words};
use sluicegate_core::*;
use std::time::Duration;

const E500: Verdict = Verdict::Failure(Failure::Status(500));

fn fail(bench: &mut Bench, id: u32) {
    (0..3).for_each(|_| bench.book(id, E500));
}

#[test]
fn upstream_failures_never_take_the_last_live_replica_nor_more_than_half() {
    // Known replicas, of which these were refused and these drained before; how many of the others 5xx can eject.
    let rows: [(usize, &[u32], &[u32], usize); 9] = [
        (1, &[], &[], 0),
        (2, &[], &[], 1),
        (3, &[], &[], 1),
        (4, &[], &[], 2),
        (5, &[], &[], 2),
        (8, &[], &[], 4),
        (4, &[0, 1], &[], 1),
        (2, &[0], &[], 0),
        (4, &[], &[0, 1], 1),
    ];
    for (known, refused, drained, expected) in rows {
        let mut bench = Bench::live(known, PoolSettings::default());
        refused.iter().for_each(|id| bench.book(*id, Verdict::Refused));
        drained.iter().for_each(|id| bench.pool.drain(bench.now, ReplicaId(*id)));
        bench.take_effects();
        (0..known as u32).for_each(|id| fail(&mut bench, id));
        let ejected = words(&bench.take_effects(), false).len();
        assert_eq!(ejected, expected, "{known} known, {refused:?} refused, {drained:?} drained");
    }
}

#[test]
fn a_spared_replica_is_ejected_by_its_next_failure_once_another_is_live() {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.book(1, Verdict::Refused);
    fail(&mut bench, 0);
    assert_eq!(bench.health(0), Health::Live);
    bench.pass_with(seconds(60), |_, _| Some(healthy(0, 0)));
    assert_eq!((bench.health(0), bench.health(1)), (Health::Live, Health::Live));
    bench.book(0, E500);
    assert_eq!(bench.health(0), Health::Ejected);
}

#[test]
fn dead_and_stalled_processes_have_no_floor() {
    let mut bench = Bench::live(4, PoolSettings::default());
    bench.book(0, Verdict::Refused);
    bench.scrape(1, Scrape::Refused);
    (0..2).for_each(|_| bench.scrape(2, Scrape::Failed));
    (0..3).for_each(|_| bench.book(3, Verdict::SilentTimeout));
    assert!((0..4).all(|id| bench.health(id) == Health::Ejected));
}

/// Gaps between ejections, all of them by refusal, and the cooldowns that follow. After each the replica's scrapes are
/// good, so that it is LIVE again 15 s after its cooldown.
#[test]
fn cooldowns_double_within_the_flap_window_and_are_forgiven_by_unbroken_live() {
    let rows: [(&[u64], &[u64]); 5] = [
        (&[60, 120, 200, 280, 330, 330], &[30, 60, 120, 240, 300, 300, 300]),
        (&[600], &[30, 60]),
        (&[601], &[30, 30]),
        (&[60, 674], &[30, 60, 60]),
        (&[60, 675], &[30, 60, 30]),
    ];
    for (gaps, cooldowns) in rows {
        let mut bench = Bench::live(2, PoolSettings::default());
        let mut seen = Vec::new();
        for gap in std::iter::once(&0).chain(gaps) {
            bench.pass_with(seconds(*gap), |_, _| Some(healthy(0, 0)));
            bench.take_effects();
            bench.book(0, Verdict::Refused);
            let cooldown = bench.snapshot(0).last_transition.expect("ejected").cooldown.expect("cools down");
            seen.push(cooldown.as_secs());
        }
        assert_eq!(seen, cooldowns, "gaps {gaps:?}");
    }
}

#[test]
fn ten_minutes_of_unbroken_live_end_a_streak() {
    let mut bench = Bench::live(2, PoolSettings::default());
    bench.book(0, Verdict::Refused);
    bench.pass_with(seconds(45 + 599), |_, _| Some(healthy(0, 0)));
    assert_eq!((bench.health(0), bench.snapshot(0).streak), (Health::Live, 1));
    bench.pass_with(seconds(1), |_, _| Some(healthy(0, 0)));
    assert_eq!((bench.snapshot(0).streak, bench.snapshot(0).ejections), (0, 1));
}

#[test]
fn a_hosted_replica_starts_live_and_returns_by_user_requests() {
    let mut bench = Bench::new(PoolSettings::default());
    bench.add_hosted(2);
    assert_eq!((bench.health(0), bench.pool.next_deadline()), (Health::Live, None));
    fail(&mut bench, 0);
    assert_eq!(words(&bench.take_effects(), true), ["ejected(upstream_failures)"]);
    bench.pass(seconds(29));
    assert_eq!(bench.health(0), Health::Ejected);
    bench.pass(seconds(1));
    assert_eq!(bench.health(0), Health::Probing);
    bench.pool.drain(bench.now, ReplicaId(1));
    let user = bench.pick(&request());
    assert_eq!(user.replica, ReplicaId(0));
    bench.end(user.lease, Verdict::Success);
    bench.pass(seconds(15));
    assert_eq!(bench.health(0), Health::Live);
    let kinds = words(&bench.take_effects(), true);
    assert_eq!(kinds, ["probing(cooldown_over)", "draining(drained)", "live(proved)"], "never a scrape");
    bench.pool.undrain(bench.now, ReplicaId(1));
    assert_eq!(bench.health(1), Health::Live);
}

#[test]
fn a_hosted_replica_that_cannot_be_reached_fails_like_any_other() {
    let mut bench = Bench::new(PoolSettings::default());
    bench.add_hosted(2);
    (0..3).for_each(|_| bench.book(0, Verdict::ConnectFailed));
    assert_eq!(bench.health(0), Health::Ejected);
}

#[test]
fn every_replica_is_scraped_at_its_interval_ejected_ones_too() {
    let mut bench = Bench::live(3, PoolSettings::default());
    bench.book(2, Verdict::Refused);
    let mut times: Vec<Vec<Time>> = vec![Vec::new(); 3];
    bench.pass_with(seconds(120), |now, id| {
        times[id.0 as usize].push(now);
        Some(healthy(0, 0))
    });
    for (id, times) in times.iter().enumerate() {
        let gaps: Vec<Duration> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(
            gaps.iter().all(|gap| *gap <= seconds(3) && *gap >= Duration::from_millis(2400)),
            "{id}: {gaps:?}"
        );
        assert!(gaps.windows(2).any(|pair| pair[0] != pair[1]), "{id} has no jitter");
    }
    assert_ne!(times[0], times[1], "replicas drift apart");
}

#[test]
fn at_most_one_scrape_is_outstanding_and_doubt_met_meanwhile_asks_again() {
    let mut bench = Bench::live(1, PoolSettings::default());
    bench.pass(seconds(60));
    assert_eq!(words(&bench.take_effects(), true), ["scrape"], "unanswered");
    (0..5).for_each(|_| bench.book(0, Verdict::ConnectFailed));
    assert_eq!(words(&bench.take_effects(), true).len(), 0);
    bench.scrape(0, healthy(0, 0));
    assert_eq!(words(&bench.take_effects(), true), ["scrape"], "its answer may be older than the doubt");
}

#[test]
fn a_drained_replica_is_scraped_while_requests_run_there() {
    let mut bench = Bench::live(1, PoolSettings::default());
    let running = bench.pick(&request());
    bench.pool.drain(bench.now, ReplicaId(0));
    bench.take_effects();
    bench.pass_with(seconds(10), |_, _| Some(healthy(1, 0)));
    assert!(!bench.take_effects().is_empty());
    bench.end(running.lease, Verdict::Success);
    bench.take_effects();
    bench.pass_with(seconds(60), |_, _| Some(healthy(0, 0)));
    assert_eq!((bench.take_effects().len(), bench.pool.next_deadline()), (0, None));
}

#[test]
fn what_began_before_an_ejection_says_nothing_about_the_replica_after_it() {
    let mut bench = Bench::live(2, PoolSettings::default());
    let old = bench.load(&[0, 0]);
    bench.book(0, Verdict::Refused);
    bench.pass_with(seconds(30), |_, _| Some(healthy(0, 0)));
    assert_eq!(bench.health(0), Health::Probing);
    for lease in old {
        bench.end(lease, Verdict::Failure(Failure::Reset));
    }
    assert_eq!((bench.health(0), bench.snapshot(0).inflight), (Health::Probing, 0));
    let new = bench.load(&[0]);
    new.into_iter().for_each(|lease| bench.end(lease, E500));
    assert_eq!(bench.health(0), Health::Ejected);
}

#[test]
fn a_byte_that_came_while_it_waited_takes_a_silent_timeout_its_force() {
    for (byte_after, expected) in [(None, Health::Ejected), (Some(5), Health::Live)] {
        let mut bench = Bench::live(2, PoolSettings::default());
        let waiting = bench.load(&[0, 0, 0]);
        let last_byte = byte_after.map(|s| bench.now + seconds(s));
        bench.pass(seconds(2));
        for lease in waiting {
            bench.now = bench.now + seconds(10);
            bench.pool.release(bench.now, lease, Verdict::SilentTimeout, last_byte);
        }
        assert_eq!(bench.health(0), expected, "byte {byte_after:?}");
    }
}

#[test]
fn a_discovered_replica_has_no_cold_burst_and_a_known_one_starts_at_once() {
    for (origin, taken) in [(Origin::Startup, 4), (Origin::Discovered, 1)] {
        let mut bench = Bench::new(PoolSettings::default());
        let id = bench.pool.add(bench.now, ReplicaSpec { slots: Some(9), ..spec("r", origin) });
        assert_eq!(bench.pool.pick(bench.now, &request()).err(), Some(NoReplica::NotReady));
        bench.pool.scraped(bench.now, id, healthy(0, 0), None);
        let leases: Vec<_> = (0..4).map_while(|_| bench.pool.pick(bench.now, &request()).ok()).collect();
        assert_eq!(leases.len(), taken, "{origin:?}");
    }
}

#[test]
fn doubt_asks_for_a_scrape_in_service_and_not_out_of_it() {
    let rows = [(Health::Live, 1), (Health::Ejected, 0), (Health::Probing, 1)];
    for (health, scrapes) in rows {
        let mut bench = Bench::live(2, PoolSettings::default());
        if health != Health::Live {
            bench.book(0, Verdict::Refused);
        }
        let out_for = if health == Health::Probing { 30 } else { 4 };
        bench.pass_with(seconds(out_for), |_, _| Some(healthy(0, 0)));
        bench.scrape(0, healthy(0, 0));
        bench.pass_with(Duration::from_secs(1), |_, _| Some(healthy(0, 0)));
        assert_eq!(bench.health(0), health);
        bench.take_effects();
        (0..2).for_each(|_| bench.book(0, Verdict::ConnectFailed));
        assert_eq!(words(&bench.take_effects(), true).len(), scrapes, "{health:?}");
    }
}
