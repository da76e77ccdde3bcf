//! A fleet in virtual time: clients, one decider, N modelled engines, one agenda.
//!
//! The decider is the very core that serves real traffic ([`Gateway`]), or a rival behind the same seam ([`Decider`]).
//! It sees what a gateway sees and no more: its own requests, first bytes, ends, scrapes that take their time. A run
//! follows from its settings, its jobs and the decider's seed, to the bit.
//!
//! # Use
//! [`Fleet::submit`] what is to arrive, [`Fleet::change`] how replicas are to fail, and take what happens from
//! [`Fleet::next`]. Follow-up requests may be submitted while it goes on, at the present moment or later.
//!
//! ```
//! use sluicegate_core::{PoolSettings, Time};
//! use sluicegate_lab::fleet::{Fleet, Gateway, Happening, Job, Outcome, Settings};
//!
//! let settings = Settings::default();
//! let gateway = Gateway::new(PoolSettings::default(), &settings, None, 1);
//! let mut fleet = Fleet::new(settings, gateway);
//! fleet.submit(Job::unique(Time::from_nanos(5_000_000_000), 1_000, 50));
//! let ended = std::iter::from_fn(|| fleet.next(Time::from_nanos(60_000_000_000)))
//!     .find_map(|happening| match happening {
//!         Happening::Ended(record) => Some(record),
//!         _ => None,
//!     });
//! assert_eq!(ended.expect("it ended").outcome, Outcome::Ok);
//! ```
//!
//! # A new decider
//! Implement [`Decider`], or for a rule that only chooses, [`Rival`](crate::rivals::Rival). A mode of the core needs
//! neither: [`Gateway`] builds the core's `PickRequest` in one place, and whatever that asks for comes from the [`Job`].
//!
//! # What takes no time here
//! The network, the gateway itself, and connecting, unless a connection is neither made nor refused. Every attempt has a
//! connection of its own.
mod agenda;
mod attempt;
mod decider;
mod faults;
mod gateway;
mod guard;
mod host;
mod job;
mod record;
mod request;
mod routing;
mod settings;

pub use decider::{Ask, AttemptEnd, Chosen, Decider, Order, Report};
pub use gateway::Gateway;
pub use host::Host;
pub use job::{Job, JobId, Poison};
pub use record::{Happening, Outcome, Record};
pub use routing::{Choosing, PoolPart, RoutePart};
pub use settings::{Fallback, Limits, Settings};

use crate::engine::Output;
use crate::fault::{FaultSpec, chances};
use agenda::{Agenda, Event};
use guard::{Guard, guards};
use request::Request;
use sluicegate_core::{ReplicaId, Time};
use std::collections::VecDeque;

/// A decider, its replicas and its clients.
#[derive(Debug)]
pub struct Fleet<D> {
    settings: Settings,
    decider: D,
    hosts: Vec<Host>,
    requests: Vec<Request>,
    agenda: Agenda,
    now: Time,
    happenings: VecDeque<Happening>,
    /// By route; the last one is of those that have no limits of their own.
    guards: Vec<Guard>,
    /// Tokens in one of the jobs' blocks.
    block_tokens: u32,
    /// The tick that stands in the agenda.
    tick: Option<Time>,
    /// The decider was called since its orders were read last.
    called: bool,
    outputs: Vec<Output>,
    open: usize,
}

impl<D: Decider> Fleet<D> {
    /// All replicas are up and idle, their caches empty. The decider must know of as many of them.
    #[must_use]
    pub fn new(settings: Settings, decider: D) -> Self {
        let block_tokens = settings.block_tokens();
        Self {
            hosts: (0..settings.replicas).map(|index| new_host(&settings, block_tokens, index)).collect(),
            guards: guards(&settings),
            block_tokens,
            settings,
            decider,
            requests: Vec::new(),
            agenda: Agenda::default(),
            now: Time::ZERO,
            happenings: VecDeque::new(),
            tick: None,
            called: true,
            outputs: Vec::new(),
            open: 0,
        }
    }

    /// A request that is to arrive; one whose moment has passed arrives now.
    pub fn submit(&mut self, job: Job) -> JobId {
        let id = JobId::from_index(self.requests.len());
        let arrives = job.arrives.max(self.now);
        self.requests.push(Request::new(id, Job { arrives, ..job }));
        self.agenda.put(arrives, Event::Arrive(id));
        self.open += 1;
        id
    }

    /// From `at` on this is wrong with the replica, in place of what was before; `None`: nothing. An unknown replica is
    /// ignored.
    pub fn change(&mut self, at: Time, replica: ReplicaId, fault: Option<FaultSpec>) {
        self.agenda.put(at.max(self.now), Event::Change(replica, fault));
    }

    /// The client of this request leaves then, if it has no whole answer yet.
    pub fn leave(&mut self, at: Time, job: JobId) {
        self.agenda.put(at.max(self.now), Event::Leave(job));
    }

