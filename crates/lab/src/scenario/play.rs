//! Plays a scenario in virtual time.

use super::chooser::{Chooser, Rule, fleet_settings, gateway};
use super::seen::{Origin, Sample, Seen};
use super::spec::{Planned, Scenario, Target};
use super::talk::{Talk, requests};
use super::watch::Watch;
use crate::fault::FaultSpec;
use crate::fleet::{Fleet, Happening, Job, JobId, Record};
use sluicegate_core::{ReplicaId, Time};
use std::collections::HashMap;
use std::time::Duration;

/// How often the pool's numbers are looked at.
const SAMPLE: Duration = Duration::from_secs(1);

/// Plays it in this mode, to its end and until no request is open any more. The same arguments show the same.
/// With a rule `off` the gateway goes without it.
#[must_use]
pub fn play(scenario: &Scenario, chooser: Chooser, off: Option<Rule>, seed: u64) -> Seen {
    let mut seen = Player::new(scenario, chooser, off, seed, None).run();
    if let Some(alone) = &scenario.alone {
        seen.alone = Some(Box::new(Player::new(scenario, chooser, off, seed, Some(alone)).run()));
    }
    seen
}

/// Something that the scenario does at a given time.
#[derive(Clone, Debug)]
enum Act {
    Fail(Target, FaultSpec),
    Load(Target, u32, u32),
    Unload(usize),
}

struct Player<'a> {
    scenario: &'a Scenario,
    fleet: Fleet<Watch>,
    block_tokens: u32,
    talks: Vec<(usize, Talk)>,
    /// The conversation whose turn a request is.
    turns: HashMap<JobId, usize>,
    acts: Vec<(Time, Act)>,
    /// Where each act with a target that must be looked up went, so that what follows it goes there too.
    resolved: HashMap<String, ReplicaId>,
    loads: Vec<Option<ReplicaId>>,
    seen: Seen,
}

impl<'a> Player<'a> {
    fn new(
        scenario: &'a Scenario,
        chooser: Chooser,
        off: Option<Rule>,
        seed: u64,
        only: Option<&str>,
    ) -> Self {
        let settings = fleet_settings(&scenario.fleet, off, seed);
        let gateway = gateway(chooser, &scenario.fleet, &settings, off, seed);
        let watch = Watch::new(gateway, settings.replicas, chooser == Chooser::Predictive, off);
        let block_tokens = settings.profile.block_tokens;
        let seen = Seen {
            groups: scenario.names().map(str::to_owned).collect(),
            replicas: settings.replicas,
            ..Seen::default()
        };
        let mut player = Self {
            scenario,
            fleet: Fleet::new(settings, watch),
            block_tokens,
            talks: Vec::new(),
            turns: HashMap::new(),
            acts: acts(scenario),
            resolved: HashMap::new(),
            loads: Vec::new(),
            seen,
        };
        player.traffic(seed, only);
        player
    }

    fn traffic(&mut self, seed: u64, only: Option<&str>) {
        let asked = |name: &str| only.is_none_or(|only| only == name);
        for (group, spec) in self.scenario.requests.iter().enumerate().filter(|(_, spec)| asked(&spec.name)) {
            for (origin, job) in requests(group, spec, self.block_tokens, seed) {
                self.submit(origin, job);
            }
        }
        for (index, spec) in self.scenario.sessions.iter().enumerate().filter(|(_, spec)| asked(&spec.name)) {
            for (at, talk) in Talk::all(self.scenario.requests.len() + index, spec, seed) {
                self.talks.push((index, talk));
                self.say(self.talks.len() - 1, at);
            }
        }
    }

    fn submit(&mut self, origin: Origin, job: Job) -> JobId {
        self.seen.jobs.push(origin);
        self.fleet.submit(job)
    }

    /// The next turn of a conversation.
    fn say(&mut self, index: usize, at: Time) {
        let Some((spec, talk)) = self.talks.get_mut(index) else { return };
        let Some(spec) = self.scenario.sessions.get(*spec) else { return };
        if at >= self.scenario.run_for.time() {
            return;
        }
        if let Some((origin, job)) = talk.next(spec, at, self.block_tokens) {
            let id = self.submit(origin, job);
            self.turns.insert(id, index);
        }
    }

