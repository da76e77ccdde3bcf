//! The runner's own rules; what the deciders are worth is measured elsewhere.

mod faults;

use super::*;
use crate::engine::{Profile, StepCost};
use crate::fault::Fault;
use crate::rng::SeededRng;
use proptest::prelude::*;
use sluicegate_core::{KeyIndex, PoolSettings, Session, TransitionReason};
use std::time::Duration;

pub(super) fn ms(millis: u64) -> Time {
    Time::from_nanos(millis * 1_000_000)
}

/// A step takes 10 ms and a millisecond for each prefilled token; nothing else costs.
pub(super) fn plain() -> Profile {
    Profile {
        block_tokens: 16,
        kv_blocks: 1_000,
        max_num_batched_tokens: 100,
        max_num_seqs: 8,
        max_num_queued: None,
        cost: StepCost {
            base: Duration::from_millis(10),
            prefill_ns_per_token: 1_000_000.0,
            prefill_ns_per_token_position: 0.0,
            decode_ns_per_sequence: 0.0,
            decode_ns_per_context_token: 0.0,
        },
    }
}

fn fleet_of(replicas: usize, slots: Option<u32>) -> Fleet<Gateway> {
    let settings = Settings { replicas, profile: plain(), ..Settings::default() };
    let gateway = Gateway::new(PoolSettings::default(), &settings, slots, 1);
    Fleet::new(settings, gateway)
}

fn all(fleet: &mut Fleet<Gateway>, until: Time) -> Vec<Happening> {
    std::iter::from_fn(|| fleet.next(until)).collect()
}

fn records(happenings: &[Happening]) -> Vec<Record> {
    let record = |happening: &Happening| match happening {
        Happening::Ended(record) => Some(record.clone()),
        _ => None,
    };
    happenings.iter().filter_map(record).collect()
}

fn check_nothing_left(fleet: &Fleet<Gateway>) {
    assert_eq!((fleet.open(), fleet.decider().held()), (0, (0, 0)));
    let snapshot = fleet.decider().pool().snapshot(fleet.now());
    assert!(snapshot.replicas.iter().all(|replica| replica.inflight == 0));
    for host in fleet.hosts() {
        let counters = host.engine().counters();
        assert_eq!((host.inflight(), counters.running + counters.waiting), (0, 0));
    }
}

#[test]
fn the_times_of_a_tiny_run_are_those_computed_by_hand() {
    let mut fleet = fleet_of(2, None);
    // One of 50 tokens at each replica, then one of 150 behind the first: two steps of prefill. The batch decodes in
    // the same steps.
    for (at, prompt, output) in [(1_000, 50, 3), (1_000, 50, 1), (1_001, 150, 2)] {
        fleet.submit(Job::unique(ms(at), prompt, output));
    }
    let mut records = records(&all(&mut fleet, ms(5_000)));
    records.sort_by_key(|record| record.job);
    let times: Vec<_> =
        records.iter().map(|record| (record.replica.unwrap().0, record.first_byte, record.end)).collect();
    // First: 10 + 50 = 60 ms. The third is admitted beside it then, with 99 tokens beside one decoded: 109 ms;
    // with its last 51 and another decoded: 61 ms; its second token 10 ms later.
    let first = (1, Some(ms(1_060)), ms(1_230));
    let second = (0, Some(ms(1_060)), ms(1_060));
    let third = (1, Some(ms(1_230)), ms(1_240));
    assert_eq!(times, [first, second, third]);
    check_nothing_left(&fleet);
}

#[test]
fn alone_the_first_byte_comes_when_the_prefill_is_done() {
    let mut fleet = fleet_of(1, None);
    for (at, prompt) in [(1_000, 40), (2_000, 99), (3_000, 250)] {
        fleet.submit(Job::unique(ms(at), prompt, 4));
    }
    let ttft: Vec<_> = records(&all(&mut fleet, ms(9_000))).iter().map(|record| record.ttft()).collect();
    let millis = |steps: u64, tokens: u64| Some(Duration::from_millis(10 * steps + tokens));
    assert_eq!(ttft, [millis(1, 40), millis(1, 99), millis(3, 250)]);
}