    /// One replica more, up and idle. The decider is to be told through [`Fleet::with_decider`].
    pub fn add_host(&mut self) -> ReplicaId {
        let id = ReplicaId(u32::try_from(self.hosts.len()).unwrap_or(u32::MAX));
        self.hosts.push(new_host(&self.settings, self.block_tokens, self.hosts.len()));
        id
    }

    /// What happens next, up to and at `until`; `None`: nothing more, and it is `until` now.
    pub fn next(&mut self, until: Time) -> Option<Happening> {
        loop {
            self.obey();
            if let Some(happening) = self.happenings.pop_front() {
                return Some(happening);
            }
            let Some((at, event)) = self.agenda.take(until) else {
                self.now = self.now.max(until);
                return None;
            };
            self.now = self.now.max(at);
            self.handle(event);
        }
    }

    /// The moment it is.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Requests that were submitted and have not ended.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open
    }

    /// The replicas as they truly are.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A request as it was submitted.
    #[must_use]
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.requests.get(id.index()).map(|request| &request.job)
    }

    /// The decider.
    #[must_use]
    pub fn decider(&self) -> &D {
        &self.decider
    }

    /// Calls the decider besides its turn: to drain a replica, to tell it of a new one. Its orders are carried out.
    pub fn with_decider<R>(&mut self, f: impl FnOnce(&mut D, Time) -> R) -> R {
        let result = f(&mut self.decider, self.now);
        self.called = true;
        result
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Step(replica) => return self.step(replica),
            Event::Arrive(job) => self.arrive(job),
            Event::Fail(job, attempt, failure) => self.fail_late(job, attempt, failure),
            Event::Leave(job) => self.client_leaves(job),
            Event::Total(job) => self.time_is_over(job),
            Event::Silence(job) => self.look_at_silence(job),
            Event::Scraped(replica, scrape) => {
                let last_byte = self.last_byte(replica);
                self.decider.report(self.now, Report::Scraped { replica, scrape, last_byte });
            }
            Event::Canary(replica, answered) => {
                self.decider.report(self.now, Report::Canary { replica, answered });
            }
            Event::HealthDue(replica, started) => return self.health_answers(replica, started),
            Event::Change(replica, fault) => self.change_now(replica, fault),
            Event::FaultOver(replica, change) => self.fault_over(replica, change),
            Event::Turn(replica, change, away) => self.turn(replica, change, away),
            // Another one was put before it and has come already.
            Event::Tick if self.tick != Some(self.now) => return,
            Event::Tick => {
                self.tick = None;
                self.decider.tick(self.now);
            }
        }
        self.called = true;
    }

    /// Carries out what the decider orders, and notes when it wants to be ticked.
    fn obey(&mut self) {
        if !std::mem::take(&mut self.called) {
            return;
        }
        while let Some(order) = self.decider.poll() {
            match order {
                Order::Scrape(replica) => self.start_scrape(replica),
                Order::Canary(replica) => self.start_canary(replica),
                Order::AbortUnanswered(replica) => self.abort_unanswered(replica),
                Order::Send { job, replica, reason } => self.granted(job, replica, reason),
                Order::Deny { job, outcome } => self.exhausted(job, outcome),
                Order::Note(transition) => self.happenings.push_back(Happening::Transition(transition)),
            }
        }
        if let Some(due) = self.decider.next_deadline() {
            let due = due.max(self.now);
            if self.tick.is_none_or(|tick| due < tick) {
                self.tick = Some(due);
                self.agenda.put(due, Event::Tick);
            }
        }
    }

    fn step(&mut self, replica: ReplicaId) {
        let Some(host) = self.hosts.get_mut(replica.0 as usize) else { return };
        // An engine that was replaced or frozen meanwhile has another next step.
        if host.due != Some(self.now) {
            return;
        }
        host.due = None;
        let mut outputs = std::mem::take(&mut self.outputs);
        host.advance(self.now, &mut outputs);
        for output in outputs.drain(..) {
            self.token(replica, &output);
        }
        self.outputs = outputs;
        self.schedule_step(replica);
    }

    /// Has the agenda know when the engine's step ends.
    fn schedule_step(&mut self, replica: ReplicaId) {
        let Some(host) = self.hosts.get_mut(replica.0 as usize) else { return };
        let due = host.next_deadline(self.now);
        if due != host.due {
            host.due = due;
            if let Some(due) = due {
                self.agenda.put(due, Event::Step(replica));
            }
        }
    }

    fn last_byte(&self, replica: ReplicaId) -> Option<Time> {
        self.hosts.get(replica.0 as usize).and_then(|host| host.last_byte)
    }
}

fn new_host(settings: &Settings, block_tokens: u32, index: usize) -> Host {
    Host::new(settings.profile_of(index), block_tokens, chances(settings.seed, index))
}

#[cfg(test)]
mod tests;
