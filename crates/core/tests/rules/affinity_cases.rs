//! Field cases about affinity, in every way of choosing.

use crate::bench::{Bench, healthy, request, seconds, session};
use sluicegate_core::*;
use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

/// A way of choosing: what its pool is set to, and what a request of it says.
struct Way {
    name: &'static str,
    settings: PoolSettings,
    mode: Mode<'static>,
}

/// Tokens of a block.
const BLOCK: u32 = 256;

fn settings(affinity: AffinityMode, predict: bool) -> PoolSettings {
    let mut settings = PoolSettings { predict, ..PoolSettings::default() };
    settings.affinity.mode = affinity;
    settings
}

static SHARES: LazyLock<Shares> = LazyLock::new(|| Shares::new(vec![1]).expect("one above zero"));
static BY_SESSION: LazyLock<Policies> =
    LazyLock::new(|| policies(&[(Policy::SessionAffinity, 1.0), (Policy::LeastInflight, 1.0)]));
/// More than the number of other replicas, or the one that knows the system prompt first is never left.
static BY_PROMPT: LazyLock<Policies> =
    LazyLock::new(|| policies(&[(Policy::PrefixCache, 1.0), (Policy::LeastInflight, 4.0)]));

fn policies(list: &[(Policy, f64)]) -> Policies {
    Policies::new(list.to_vec()).expect("sound")
}

fn scoring(policies: &'static Policies) -> Mode<'static> {
    Mode::Policy(Scoring { policies, decision: None })
}

fn ways() -> Vec<Way> {
    let (pins, off) = (AffinityMode::Pins, AffinityMode::Off);
    let way = |name, affinity, predict, mode| Way { name, settings: settings(affinity, predict), mode };
    vec![
        way("adaptive", pins, false, Mode::Adaptive),
        way("consistent", AffinityMode::Consistent, false, Mode::Adaptive),
        way("weighted", pins, false, Mode::Weighted(&SHARES)),
        way("weighted, consistent", AffinityMode::Consistent, false, Mode::Weighted(&SHARES)),
        way("predictive", off, true, Mode::Predictive),
        way("policy, by session", off, false, scoring(&BY_SESSION)),
        way("policy, by prompt", off, true, scoring(&BY_PROMPT)),
    ]
}

/// The blocks of a talk's prompt: four of a system prompt that all share, eight of its own.
fn blocks(talk: u64) -> Vec<u64> {
    (1..=4).chain((0..8).map(|at| 1000 * (talk + 1) + at)).collect()
}

impl Way {
    fn bench(&self, replicas: usize, slots: u32) -> Bench {
        let mut bench = Bench::live(replicas, self.settings.clone());
        (0..replicas as u32).for_each(|id| bench.pool.set_slots(ReplicaId(id), Some(slots)));
        bench
    }

    /// A turn of a talk.
    fn turn<'a>(&self, talk: u64, blocks: &'a [u64]) -> PickRequest<'a> {
        let tokens = blocks.len() as u32 * BLOCK;
        let prompt = Prompt { tokens, blocks, block_tokens: BLOCK, whole_answer: false };
        PickRequest { prefix: Some(1), prompt, mode: self.mode, ..session(talk) }
    }
}

#[test]
fn a_32_the_retry_leaves_the_replica_that_affinity_leads_to_and_so_does_the_talk() {
    for way in ways() {
        let mut bench = way.bench(2, 100);
        let own = blocks(1);
        let asked = way.turn(1, &own);
        let (broken, ..) = bench.turn(&asked);
        assert_eq!(bench.turn(&asked).0, broken, "{}: it has a home", way.name);
        let (settings, good) = (RetrySettings::default(), 1 - broken);
        let mut budget = RetryBudget::new(&settings);
        let mut first_attempts_at_broken = 0;
        for n in 0..20 {
            let mut attempts = Attempts::new();
            loop {
                let again = PickRequest { tried: attempts.tried(), ..asked };
                let mut picked = bench.pool.pick(bench.now, &again).expect("a replica");
                attempts.started(picked.replica);
                if picked.replica.0 == good {
                    bench.pool.answered(bench.now, &mut picked.lease);
                    if let Some((id, verdict)) = attempts.answered() {
                        bench.book(id.0, verdict);
                    }
                    bench.end(picked.lease, Verdict::Success);
                    break;
                }
                first_attempts_at_broken += 1;
                assert_eq!(attempts.count(), 1, "{}, request {n}: the second goes elsewhere", way.name);
                let reset = AttemptFailure::Reset { sent_whole: true };
                let (verdict, next) = attempts.failed(bench.now, reset, &settings, &mut budget);
                assert_eq!(next, Next::Retry);
                bench.end(picked.lease, verdict);
            }
            bench.now = bench.now + Duration::from_millis(100);
        }
        // Where the other has come to know the prompt as well, it may be out of doubt before it is out of service.
        let met = 1..=3;
        assert!(met.contains(&first_attempts_at_broken), "{}: {first_attempts_at_broken}", way.name);
        assert_eq!(bench.turn(&asked).0, good, "{}", way.name);
        if first_attempts_at_broken == 3 {
            assert_eq!(bench.health(broken), Health::Ejected, "{}", way.name);
        }
    }
}