    fn run(mut self) -> Seen {
        let end = self.scenario.run_for.time();
        let mut next_act = 0;
        let mut sample = Time::ZERO + SAMPLE;
        // A request lasts no longer than the total limit.
        while sample <= end || self.fleet.open() > 0 {
            let act = self.acts.get(next_act).cloned();
            match act {
                Some((at, act)) if at <= sample => {
                    self.until(at);
                    self.act(&act);
                    next_act += 1;
                }
                _ => {
                    self.until(sample);
                    let snapshot = self.fleet.decider().gateway.pool().snapshot(sample);
                    self.seen.samples.push(Sample::of(sample, &snapshot));
                    sample = sample + SAMPLE;
                }
            }
        }
        self.close()
    }

    fn until(&mut self, at: Time) {
        while let Some(happening) = self.fleet.next(at) {
            if let Happening::Ended(record) = &happening {
                self.go_on(record);
            }
            self.seen.happenings.push(happening);
        }
    }

    fn go_on(&mut self, record: &Record) {
        let Some(index) = self.turns.remove(&record.job) else { return };
        let Some((spec, talk)) = self.talks.get_mut(index) else { return };
        let Some(spec) = self.scenario.sessions.get(*spec) else { return };
        let at = record.end + talk.pause(spec);
        self.say(index, at);
    }

    fn act(&mut self, act: &Act) {
        let now = self.fleet.now();
        match act {
            Act::Fail(target, fault) => {
                let Some(replica) = self.resolve(target) else { return };
                self.fleet.change(now, replica, Some(*fault));
                self.seen.faults.push((now, replica));
            }
            Act::Load(target, running, waiting) => {
                let replica = self.resolve(target);
                self.loads.push(replica);
                let Some(replica) = replica else { return };
                self.set_load(replica, (*running, *waiting));
                self.seen.elsewhere.push((now, replica));
            }
            Act::Unload(index) => {
                if let Some(Some(replica)) = self.loads.get(*index).copied() {
                    self.set_load(replica, (0, 0));
                }
            }
        }
    }

    fn set_load(&mut self, replica: ReplicaId, load: (u32, u32)) {
        self.fleet.with_decider(|watch, _| {
            if let Some(place) = watch.elsewhere.get_mut(replica.0 as usize) {
                *place = load;
            }
        });
    }

    fn resolve(&mut self, target: &Target) -> Option<ReplicaId> {
        match target {
            Target::Number(number) => Some(ReplicaId(*number)),
            Target::LastOf(name) => {
                if let Some(known) = self.resolved.get(name) {
                    return Some(*known);
                }
                let replica = self.seen.sent(Some(name)).last()?.replica;
                self.resolved.insert(name.clone(), replica);
                Some(replica)
            }
        }
    }

    fn close(self) -> Seen {
        let Self { mut fleet, mut seen, .. } = self;
        let pool = fleet.decider().gateway.pool().snapshot(fleet.now());
        let (leases, waiting) = fleet.decider().gateway.held();
        let inflight: u32 = pool.replicas.iter().map(|replica| replica.inflight).sum();
        let engines = fleet.hosts().iter().map(|host| {
            let counters = host.engine().counters();
            host.inflight() + counters.running as usize + counters.waiting as usize
        });
        seen.left_behind = leases + waiting + inflight as usize + engines.sum::<usize>() + fleet.open();
        (seen.choices, seen.scrapes) = fleet.with_decider(|watch, _| {
            (std::mem::take(&mut watch.choices), std::mem::take(&mut watch.scrapes))
        });
        seen
    }
}

/// All acts in order of time.
fn acts(scenario: &Scenario) -> Vec<(Time, Act)> {
    let mut acts: Vec<(Time, Act)> = scenario.faults.iter().flat_map(onsets).collect();
    let mut loads: Vec<_> = scenario.elsewhere.iter().collect();
    loads.sort_by_key(|load| load.at);
    for (index, load) in loads.into_iter().enumerate() {
        acts.push((load.at.time(), Act::Load(load.replica.clone(), load.running, load.waiting)));
        acts.push((load.until.time(), Act::Unload(index)));
    }
    acts.sort_by_key(|(at, _)| *at);
    acts
}

fn onsets(planned: &Planned) -> Vec<(Time, Act)> {
    let fault = FaultSpec { lasts: planned.lasting.map(|lasting| lasting.0), ..planned.becomes };
    let mut acts = Vec::new();
    let mut at = planned.at.time();
    loop {
        acts.push((at, Act::Fail(planned.replica.clone(), fault)));
        let (Some(lasting), Some(again), Some(until)) = (planned.lasting, planned.again_after, planned.until)
        else {
            return acts;
        };
        at = at + lasting.0.max(Duration::from_millis(1)) + again.0;
        if at >= until.time() {
            return acts;
        }
    }
}