#[test]
fn a_cached_prefix_is_not_computed_again() {
    let mut fleet = fleet_of(1, None);
    for at in [1_000, 2_000] {
        fleet.submit(Job { blocks: [1, 2].into(), ..Job::unique(ms(at), 40, 4) });
    }
    let records = records(&all(&mut fleet, ms(9_000)));
    let seen: Vec<_> = records.iter().map(|record| (record.cached_tokens, record.ttft())).collect();
    let millis = |n| Some(Duration::from_millis(n));
    assert_eq!(seen, [(0, millis(50)), (32, millis(18))]);
}

#[test]
fn an_answer_that_is_no_stream_has_its_first_byte_with_its_last() {
    let mut fleet = fleet_of(1, None);
    fleet.submit(Job { stream: false, ..Job::unique(ms(1_000), 40, 11) });
    let records = records(&all(&mut fleet, ms(9_000)));
    assert_eq!((records[0].first_byte, records[0].end), (Some(ms(1_150)), ms(1_150)));
}

#[test]
fn who_has_no_byte_when_the_process_ends_is_answered_elsewhere() {
    let mut fleet = fleet_of(2, None);
    for at in [1_000, 1_000, 1_050, 1_050] {
        fleet.submit(Job::unique(ms(at), 20, 100));
    }
    fleet.change(ms(1_055), ReplicaId(0), Some(Fault::Dead.into()));
    let happenings = all(&mut fleet, ms(20_000));
    let records = records(&happenings);
    let count = |outcome| records.iter().filter(|record| record.outcome == outcome).count();
    assert_eq!((count(Outcome::Ok), count(Outcome::UpstreamAborted)), (3, 1));
    let retried = records.iter().find(|record| record.attempts == 2).expect("one was sent again");
    assert_eq!((retried.replica, retried.outcome), (Some(ReplicaId(1)), Outcome::Ok));
    let ejected = |happening: &Happening| matches!(happening, Happening::Transition(t) if t.reason == TransitionReason::Refused && t.at == ms(1_055));
    assert!(happenings.iter().any(ejected), "the refusal of the request's second connection says it");
    check_nothing_left(&fleet);
}

#[test]
fn a_frozen_engine_goes_on_where_it_stood() {
    let mut fleet = fleet_of(1, None);
    fleet.submit(Job::unique(ms(1_000), 90, 2));
    fleet.submit(Job::unique(ms(1_500), 90, 1));
    fleet.change(
        ms(1_060),
        ReplicaId(0),
        Some(FaultSpec::from(Fault::Frozen).lasting(Duration::from_secs(10))),
    );
    let records = records(&all(&mut fleet, ms(20_000)));
    let ends: Vec<_> = records.iter().map(|record| (record.first_byte, record.end)).collect();
    // The first prefill was over meanwhile, and nobody was told; the second waited for it.
    assert_eq!(ends, [(Some(ms(11_060)), ms(11_160)), (Some(ms(11_160)), ms(11_160))]);
    check_nothing_left(&fleet);
}

#[test]
fn a_stream_that_falls_silent_is_ended_by_its_limit() {
    let mut fleet = fleet_of(1, None);
    fleet.submit(Job::unique(ms(1_000), 90, 100));
    fleet.change(ms(1_505), ReplicaId(0), Some(Fault::Frozen.into()));
    let records = records(&all(&mut fleet, ms(100_000)));
    assert_eq!((records[0].outcome, records[0].end), (Outcome::TimeoutSilence, ms(61_500)));
    check_nothing_left(&fleet);
}

#[test]
fn a_slow_replica_takes_longer_for_each_step() {
    let mut fleet = fleet_of(1, None);
    fleet.change(ms(0), ReplicaId(0), Some(Fault::Slow { factor: 3.0 }.into()));
    fleet.submit(Job::unique(ms(1_000), 40, 2));
    let records = records(&all(&mut fleet, ms(100_000)));
    assert_eq!((records[0].first_byte, records[0].end), (Some(ms(1_150)), ms(1_180)));
}

