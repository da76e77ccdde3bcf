//! A failure after a complete send is booked when a second replica has spoken, and only then: whoever sends requests that
//! fail everywhere can take no replica out of service.

use crate::bench::{Bench, request};
use sluicegate_core::*;
use std::time::Duration;

/// One request after the other, one a millisecond. `fails`: how the request fails at this replica; `None`: it is
/// answered well.
fn storm(
    bench: &mut Bench,
    settings: &RetrySettings,
    requests: usize,
    fails: impl Fn(ReplicaId) -> Option<AttemptFailure>,
) {
    let mut budget = RetryBudget::new(settings);
    for _ in 0..requests {
        budget.request(bench.now, KeyIndex(0));
        let mut attempts = Attempts::new();
        loop {
            let asked = PickRequest { tried: attempts.tried(), ..request() };
            let Ok(picked) = bench.pool.pick(bench.now, &asked) else { break };
            attempts.started(picked.replica);
            let Some(failure) = fails(picked.replica) else {
                if let Some((id, verdict)) = attempts.answered() {
                    bench.book(id.0, verdict);
                }
                bench.end(picked.lease, Verdict::Success);
                break;
            };
            let (verdict, next) = attempts.failed(bench.now, failure, settings, &mut budget);
            bench.end(picked.lease, verdict);
            if next == Next::GiveUp {
                break;
            }
        }
        bench.now = bench.now + Duration::from_millis(1);
    }
}

#[test]
fn requests_that_fail_everywhere_eject_nobody_however_many_they_are() {
    let (fails, busy) = (AttemptFailure::Status(500), AttemptFailure::Status(503));
    let crash = AttemptFailure::Reset { sent_whole: true };
    let spent = RetrySettings::default();
    let few = RetrySettings { attempts: 2, budget_per_second: 1_000_000, ..spent.clone() };
    let rows = [
        ("the budget is used up", &spent, [fails, fails, fails]),
        ("the same with resets", &spent, [crash, crash, crash]),
        // Nobody could say more of it than that there was no room.
        ("the attempts are used up", &few, [fails, busy, busy]),
        ("attempts and budget are", &spent, [fails, busy, busy]),
    ];
    for (case, settings, answers) in rows {
        let mut bench = Bench::live(3, PoolSettings::default());
        storm(&mut bench, settings, 300, |id| Some(answers[id.0 as usize]));
        assert_eq!(bench.health(0), Health::Live, "{case}");
        if answers[1] != busy {
            assert!((1..3).all(|id| bench.health(id) == Health::Live), "{case}");
        }
    }
}

#[test]
fn a_broken_replica_is_ejected_in_the_same_storm_by_the_replays_that_the_budget_always_has() {
    for budget in [0.2, 0.0] {
        let settings = RetrySettings { budget, ..RetrySettings::default() };
        let mut bench = Bench::live(3, PoolSettings::default());
        storm(&mut bench, &settings, 300, |id| (id.0 == 1).then_some(AttemptFailure::Status(500)));
        assert_eq!(bench.health(1), Health::Ejected, "with a share of {budget}");
        assert!([0, 2].iter().all(|id| bench.health(*id) == Health::Live));
    }
}

#[test]
fn where_the_configuration_allows_no_replay_a_failure_is_the_replicas_own() {
    let default = RetrySettings::default();
    let rows = [
        ("one attempt", RetrySettings { attempts: 1, ..default.clone() }),
        ("no budget at all", RetrySettings { budget: 0.0, budget_per_second: 0, ..default.clone() }),
        ("a status that is not retried", RetrySettings { on_status: vec![502], ..default }),
    ];
    for (case, settings) in rows {
        let mut bench = Bench::live(3, PoolSettings::default());
        storm(&mut bench, &settings, 30, |id| (id.0 == 1).then_some(AttemptFailure::Status(500)));
        assert_eq!(bench.health(1), Health::Ejected, "{case}");
    }
}

/// The second opinion may take minutes to come, and the replica be another process by then.
#[test]
fn a_failure_that_is_booked_late_is_not_booked_against_a_later_spell_of_service() {
    let once = PoolSettings {
        health: HealthSettings { eject_after_5xx: 1, ..HealthSettings::default() },
        ..PoolSettings::default()
    };
    let failure = Verdict::Failure(Failure::Status(500));
    for restarts in [false, true] {
        let mut bench = Bench::live(3, once.clone());
        let [lease] = <[Lease; 1]>::try_from(bench.load(&[1])).expect("one request");
        let spell = lease.spell();
        bench.end(lease, Verdict::Deferred);
        if restarts {
            bench.scrape(1, Scrape::Loading);
            bench.scrape(1, Scrape::Healthy { load: None });
            bench.pass(Duration::from_secs(60));
        }
        assert_eq!(bench.health(1), Health::Live);
        bench.pool.book(bench.now, spell, failure, None);
        let expected = if restarts { Health::Live } else { Health::Ejected };
        assert_eq!(bench.health(1), expected, "restarted in between: {restarts}");
    }
}
