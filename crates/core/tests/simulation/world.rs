//! The random events, and the data plane's part: effects are carried out, answers come late or never good.

use crate::shadow::{Asked, Known, Open, Shadow};
use sluicegate_core::*;
use std::time::Duration;

pub(crate) struct World {
    random: Random,
    now: Time,
    pool: Pool,
    shadow: Shadow,
    leases: Vec<(Lease, Option<Session>, Option<u64>)>,
    canaries: Vec<ReplicaId>,
    last_transition: Option<Transition>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let settings = random.settings();
        let pool = Pool::new(settings.clone(), seed);
        let (leases, canaries) = (Vec::new(), Vec::new());
        let shadow = Shadow::new(settings);
        let mut world =
            Self { random, now: Time::ZERO, pool, shadow, leases, canaries, last_transition: None };
        for _ in 0..world.random.below(5) {
            world.add(Origin::Startup);
        }
        world
    }

    pub(crate) fn step(&mut self) {
        match self.random.below(100) {
            0 => self.add(Origin::Discovered),
            1..=35 => self.pick(),
            36..=50 => self.answer(),
            51..=68 => self.release(),
            69..=80 => self.scrape(),
            81 => self.drain(),
            82..=83 => self.undrain(),
            84 => self.book(),
            85..=86 => self.canary(),
            87..=96 => self.pass_up_to(2_000),
            97..=98 => self.pass_up_to(90_000),
            _ => self.pass_up_to(4_000_000),
        }
        self.effects();
        self.shadow.check_counts(&self.pool.snapshot(self.now));
        self.pool.check_invariants();
    }

    /// Everything ends: all books return to zero.
    pub(crate) fn finish(&mut self) {
        while !self.leases.is_empty() {
            self.release();
            self.effects();
        }
        let snapshot = self.pool.snapshot(self.now);
        for replica in &snapshot.replicas {
            assert_eq!((replica.inflight, replica.inflight_weight), (0, 0.0), "{}", replica.name);
        }
        self.pass(Duration::from_secs(4 * 3600));
        let snapshot = self.pool.snapshot(self.now);
        assert_eq!((snapshot.session_pins, snapshot.prefix_pins), (0, 0), "idle pins are gone");
    }

    fn add(&mut self, origin: Origin) {
        let n = self.shadow.replicas.len();
        if n >= 8 {
            return;
        }
        let spec = ReplicaSpec {
            name: format!("http://10.0.0.{n}:8000"),
            origin,
            scraped: self.random.below(6) > 0,
            slots: [None, Some(1), Some(4), Some(16)][self.random.index(4)],
            serves: if self.random.below(3) > 0 {
                Serves::All
            } else {
                Serves::Only(vec![ModelId(n as u32 % 2)])
            },
        };
        self.shadow.add(self.now, &spec);
        assert_eq!(self.pool.add(self.now, spec), ReplicaId(n as u32));
    }

    fn pick(&mut self) {
        let tried: Vec<ReplicaId> =
            (0..self.random.below(3)).map(|_| ReplicaId(self.random.below(8) as u32)).collect();
        let hash = self.random.below(6);
        let session = match self.random.below(5) {
            0 | 1 => Some(Session::Explicit(hash)),
            2 => Some(Session::Conversation { hash: 100 + hash, continued: self.random.flip() }),
            _ => None,
        };
        let prefix = self.random.flip().then(|| self.random.below(3));
        let weight = Weight::from_prompt_tokens(self.random.below(3000) * self.random.below(10));
        let model = [None, Some(ModelId(0)), Some(ModelId(1))][self.random.index(3)];
        let request = PickRequest { model, weight, session, prefix, tried: &tried };
        let told = self.pool.explain(self.now, &request).outcome;
        let asked = Asked { request };
        match self.pool.pick(self.now, &request) {
            Err(why) => {
                assert_eq!(told, Err(why));
                self.shadow.check_pick(&asked, Err(why));
            }
            Ok(picked) => {
                assert_eq!(told, Ok((picked.replica, picked.reason, picked.spilled)));
                self.shadow.check_pick(&asked, Ok((picked.replica, picked.reason)));
                self.shadow.serial += 1;
                let (replica, serial) = (picked.replica.0, self.shadow.serial);
                self.shadow.leases.push(Open { replica, weight: weight.0, serial });
                self.leases.push((picked.lease, session, prefix));
            }
        }
    }

    fn answer(&mut self) {
        if let Some(index) = self.random.choose(self.leases.len()) {
            let (lease, session, prefix) = &self.leases[index];
            self.shadow.answered(lease.replica().0, *session, *prefix);
            self.pool.answered(self.now, lease);
        }
    }

    fn release(&mut self) {
        if let Some(index) = self.random.choose(self.leases.len()) {
            self.shadow.leases.remove(index);
            let (lease, ..) = self.leases.remove(index);
            let (verdict, last_byte) = (self.random.verdict(), self.last_byte());
            self.pool.release(self.now, lease, verdict, last_byte);
        }
    }

    fn book(&mut self) {
        let (verdict, last_byte) = (self.random.verdict(), self.last_byte());
        if let Some(id) = self.random.choose(self.shadow.replicas.len()) {
            self.pool.book(self.now, ReplicaId(id as u32), verdict, last_byte);
        }
    }

    fn scrape(&mut self) {
        let waiting: Vec<usize> = (0..self.shadow.replicas.len())
            .filter(|id| self.shadow.replicas[*id].outstanding.is_some())
            .collect();
        if let Some(index) = self.random.choose(waiting.len()) {
            self.answer_scrape(waiting[index]);
        }
    }

    fn answer_scrape(&mut self, id: usize) {
        let scrape = self.random.scrape();
        let replica = &mut self.shadow.replicas[id];
        let started = replica.outstanding.take().expect("one is outstanding");
        if let Scrape::Healthy { load } = &scrape {
            replica.engine = load.map(|load| (load.running, load.waiting));
            replica.seen = started;
        }
        let last_byte = self.last_byte();
        self.pool.scraped(self.now, ReplicaId(id as u32), scrape, last_byte);
    }

    fn drain(&mut self) {
        if let Some(id) = self.random.choose(self.shadow.replicas.len()) {
            self.pool.drain(self.now, ReplicaId(id as u32));
        }
    }

    fn undrain(&mut self) {
        if let Some(id) = self.random.choose(self.shadow.replicas.len()) {
            self.pool.undrain(self.now, ReplicaId(id as u32));
        }
    }

    fn canary(&mut self) {
        if let Some(id) = self.canaries.pop() {
            let answered = self.random.flip();
            self.pool.canary(self.now, id, answered);
        }
    }

    fn pass_up_to(&mut self, millis: u64) {
        let time = Duration::from_millis(self.random.below(millis));
        self.pass(time);
    }

    /// Time passes deadline by deadline; now and then the clock jumps over all of them.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        if self.random.below(4) == 0 {
            self.now = end;
            self.pool.tick(end);
            return;
        }
        while let Some(due) = self.pool.next_deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.pool.tick(self.now);
            self.effects();
            if time > Duration::from_secs(100) {
                self.scrape();
            }
        }
        self.now = end;
    }

    fn effects(&mut self) {
        while let Some(effect) = self.pool.poll_effect() {
            match effect {
                Effect::Scrape(id) => {
                    self.shadow.serial += 1;
                    let serial = self.shadow.serial;
                    let replica: &mut Known = &mut self.shadow.replicas[id.0 as usize];
                    assert!(!replica.hosted && replica.outstanding.is_none(), "a second scrape of {id:?}");
                    replica.outstanding = Some(serial);
                }
                Effect::Canary(id) => self.canaries.push(id),
                Effect::Transition(transition) => {
                    self.shadow.transition(&transition);
                    let upstream = matches!(
                        transition.reason,
                        TransitionReason::UpstreamFailures | TransitionReason::ProbeFailed
                    );
                    self.shadow.replicas[transition.replica.0 as usize].ejected_for_5xx = upstream;
                    self.last_transition = Some(transition);
                }
                Effect::Granted { .. } | Effect::Denied { .. } => panic!("nobody waits"),
                Effect::AbortUnanswered(id) => self.check_abort(id),
                Effect::MetricsChanged { replica, available } => {
                    assert_eq!(self.shadow.replicas[replica.0 as usize].engine.is_some(), available);
                }
            }
        }
    }

    /// Only right after an ejection for refusal or failed scrapes, which then was none for 5xx.
    fn check_abort(&mut self, id: ReplicaId) {
        let last = self.last_transition.as_ref().expect("an ejection");
        let dead = matches!(
            last.reason,
            TransitionReason::Refused | TransitionReason::ScrapesFailed | TransitionReason::ProbeFailed
        );
        assert!(last.replica == id && last.to == Health::Ejected && dead, "aborted after {last:?}");
        self.shadow.replicas[id.0 as usize].ejected_for_5xx = false;
    }

    fn last_byte(&mut self) -> Option<Time> {
        let age = self.random.below(100_000_000_000);
        self.random.flip().then(|| Time::from_nanos(self.now.as_nanos().saturating_sub(age)))
    }
}