/// 200 talks with one system prompt, each 2 s request at random moments: 60 % of four replicas with 8 slots.
#[test]
fn a_49_a_shared_system_prompt_does_not_end_up_on_one_node() {
    for way in ways() {
        let mut bench = way.bench(4, 8);
        let mut open: VecDeque<(Time, Lease)> = VecDeque::new();
        let mut seen: VecDeque<(Time, u32)> = VecDeque::new();
        let mut word = 1_u64;
        for step in 0..6000_u32 {
            while open.front().is_some_and(|(end, _)| *end <= bench.now) {
                let (_, lease) = open.pop_front().expect("just seen");
                bench.end(lease, Verdict::Success);
            }
            let mut running = HashMap::new();
            open.iter().for_each(|(_, lease)| *running.entry(lease.replica()).or_insert(0) += 1);
            bench.pass_with(Duration::from_millis(104), |_, id| {
                Some(healthy(running.get(&id).copied().unwrap_or(0), 0))
            });
            word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let talk = (word >> 33) % 200;
            let picked = bench.serve(&way.turn(talk, &blocks(talk)));
            seen.push_back((bench.now, picked.replica.0));
            open.push_back((bench.now + seconds(2), picked.lease));
            while seen.front().is_some_and(|(at, _)| bench.now.since(*at) > seconds(300)) {
                seen.pop_front();
            }
            if step > 3000 && step % 100 == 0 {
                let at = |id| seen.iter().filter(|(_, at)| *at == id).count();
                let most = (0..4).map(at).max().unwrap_or(0);
                let all = seen.len();
                assert!(most * 100 <= all * 40, "{}: {most} of {all} of 5 min at one replica", way.name);
            }
        }
    }
}

#[test]
fn a_50_a_request_without_a_key_is_nobody_s_and_is_spread_as_without_affinity() {
    for way in ways() {
        let mut bench = way.bench(3, 100);
        let nobody = PickRequest { mode: way.mode, ..request() };
        let mut at = [0; 3];
        for _ in 0..300 {
            let (id, reason, _) = bench.turn(&nobody);
            assert!(![Reason::AffinitySession, Reason::AffinityPrefix].contains(&reason), "{}", way.name);
            at[id as usize] += 1;
        }
        assert_eq!(bench.pins(), (0, 0), "{}", way.name);
        // By scores alone equal ones are a matter of chance.
        let even = if matches!(way.mode, Mode::Policy(_)) { 60..=140 } else { 100..=100 };
        assert!(at.iter().all(|n| even.contains(n)), "{}: {at:?}", way.name);
    }
}

#[test]
fn a_76_however_many_talks_there_are_what_is_kept_of_them_is_bounded_and_dies() {
    const MOST: usize = 300;
    for mut way in ways() {
        way.settings.affinity.max_pins = MOST;
        let table = way.settings.affinity.mode == AffinityMode::Pins;
        let mut bench = way.bench(3, 100);
        let mut most = 0;
        for talk in 0..3000 {
            let own = blocks(talk);
            bench.turn(&PickRequest { prefix: Some(talk), ..way.turn(talk, &own) });
            let (sessions, prefixes) = bench.pins();
            most = most.max(sessions + prefixes);
        }
        assert_eq!(most, if table { MOST } else { 0 }, "{}", way.name);
        bench.pass_with(seconds(61 * 60), |_, _| Some(healthy(0, 0)));
        assert_eq!(bench.pins(), (0, 0), "{}", way.name);
    }
}