#[test]
fn where_slots_are_known_requests_wait_for_one() {
    let mut fleet = fleet_of(1, Some(1));
    fleet.submit(Job::unique(ms(1_000), 40, 2));
    fleet.submit(Job::unique(ms(1_010), 40, 2));
    let records = records(&all(&mut fleet, ms(100_000)));
    assert_eq!(records[1].queued, Duration::from_millis(50));
    assert_eq!((records[1].sent, records[1].ttft()), (Some(ms(1_060)), Some(Duration::from_millis(100))));
    check_nothing_left(&fleet);
}

#[test]
fn a_client_may_leave_at_every_stage() {
    let stages = [
        (5, Outcome::ClientGoneQueued, None),
        (55, Outcome::ClientGone, None),
        (105, Outcome::ClientGone, Some(ms(1_110))),
    ];
    for (after, outcome, first_byte) in stages {
        let mut fleet = fleet_of(1, Some(1));
        fleet.submit(Job::unique(ms(1_000), 40, 2));
        let patience = Some(Duration::from_millis(after));
        fleet.submit(Job { patience, ..Job::unique(ms(1_010), 40, 9) });
        let records = records(&all(&mut fleet, ms(100_000)));
        let gone = records.iter().find(|record| record.job == JobId(1)).unwrap();
        assert_eq!((gone.outcome, gone.first_byte), (outcome, first_byte), "after {after} ms");
        assert_eq!(gone.end, ms(1_010 + after));
        check_nothing_left(&fleet);
    }
}

#[test]
fn what_happens_in_the_moment_of_a_steps_end_comes_after_it_and_once() {
    // The first one's last token, and in the same moment the second arrives, or the first one's client leaves.
    for (arrives, patience, first) in [(1_060, None, Outcome::Ok), (1_000, Some(60), Outcome::ClientGone)] {
        let mut fleet = fleet_of(1, None);
        let patience = patience.map(Duration::from_millis);
        fleet.submit(Job { patience, ..Job::unique(ms(1_000), 40, 2) });
        fleet.submit(Job::unique(ms(arrives), 40, 2));
        let mut records = records(&all(&mut fleet, ms(9_000)));
        records.sort_by_key(|record| record.job);
        assert_eq!((records[0].outcome, records[0].end), (first, ms(1_060)));
        assert_eq!((records.len(), records[1].outcome), (2, Outcome::Ok));
        check_nothing_left(&fleet);
    }
}

#[test]
fn a_request_that_crashes_engines_is_stopped_at_the_second() {
    let mut fleet = fleet_of(4, None);
    let poison = Some(Poison::Crash(Duration::from_secs(20)));
    for at in [1_000, 5_000] {
        fleet.submit(Job { poison, fingerprint: Some(7), ..Job::unique(ms(at), 40, 9) });
    }
    let records = records(&all(&mut fleet, ms(100_000)));
    let seen: Vec<_> = records.iter().map(|record| (record.outcome, record.attempts)).collect();
    assert_eq!(seen, [(Outcome::UpstreamError, 2), (Outcome::RejectedPoison, 0)]);
    check_nothing_left(&fleet);
}

#[test]
fn follow_ups_may_be_submitted_on_the_way() {
    let mut fleet = fleet_of(1, None);
    fleet.submit(Job::unique(ms(1_000), 40, 2));
    let mut ends = Vec::new();
    while let Some(happening) = fleet.next(ms(10_000)) {
        if let Happening::Ended(record) = happening {
            assert_eq!(fleet.now(), record.end);
            ends.push(record.end);
            if ends.len() < 3 {
                fleet.submit(Job::unique(Time::ZERO, 40, 2));
            }
        }
    }
    assert_eq!(ends, [ms(1_060), ms(1_120), ms(1_180)]);
}

const SECOND: Duration = Duration::from_secs(1);

