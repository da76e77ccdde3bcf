//! One replica as the network shows it: an engine that may be dead, frozen, slow or at fault.

use super::{Condition, JobId};
use crate::engine::{Output, Profile, Replica, Request, RequestId, SubmitError};
use sluicegate_core::{EngineLoad, Scrape, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// One replica.
#[derive(Debug)]
pub struct Host {
    engine: Replica,
    profile: Profile,
    /// Blocks of a job in one of the engine's.
    step: usize,
    condition: Condition,
    /// How long the engine's own time has stood still, up to the last thaw.
    stood: Duration,
    frozen_since: Option<Time>,
    /// Requests that a frozen process has in its socket, unread.
    unread: Vec<(JobId, Request)>,
    /// Attempts that are open here.
    pub(super) open: BTreeSet<JobId>,
    /// When a stream byte last came from here.
    pub(super) last_byte: Option<Time>,
    /// The end of step that stands in the agenda.
    pub(super) due: Option<Time>,
}

/// What a replica does with a request that reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It is in the engine, or will be.
    In,
    /// It is answered at once with this status.
    Status(u16),
    Refused,
    /// The connection is not made, and not refused.
    Nothing,
}

impl Host {
    /// Jobs' blocks are of `block_tokens` tokens.
    pub(super) fn new(profile: Profile, block_tokens: u32) -> Self {
        Self {
            engine: Replica::new(profile.clone()),
            step: (profile.block_tokens / block_tokens.max(1)).max(1) as usize,
            profile,
            condition: Condition::Up,
            stood: Duration::ZERO,
            frozen_since: None,
            unread: Vec::new(),
            open: BTreeSet::new(),
            last_byte: None,
            due: None,
        }
    }

    /// The engine, as no gateway can see it.
    #[must_use]
    pub fn engine(&self) -> &Replica {
        &self.engine
    }

    /// Its limits and its speed when all is well.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// How it is.
    #[must_use]
    pub fn condition(&self) -> Condition {
        self.condition
    }

    /// Attempts that are open here, first byte or not.
    #[must_use]
    pub fn inflight(&self) -> usize {
        self.open.len()
    }

    /// A job's blocks in the engine's own block size: a hash stands for everything before it, too.
    pub(super) fn hashes(&self, blocks: &[u64]) -> Vec<u64> {
        blocks.iter().copied().skip(self.step - 1).step_by(self.step).collect()
    }

    pub(super) fn take(&mut self, now: Time, job: JobId, request: Request) -> Taken {
        match self.condition {
            Condition::Dead => Taken::Refused,
            Condition::Unreachable => Taken::Nothing,
            Condition::Loading => Taken::Status(503),
            Condition::Failing { status, .. } => Taken::Status(status),
            Condition::Frozen { .. } => {
                self.unread.push((job, request));
                Taken::In
            }
            Condition::Up | Condition::Slow(_) => self.submit(now, job, request),
        }
    }

    /// The client's connection is closed.
    pub(super) fn abort(&mut self, now: Time, job: JobId) {
        self.unread.retain(|(other, _)| *other != job);
        self.engine.abort(self.local(now), RequestId(u64::from(job.0)));
    }

    /// Completes the steps that are due and moves what they generated to `outputs`.
    pub(super) fn advance(&mut self, now: Time, outputs: &mut Vec<Output>) {
        self.engine.advance(self.local(now));
        outputs.extend(std::iter::from_fn(|| self.engine.poll_output()));
    }

    /// When the host is to be advanced: at the end of the step under way, or at once where a request that came or left in
    /// the very moment of a step's end has completed it. `None` while idle or frozen.
    pub(super) fn next_deadline(&self, now: Time) -> Option<Time> {
        if self.engine.has_output() {
            return Some(now);
        }
        let due = self.engine.next_deadline()?;
        self.frozen_since.is_none().then(|| Time::ZERO + due + self.stood)
    }

    /// What a scrape that begins now will say, and whether only its time limit ends it.
    pub(super) fn scrape(&self) -> Scrape {
        match self.condition {
            Condition::Dead => Scrape::Refused,
            Condition::Unreachable | Condition::Frozen { health: false } => Scrape::TimedOut,
            Condition::Loading => Scrape::Loading,
            Condition::Failing { health: false, .. } => Scrape::Failed,
            Condition::Up
            | Condition::Slow(_)
            | Condition::Failing { health: true, .. }
            | Condition::Frozen { health: true } => Scrape::Healthy { load: Some(self.load()) },
        }
    }

    /// Whether a canary that is sent now is answered. The engine's load is not looked at: one token comes in time.
    pub(super) fn answers_canary(&self) -> bool {
        matches!(self.condition, Condition::Up | Condition::Slow(_))
    }

    /// What the engine's metrics say now.
    #[must_use]
    pub fn load(&self) -> EngineLoad {
        let counters = self.engine.counters();
        EngineLoad {
            running: counters.running,
            waiting: self.engine.shown_waiting(),
            tokens_total: Some(counters.prompt_tokens + counters.generation_tokens),
            kv_usage: Some(counters.kv_usage() as f32),
            kv_tokens: Some(u64::from(counters.kv_blocks) * u64::from(self.profile.block_tokens)),
        }
    }

    /// From now on it is like this. True where the process ended: all that was open here is lost.
    pub(super) fn change(&mut self, now: Time, condition: Condition) -> bool {
        if let Some(since) = self.frozen_since.take() {
            self.stood += now.since(since);
        }
        let was_gone = self.condition.is_gone();
        self.condition = condition;
        if condition.is_gone() && !was_gone {
            self.engine = Replica::new(self.profile.clone());
            self.unread.clear();
            return true;
        }
        self.engine.set_cost(self.profile.cost.slowed(condition.slowness()));
        if condition.is_still() {
            self.frozen_since = Some(now);
            return false;
        }
        for (job, request) in std::mem::take(&mut self.unread) {
            // Nobody waits for the answer of a refusal that comes so late; the request's own limits end it.
            self.submit(now, job, request);
        }
        false
    }

    fn submit(&mut self, now: Time, job: JobId, request: Request) -> Taken {
        match self.engine.submit(self.local(now), RequestId(u64::from(job.0)), request) {
            Ok(()) => Taken::In,
            Err(SubmitError::QueueFull) => Taken::Status(503),
            Err(SubmitError::TooLarge { .. } | SubmitError::DuplicateId) => Taken::Status(400),
        }
    }

    /// The engine's own time, which stands still while it is frozen.
    fn local(&self, now: Time) -> Duration {
        self.frozen_since.unwrap_or(now).since(Time::ZERO).saturating_sub(self.stood)
    }
}
