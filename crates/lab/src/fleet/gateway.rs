//! The decision core as the data plane drives it: one pool, its leases, its queue.

use super::{Ask, AttemptEnd, Chosen, Decider, Job, JobId, Order, Outcome, Report, Settings};
use sluicegate_core::{
    Admission, Effect, Explanation, Lease, Mode, Origin, PickRequest, Picked, Policies, Pool, PoolSettings,
    Prompt, QueueLimits, ReplicaSpec, RouteIndex, Scoring, Serves, Ticket, Time, Waiting, Weight,
};
use std::collections::HashMap;

/// A mode of the core with what it goes by. `weighted` is missing: it chooses among pools.
#[derive(Clone, Debug)]
pub enum Choosing {
    /// The five steps.
    Adaptive,
    /// The lowest predicted cost.
    Predictive,
    /// One LIVE replica after the other.
    RoundRobin,
    /// The largest total of weighted scores; a decision service is not asked.
    Policy(Policies),
}

impl Choosing {
    fn mode(&self) -> Mode<'_> {
        match self {
            Self::Adaptive => Mode::Adaptive,
            Self::Predictive => Mode::Predictive,
            Self::RoundRobin => Mode::RoundRobin,
            Self::Policy(policies) => Mode::Policy(Scoring { policies, decision: None }),
        }
    }
}

/// Our own modes.
#[derive(Debug)]
pub struct Gateway {
    pool: Pool,
    /// By request; at most one of each is out.
    leases: HashMap<JobId, Lease>,
    waiting: HashMap<Ticket, JobId>,
    tickets: HashMap<JobId, Ticket>,
    limits: QueueLimits,
    names: usize,
    choosing: Choosing,
    /// Engine blocks in one block of prompt text, and tokens in one of these.
    blocks: (usize, u32),
    prompt_blocks: Vec<u64>,
}

impl Gateway {
    /// In front of the replicas of `settings`, each with so many slots where they are known, all known from the start.
    #[must_use]
    pub fn new(pool: PoolSettings, settings: &Settings, slots: Option<u32>, seed: u64) -> Self {
        let mut gateway = Self {
            leases: HashMap::new(),
            waiting: HashMap::new(),
            tickets: HashMap::new(),
            limits: QueueLimits::default(),
            names: 0,
            choosing: if pool.predict { Choosing::Predictive } else { Choosing::Adaptive },
            blocks: text_blocks(settings.profile.block_tokens),
            prompt_blocks: Vec::new(),
            pool: Pool::new(pool, seed),
        };
        for _ in 0..settings.replicas {
            gateway.add(Time::ZERO, Origin::Startup, slots);
        }
        gateway
    }

    /// One replica more; it must be the one that [`Fleet::add_host`](super::Fleet::add_host) gave out last.
    pub fn add(&mut self, now: Time, origin: Origin, slots: Option<u32>) {
        let name = format!("http://replica-{}:8000", self.names);
        self.names += 1;
        self.pool.add(now, ReplicaSpec { name, origin, scraped: true, slots, serves: Serves::All });
    }

    /// Sets the bounds of the queue.
    #[must_use]
    pub fn with_queue(self, limits: QueueLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the mode. Without it, it is `predictive` or `adaptive` as the pool's settings say.
    #[must_use]
    pub fn with_mode(self, choosing: Choosing) -> Self {
        Self { choosing, ..self }
    }

    /// What [`Decider::choose`] would choose and why, reserving nothing.
    #[must_use]
    pub fn explain(&mut self, now: Time, ask: &Ask<'_>) -> Explanation {
        let mut blocks = Vec::new();
        blocks_of(ask.job, self.blocks, &mut blocks);
        self.pool.explain(now, &question(ask, self.choosing.mode(), self.blocks.1, &blocks), None)
    }

    /// The core.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Leases that are out and requests that wait: 0 and 0 where all have ended.
    #[must_use]
    pub fn held(&self) -> (usize, usize) {
        (self.leases.len(), self.waiting.len())
    }

    fn take(&mut self, id: JobId, picked: Picked) -> (sluicegate_core::ReplicaId, &'static str) {
        self.leases.insert(id, picked.lease);
        (picked.replica, picked.reason.as_str())
    }
}

/// The gateway cuts prompts into pieces of some 256 tokens, or of one engine block where that is larger.
fn text_blocks(engine: u32) -> (usize, u32) {
    let step = (256 / engine.max(1)).max(1);
    (step as usize, step * engine.max(1))
}

/// What is known of the prompt; not what lies in the answer.
fn blocks_of(job: &Job, (step, block_tokens): (usize, u32), into: &mut Vec<u64>) {
    let known = (job.prompt_tokens / block_tokens) as usize;
    into.clear();
    into.extend(job.blocks.iter().skip(step - 1).step_by(step).take(known));
}

fn question<'a>(ask: &Ask<'a>, mode: Mode<'a>, block_tokens: u32, blocks: &'a [u64]) -> PickRequest<'a> {
    let job = ask.job;
    let prompt = Prompt { tokens: job.prompt_tokens, blocks, block_tokens, whole_answer: !job.stream };
    PickRequest {
        prompt,
        mode,
        weight: Weight::from_prompt_tokens(u64::from(job.prompt_tokens)),
        session: job.session,
        prefix: job.prefix,
        tried: ask.tried,
        ..PickRequest::default()
    }
}