/// Marsaglia's xorshift64 ("Xorshift RNGs", 2003, triple 13, 7, 17).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 11) % bound.max(1)
    }

    fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    fn choose(&mut self, len: usize) -> Option<usize> {
        (len > 0).then(|| self.index(len))
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    fn settings(&mut self) -> PoolSettings {
        let mut settings = PoolSettings::default();
        settings.affinity.mode = match self.below(6) {
            0 => AffinityMode::Off,
            1 | 2 => AffinityMode::Consistent,
            _ => AffinityMode::Pins,
        };
        settings.affinity.max_pins = [3, 8, 1000][self.index(3)];
        settings.waiting_counts = if self.flip() { WaitingCounts::Requests } else { WaitingCounts::Weight };
        settings.load_source = if self.below(3) > 0 { LoadSource::Both } else { LoadSource::Engine };
        settings.health.probing_max_inflight = 1 + self.below(2) as u32;
        settings
    }

    fn verdict(&mut self) -> Verdict {
        match self.below(24) {
            0 => Verdict::Refused,
            1 => Verdict::ConnectFailed,
            2 | 3 => Verdict::SilentTimeout,
            4 | 5 => Verdict::Busy,
            6 => Verdict::Failure(Failure::Reset),
            7..=9 => Verdict::Failure(Failure::Status(500)),
            10 => Verdict::Failure(Failure::ErrorEvent(502)),
            11 => Verdict::Deferred,
            12..=14 => Verdict::Neutral,
            _ => Verdict::Success,
        }
    }

    fn scrape(&mut self) -> Scrape {
        match self.below(20) {
            0 => Scrape::Refused,
            1 => Scrape::TimedOut,
            2 => Scrape::Failed,
            3 => Scrape::Loading,
            4 => Scrape::Healthy { load: None },
            _ => Scrape::Healthy {
                load: Some(EngineLoad {
                    running: self.below(6) as u32,
                    waiting: self.below(3).saturating_sub(1) as u32,
                    tokens_total: self.flip().then(|| self.below(3)),
                    kv_usage: None,
                }),
            },
        }
    }
}