/// Some fault, for all requests or some, for ever or a while.
fn any_fault(rng: &mut SeededRng) -> FaultSpec {
    let status = [400, 429, 500, 502, 503, 404][rng.below(6) as usize];
    let after = rng.below(4) as u32;
    let time = |rng: &mut SeededRng| Duration::from_millis(rng.below(9_000));
    let fault = match rng.below(15) {
        0 => Fault::Status(status),
        1 => Fault::Reset,
        2 => Fault::Hang,
        3 => Fault::Cut { after },
        4 => Fault::ErrorEvent { after, status },
        5 => Fault::Refuse,
        6 => Fault::Slow { factor: 1.0 + rng.below(9) as f64 },
        7 => Fault::Frozen,
        8 => Fault::SlowHealth(time(rng)),
        9 => Fault::Flap { alive: time(rng) + SECOND, dead: time(rng) + SECOND },
        10 => Fault::EngineDead,
        11 => Fault::Sigterm,
        12 => Fault::Dead,
        13 => Fault::Loading,
        _ => Fault::Unreachable,
    };
    FaultSpec {
        fault,
        share: if rng.chance(0.5) { 1.0 } else { rng.unit() },
        next: rng.chance(0.3).then(|| rng.below(4) as u32),
        lasts: rng.chance(0.5).then(|| time(rng)),
    }
}

/// Requests of all kinds, in a fleet in which everything goes wrong.
fn chaos(seed: u64, replicas: usize, slots: Option<u32>, jobs: usize) -> Fleet<Gateway> {
    let mut rng = SeededRng::new(seed);
    let settings = Settings { replicas, profile: plain(), ..Settings::default() };
    let gateway = Gateway::new(PoolSettings::default(), &settings, slots, seed);
    let mut fleet = Fleet::new(settings, gateway);
    for _ in 0..jobs {
        let family = rng.below(5);
        let job = Job {
            blocks: (0..rng.below(8)).map(|i| family * 100 + i).collect(),
            session: rng.chance(0.5).then(|| Session::Explicit(rng.below(10))),
            prefix: rng.chance(0.5).then(|| rng.below(3)),
            key: KeyIndex(rng.below(3) as u32),
            stream: rng.chance(0.8),
            patience: rng.chance(0.2).then(|| Duration::from_millis(rng.below(3_000))),
            poison: rng.chance(0.02).then_some(Poison::Crash(Duration::from_secs(5))),
            fingerprint: rng.chance(0.1).then(|| rng.below(3)),
            ..Job::unique(ms(rng.below(120_000)), rng.below(300) as u32, rng.below(60) as u32)
        };
        fleet.submit(job);
    }
    for _ in 0..replicas * 4 {
        let fault = (rng.below(5) > 0).then(|| any_fault(&mut rng));
        fleet.change(ms(rng.below(120_000)), ReplicaId(rng.below(replicas as u64) as u32), fault);
    }
    fleet
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_request_ends_once_nothing_stays_behind_and_the_same_seed_is_the_same_run(
        seed in 0..1_000_000_u64,
        replicas in 1..5_usize,
        slots in prop_oneof![Just(None), (1..9_u32).prop_map(Some)],
        jobs in 1..120_usize,
    ) {
        let mut fleet = chaos(seed, replicas, slots, jobs);
        let happenings = all(&mut fleet, ms(1_000_000));
        let mut ended: Vec<_> = records(&happenings).iter().map(|record| record.job.0).collect();
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..jobs as u32).collect::<Vec<_>>());
        for record in records(&happenings) {
            let ok = record.outcome == Outcome::Ok;
            let job = fleet.job(record.job).unwrap();
            prop_assert!(!ok || record.output_tokens == job.output_tokens.max(1));
            prop_assert!(!ok || record.first_byte.is_some_and(|first| first <= record.end));
            prop_assert!(record.attempts <= 3);
        }
        check_nothing_left(&fleet);
        prop_assert_eq!(happenings, all(&mut chaos(seed, replicas, slots, jobs), ms(1_000_000)));
    }
}