impl Decider for Gateway {
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen {
        let job = ask.job;
        blocks_of(job, self.blocks, &mut self.prompt_blocks);
        let request = question(ask, self.choosing.mode(), self.blocks.1, &self.prompt_blocks);
        let admission = if ask.with_room {
            self.pool.pick_with_room(now, &request).map_or_else(Admission::No, Admission::Picked)
        } else {
            let waiting = Waiting {
                key: job.key,
                route: RouteIndex(0),
                priority: 0,
                cost_tokens: u64::from(job.prompt_tokens),
                limits: self.limits,
            };
            self.pool.admit(now, &request, waiting)
        };
        match admission {
            Admission::Picked(picked) => {
                let (replica, reason) = self.take(ask.id, picked);
                Chosen::Replica { replica, reason }
            }
            Admission::Queued(ticket) => {
                self.waiting.insert(ticket, ask.id);
                self.tickets.insert(ask.id, ticket);
                Chosen::Waits
            }
            Admission::Full { .. } => Chosen::Refused(Outcome::RejectedQueue),
            Admission::No(_) => Chosen::Refused(Outcome::NoReplica),
        }
    }

    fn left(&mut self, _: Time, job: JobId) {
        if let Some(ticket) = self.tickets.remove(&job) {
            self.waiting.remove(&ticket);
            self.pool.leave(ticket);
        }
    }

    fn first_byte(&mut self, now: Time, job: JobId) {
        if let Some(lease) = self.leases.get(&job) {
            self.pool.answered(now, lease);
        }
    }

    fn ended(&mut self, now: Time, job: JobId, end: AttemptEnd) {
        let Some(mut lease) = self.leases.remove(&job) else { return };
        if let Some(tokens) = end.served {
            self.pool.served(&mut lease, tokens);
        }
        if let Some(tokens) = end.generated {
            self.pool.generated(tokens);
        }
        self.pool.release(now, lease, end.verdict, end.last_byte);
    }

    fn report(&mut self, now: Time, report: Report) {
        match report {
            Report::Scraped { replica, scrape, last_byte } => {
                self.pool.scraped(now, replica, scrape, last_byte);
            }
            Report::Canary { replica, answered } => self.pool.canary(now, replica, answered),
            Report::Booked { replica, verdict, last_byte } => {
                if let Some(spell) = self.pool.spell(replica) {
                    self.pool.book(now, spell, verdict, last_byte);
                }
            }
        }
    }

    fn tick(&mut self, now: Time) {
        self.pool.tick(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.pool.next_deadline()
    }

    fn poll(&mut self) -> Option<Order> {
        loop {
            return Some(match self.pool.poll_effect()? {
                Effect::Scrape(replica) => Order::Scrape(replica),
                Effect::Canary(replica) => Order::Canary(replica),
                Effect::AbortUnanswered(replica) => Order::AbortUnanswered(replica),
                Effect::Transition(transition) => Order::Note(transition),
                Effect::MetricsChanged { .. } | Effect::Removed(_) => continue,
                Effect::Granted { ticket, picked } => {
                    let Some(job) = self.waiting.remove(&ticket) else {
                        debug_assert!(false, "orders are read before anybody can leave");
                        continue;
                    };
                    self.tickets.remove(&job);
                    let (replica, reason) = self.take(job, picked);
                    Order::Send { job, replica, reason }
                }
                Effect::Denied { ticket, why } => {
                    let Some(job) = self.waiting.remove(&ticket) else { continue };
                    self.tickets.remove(&job);
                    let outcome = match why {
                        sluicegate_core::Denial::NoReplica(_) => Outcome::NoReplica,
                        sluicegate_core::Denial::QueueFull { .. }
                        | sluicegate_core::Denial::QueueTimeout { .. } => Outcome::RejectedQueue,
                    };
                    Order::Deny { job, outcome }
                }
            });
        }
    }
}
