//! A pool on a clock that the test turns.

use sluicegate_core::*;
use std::time::Duration;

pub(crate) struct Bench {
    pub(crate) pool: Pool,
    pub(crate) now: Time,
    /// Every effect so far that `drain_effects` has not taken.
    effects: Vec<Effect>,
}

pub(crate) fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}

pub(crate) fn spec(name: &str, origin: Origin) -> ReplicaSpec {
    ReplicaSpec { name: name.to_owned(), origin, scraped: true, slots: None, serves: Serves::All }
}

fn hosted(name: &str) -> ReplicaSpec {
    ReplicaSpec { scraped: false, ..spec(name, Origin::Startup) }
}

pub(crate) fn healthy(running: u32, waiting: u32) -> Scrape {
    Scrape::Healthy { load: Some(EngineLoad { running, waiting, ..EngineLoad::default() }) }
}

pub(crate) fn request() -> PickRequest<'static> {
    PickRequest { weight: Weight(1000), ..PickRequest::default() }
}

/// What an explanation says would be chosen.
pub(crate) fn told(explanation: &Explanation) -> Result<(ReplicaId, Reason, bool), NoPlace> {
    explanation.outcome.map(|chosen| (chosen.replica, chosen.reason, chosen.spilled))
}

pub(crate) fn session(hash: u64) -> PickRequest<'static> {
    PickRequest { session: Some(Session::Explicit(hash)), ..request() }
}

pub(crate) fn prefix(hash: u64) -> PickRequest<'static> {
    PickRequest { prefix: Some(hash), ..request() }
}

impl Bench {
    pub(crate) fn new(settings: PoolSettings) -> Self {
        Self { pool: Pool::new(settings, 7), now: Time::ZERO, effects: Vec::new() }
    }

    /// `n` idle LIVE replicas with slots for 100 requests each (so that own requests do not count as waiting), and
    /// a second since their first scrape.
    pub(crate) fn live(n: usize, settings: PoolSettings) -> Self {
        let mut bench = Self::new(settings);
        for i in 0..n {
            let spec = ReplicaSpec { slots: Some(100), ..spec(&format!("r{i}"), Origin::Startup) };
            let id = bench.pool.add(bench.now, spec);
            bench.pool.scraped(bench.now, id, healthy(0, 0), None);
        }
        bench.now = bench.now + seconds(1);
        bench.take_effects();
        bench
    }

    pub(crate) fn add_hosted(&mut self, n: usize) {
        for i in 0..n {
            self.pool.add(self.now, hosted(&format!("h{i}")));
        }
    }

    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        while let Some(effect) = self.pool.poll_effect() {
            self.effects.push(effect);
        }
        std::mem::take(&mut self.effects)
    }

    /// Passes time and ticks at every deadline; scrapes stay unanswered.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.pass_with(time, |_, _| None);
    }

    /// Passes time, ticks at every deadline, and answers scrapes as `engine` says, at once. Canaries are answered well.
    pub(crate) fn pass_with(
        &mut self,
        time: Duration,
        mut engine: impl FnMut(Time, ReplicaId) -> Option<Scrape>,
    ) {
        let end = self.now + time;
        loop {
            while let Some(effect) = self.pool.poll_effect() {
                match effect {
                    Effect::Scrape(id) => {
                        if let Some(scrape) = engine(self.now, id) {
                            self.pool.scraped(self.now, id, scrape, None);
                        }
                    }
                    Effect::Canary(id) => self.pool.canary(self.now, id, true),
                    Effect::AbortUnanswered(_)
                    | Effect::Transition(_)
                    | Effect::MetricsChanged { .. }
                    | Effect::Removed(_)
                    | Effect::Granted { .. }
                    | Effect::Denied { .. } => {}
                }
                self.effects.push(effect);
            }
            match self.pool.next_deadline() {
                Some(due) if due <= end => {
                    self.now = self.now.max(due);
                    self.pool.tick(self.now);
                }
                _ => break,
            }
        }
        self.now = end;
    }

    pub(crate) fn pick(&mut self, request: &PickRequest<'_>) -> Picked {
        self.pool.pick(self.now, request).expect("somebody can serve")
    }

    /// Picks and answers at once; the request stays open.
    pub(crate) fn serve(&mut self, request: &PickRequest<'_>) -> Picked {
        let mut picked = self.pick(request);
        self.pool.answered(self.now, &mut picked.lease);
        picked
    }

    /// Picks, answers and ends well: where it went, why, and whether a pin spilled.
    pub(crate) fn turn(&mut self, request: &PickRequest<'_>) -> (u32, Reason, bool) {
        let picked = self.serve(request);
        self.end(picked.lease, Verdict::Success);
        (picked.replica.0, picked.reason, picked.spilled)
    }

    pub(crate) fn end(&mut self, lease: Lease, verdict: Verdict) {
        self.pool.release(self.now, lease, verdict, None);
    }

    /// Opens one request at each of the replicas named.
    pub(crate) fn load(&mut self, at: &[u32]) -> Vec<Lease> {
        at.iter()
            .map(|id| {
                let n = self.pool.snapshot(self.now).replicas.len() as u32;
                let others: Vec<ReplicaId> = (0..n).filter(|other| other != id).map(ReplicaId).collect();
                self.pick(&PickRequest { tried: &others, ..request() }).lease
            })
            .collect()
    }

    pub(crate) fn scrape(&mut self, id: u32, scrape: Scrape) {
        self.pool.scraped(self.now, ReplicaId(id), scrape, None);
    }

    pub(crate) fn book(&mut self, id: u32, verdict: Verdict) {
        if let Some(spell) = self.pool.spell(ReplicaId(id)) {
            self.pool.book(self.now, spell, verdict, None);
        }
    }

    pub(crate) fn health(&self, id: u32) -> Health {
        self.snapshot(id).health
    }

    pub(crate) fn snapshot(&self, id: u32) -> ReplicaSnapshot {
        let replicas = self.pool.snapshot(self.now).replicas;
        replicas.into_iter().find(|replica| replica.id.0 == id).expect("a replica that is there")
    }

    pub(crate) fn pins(&self) -> (usize, usize) {
        let snapshot = self.pool.snapshot(self.now);
        (snapshot.session_pins, snapshot.prefix_pins)
    }
}

/// Effects in short words; scrapes only where `scrapes` says so.
pub(crate) fn words(effects: &[Effect], scrapes: bool) -> Vec<String> {
    effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Scrape(_) => scrapes.then(|| "scrape".to_owned()),
            Effect::Canary(_) => Some("canary".to_owned()),
            Effect::AbortUnanswered(_) => Some("abort".to_owned()),
            Effect::Transition(t) => Some(format!("{}({})", t.to.as_str(), t.reason.as_str())),
            Effect::Granted { .. } => Some("granted".to_owned()),
            Effect::Denied { .. } => Some("denied".to_owned()),
            Effect::Removed(_) => Some("removed".to_owned()),
            Effect::MetricsChanged { available, .. } => {
                Some(format!("metrics{}", if *available { '+' } else { '-' }))
            }
        })
        .collect()
}
