//! The random events, and the data plane's part: effects are carried out, answers come late or never good.

use crate::random::Random;
use crate::shadow::{Asked, Known, Open, Shadow};
use sluicegate_core::*;
use std::time::Duration;

pub(crate) struct World {
    pub(crate) random: Random,
    pub(crate) now: Time,
    pub(crate) pool: Pool,
    pub(crate) shadow: Shadow,
    /// Every replica has known slots, and few.
    scarce: bool,
    leases: Vec<(Lease, Option<Session>, Option<u64>)>,
    canaries: Vec<ReplicaId>,
    last_transition: Option<Transition>,
    /// Who is to be told that the queue is full.
    pub(crate) gives_way: Option<Ticket>,
    /// Replicas ever added under an id of their own.
    added: u32,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1);
        let settings = random.settings();
        let pool = Pool::new(settings.clone(), seed);
        let scarce = random.flip();
        let mut world = Self {
            random,
            now: Time::ZERO,
            pool,
            shadow: Shadow::new(settings),
            scarce,
            leases: Vec::new(),
            canaries: Vec::new(),
            last_transition: None,
            gives_way: None,
            added: 0,
        };
        for _ in 0..world.random.below(5) {
            world.add(Origin::Startup);
        }
        world
    }

    pub(crate) fn step(&mut self) {
        match self.random.below(100) {
            0 => self.add(Origin::Discovered),
            1..=9 => self.pick(),
            10..=35 => self.admit(),
            36..=40 => self.leave(),
            41..=48 => self.answer(),
            49..=66 => self.release(),
            67 => self.set_slots(),
            68 => self.set_serves(),
            69..=80 => self.scrape(),
            81 => {
                if self.random.flip() {
                    self.drain()
                } else {
                    self.remove()
                }
            }
            82..=83 => self.undrain(),
            84 => self.book(),
            85..=86 => self.canary(),
            87..=96 => self.pass_up_to(2_000),
            97..=98 => self.pass_up_to(90_000),
            _ => self.pass_up_to(4_000_000),
        }
        self.effects();
        self.shadow.check_counts(&self.pool.snapshot(self.now));
        self.shadow.check_removed(&self.pool.snapshot(self.now));
        self.check_queue();
        self.pool.check_invariants();
    }

    /// Everything ends: all books return to zero.
    pub(crate) fn finish(&mut self) {
        self.pass(Duration::from_secs(200));
        self.effects();
        assert!(self.shadow.queue.is_empty(), "nobody waits for longer than the longest wait");
        while !self.leases.is_empty() {
            self.release();
            self.effects();
        }
        let snapshot = self.pool.snapshot(self.now);
        for replica in &snapshot.replicas {
            assert_eq!((replica.inflight, replica.inflight_weight), (0, 0.0), "{}", replica.name);
        }
        assert_eq!(self.pool.queue(self.now).waiting, []);
        self.pass(Duration::from_secs(4 * 3600));
        let snapshot = self.pool.snapshot(self.now);
        assert_eq!((snapshot.session_pins, snapshot.prefix_pins), (0, 0), "idle pins are gone");
    }

    fn add(&mut self, origin: Origin) {
        if self.shadow.replicas.len() >= 8 {
            return;
        }
        let n = self.free_name();
        let spec = ReplicaSpec {
            name: name(n),
            origin,
            scraped: self.random.below(6) > 0,
            slots: self.random.slots(self.scarce),
            serves: if self.random.below(3) > 0 {
                Serves::All
            } else {
                Serves::Only(vec![ModelId(n as u32 % 2)])
            },
        };
        let leaving = self.shadow.replicas.iter().find(|(_, known)| known.name == spec.name);
        if let Some(id) = leaving.map(|(id, _)| *id) {
            // Before the pool: it may have a transition to tell.
            self.shadow.known_mut(id).leaving = false;
            assert_eq!(self.pool.add(self.now, spec), ReplicaId(id), "it is still there");
            let drained = self.shadow.replicas[&id].drained;
            let health = self.health_of(id);
            assert_eq!(health == Health::Draining, drained, "an administrator's word stands");
            return;
        }
        let id = self.added;
        self.added += 1;
        self.shadow.add(self.now, id, &spec);
        assert_eq!(self.pool.add(self.now, spec), ReplicaId(id), "ids are never used again");
    }

    /// One of few names that no replica has, leaving ones apart.
    fn free_name(&mut self) -> u64 {
        loop {
            let n = self.random.below(12);
            let taken = |known: &Known| !known.leaving && known.name == name(n);
            if !self.shadow.replicas.values().any(taken) {
                return n;
            }
        }
    }

    fn health_of(&self, id: u32) -> Health {
        let snapshot = self.pool.snapshot(self.now);
        snapshot.replicas.iter().find(|seen| seen.id.0 == id).expect("it is there").health
    }

    /// Some at once, or all that are there.
    fn remove(&mut self) {
        let all = self.random.below(4) == 0;
        let ids: Vec<u32> =
            self.shadow.replicas.keys().copied().filter(|_| all || self.random.flip()).collect();
        for id in &ids {
            let known = self.shadow.known_mut(*id);
            if !known.leaving {
                known.leaving = true;
                known.drained = known.health == Health::Draining;
            }
        }
        let ids: Vec<ReplicaId> = ids.into_iter().map(ReplicaId).collect();
        let serving_on = self.pool.remove(self.now, &ids);
        let snapshot = self.pool.snapshot(self.now);
        assert_eq!(serving_on, snapshot.replicas.iter().filter(|seen| seen.outgoing).count());
    }

    /// A replica is gone: nothing of it is left.
    fn removed(&mut self, id: ReplicaId) {
        assert_eq!(self.shadow.inflight(id.0), 0, "gone with leases out");
        let known = self.shadow.replicas.remove(&id.0).expect("it was there");
        assert!(known.leaving && known.health == Health::Draining);
        self.shadow.gone.insert(known.name, (known.cooled, known.ejected));
        self.canaries.retain(|canary| *canary != id);
    }

    fn any_replica(&mut self) -> Option<u32> {
        let nth = self.random.choose(self.shadow.replicas.len())?;
        self.shadow.replicas.keys().copied().nth(nth)
    }

    fn pick(&mut self) {
        let tried: Vec<ReplicaId> =
            (0..self.random.below(3)).map(|_| ReplicaId(self.random.below(8) as u32)).collect();
        let session = self.random.session();
        let prefix = self.random.flip().then(|| self.random.below(3));
        let (weight, model) = (self.random.weight(), self.random.model());
        let (blocks, whole_answer) = (self.random.blocks(), self.random.below(4) == 0);
        let prompt =
            Prompt { tokens: blocks.len() as u32 * 256, blocks: &blocks, block_tokens: 256, whole_answer };
        let request =
            PickRequest { model, weight, session, prefix, prompt, tried: &tried, ..PickRequest::default() };
        let told = self.pool.explain(self.now, &request, None).outcome;
        let told = told.map(|chosen| (chosen.replica, chosen.reason, chosen.spilled));
        let asked = Asked { request, needs_slot: false };
        match self.pool.pick(self.now, &request) {
            Err(why) => {
                assert_eq!(told, Err(NoPlace::NoReplica(why)));
                self.shadow.check_pick(&asked, Err(why));
            }
            Ok(picked) => {
                assert_eq!(told, Ok((picked.replica, picked.reason, picked.spilled)));
                self.shadow.check_pick(&asked, Ok((picked.replica, picked.reason)));
                self.opened(picked, &request);
            }
        }
    }

    /// A request is on its way.
    pub(crate) fn opened(&mut self, picked: Picked, request: &PickRequest<'_>) {
        self.shadow.serial += 1;
        let (replica, serial) = (picked.replica.0, self.shadow.serial);
        self.shadow.open(Open { replica, weight: request.weight.0, serial, answered: false });
        self.leases.push((picked.lease, request.session, request.prefix));
    }

    /// The request that was opened last ends at once.
    fn abandon_last(&mut self) {
        if let (Some((lease, ..)), Some(_)) = (self.leases.pop(), self.shadow.leases.pop()) {
            self.pool.release(self.now, lease, Verdict::Neutral, None);
        }
    }

    fn set_slots(&mut self) {
        if let Some(id) = self.any_replica() {
            let slots = self.random.slots(self.scarce);
            self.shadow.known_mut(id).slots = slots;
            self.pool.set_slots(ReplicaId(id), slots);
        }
    }

    fn set_serves(&mut self) {
        if let Some(id) = self.any_replica() {
            let only = self.random.model();
            self.shadow.known_mut(id).serves = only;
            let serves = only.map_or(Serves::All, |model| Serves::Only(vec![model]));
            self.pool.set_serves(ReplicaId(id), serves);
        }
    }

    fn answer(&mut self) {
        if let Some(index) = self.random.choose(self.leases.len()) {
            self.shadow.unqueued(index);
            let (lease, session, prefix) = &mut self.leases[index];
            self.shadow.answered(lease.replica().0, *session, *prefix);
            self.pool.answered(self.now, lease);
        }
    }

    fn release(&mut self) {
        if let Some(index) = self.random.choose(self.leases.len()) {
            self.shadow.unqueued(index);
            self.shadow.leases.remove(index);
            let (mut lease, ..) = self.leases.remove(index);
            if self.random.flip() {
                let tokens = self.random.below(3000);
                self.pool.served(&mut lease, tokens);
            }
            let (verdict, last_byte) = (self.random.verdict(), self.last_byte());
            self.pool.release(self.now, lease, verdict, last_byte);
        }
    }

    fn book(&mut self) {
        let (verdict, last_byte) = (self.random.verdict(), self.last_byte());
        if let Some(spell) = self.any_replica().and_then(|id| self.pool.spell(ReplicaId(id))) {
            self.pool.book(self.now, spell, verdict, last_byte);
        }
    }

    fn scrape(&mut self) {
        let waits = |(id, known): (&u32, &Known)| known.outstanding.map(|_| *id);
        let waiting: Vec<u32> = self.shadow.replicas.iter().filter_map(waits).collect();
        if let Some(index) = self.random.choose(waiting.len()) {
            self.answer_scrape(waiting[index]);
        }
    }

    fn answer_scrape(&mut self, id: u32) {
        let scrape = self.random.scrape();
        let replica = self.shadow.known_mut(id);
        let started = replica.outstanding.take().expect("one is outstanding");
        if let Scrape::Healthy { load } = &scrape {
            replica.engine = load.map(|load| (load.running, load.waiting));
            replica.foreign = load.map_or(0, |load| (load.running as usize).saturating_sub(replica.own_most));
            replica.seen = started;
            replica.unqueued = 0;
        }
        let last_byte = self.last_byte();
        self.pool.scraped(self.now, ReplicaId(id), scrape, last_byte);
    }

    fn drain(&mut self) {
        if let Some(id) = self.any_replica() {
            self.shadow.known_mut(id).drained = true;
            self.pool.drain(self.now, ReplicaId(id));
        }
    }

    fn undrain(&mut self) {
        if let Some(id) = self.any_replica() {
            self.shadow.known_mut(id).drained = false;
            self.pool.undrain(self.now, ReplicaId(id));
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

    /// Now and then the client of the place given last has left: then it goes to the next.
    fn effects(&mut self) {
        while self.carry_out() && self.random.below(4) == 0 {
            self.abandon_last();
        }
    }

    /// True if somebody was given a place.
    fn carry_out(&mut self) -> bool {
        let mut granted = false;
        while let Some(effect) = self.pool.poll_effect() {
            granted |= matches!(effect, Effect::Granted { .. });
            match effect {
                Effect::Scrape(id) => {
                    self.shadow.serial += 1;
                    let serial = self.shadow.serial;
                    let replica: &mut Known = self.shadow.known_mut(id.0);
                    assert!(!replica.hosted && replica.outstanding.is_none(), "a second scrape of {id:?}");
                    replica.outstanding = Some(serial);
                    self.shadow.scrape_started(id.0);
                }
                Effect::Canary(id) => self.canaries.push(id),
                Effect::Transition(transition) => {
                    self.shadow.transition(&transition);
                    let upstream = matches!(
                        transition.reason,
                        TransitionReason::UpstreamFailures | TransitionReason::ProbeFailed
                    );
                    self.shadow.known_mut(transition.replica.0).ejected_for_5xx = upstream;
                    self.last_transition = Some(transition);
                }
                Effect::Removed(id) => self.removed(id),
                Effect::Granted { ticket, picked } => self.granted(ticket, picked),
                Effect::Denied { ticket, why } => self.denied(ticket, why),
                Effect::AbortUnanswered(id) => self.check_abort(id),
                Effect::MetricsChanged { replica, available } => {
                    assert_eq!(self.shadow.replicas[&replica.0].engine.is_some(), available);
                }
            }
        }
        granted
    }

    /// Only right after an ejection for refusal or failed scrapes, which then was none for 5xx.
    fn check_abort(&mut self, id: ReplicaId) {
        let last = self.last_transition.as_ref().expect("an ejection");
        let dead = matches!(
            last.reason,
            TransitionReason::Refused | TransitionReason::ScrapesFailed | TransitionReason::ProbeFailed
        );
        assert!(last.replica == id && last.to == Health::Ejected && dead, "aborted after {last:?}");
        self.shadow.known_mut(id.0).ejected_for_5xx = false;
    }

    fn last_byte(&mut self) -> Option<Time> {
        let age = self.random.below(100_000_000_000);
        self.random.flip().then(|| Time::from_nanos(self.now.as_nanos().saturating_sub(age)))
    }
}

fn name(n: u64) -> String {
    format!("http://10.0.0.{n}:8000")
}
