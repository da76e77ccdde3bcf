//! One replica as the network shows it: an engine, and what is wrong with it.

use super::JobId;
use crate::engine::{Output, Profile, Replica, Request, RequestId, SubmitError};
use crate::fault::{Fault, FaultSpec};
use crate::rng::SeededRng;
use sluicegate_core::{AttemptFailure, EngineLoad, Scrape, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// One replica.
#[derive(Debug)]
pub struct Host {
    engine: Replica,
    profile: Profile,
    /// Blocks of a job in one of the engine's.
    step: usize,
    fault: Option<FaultSpec>,
    /// Counts the changes: what was planned before the last one is void.
    pub(super) changes: u64,
    /// It flaps, and is gone just now.
    away: bool,
    chances: SeededRng,
    /// Requests that were read and are not answered.
    held: Vec<(JobId, Request)>,
    /// Attempts that are open here.
    pub(super) open: BTreeSet<JobId>,
    /// When a stream byte last came from here.
    pub(super) last_byte: Option<Time>,
    /// The end of step that stands in the agenda.
    pub(super) due: Option<Time>,
}

/// What a replica does with a request that comes to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Met {
    /// It is for the engine; its answer may be spoiled.
    Served(Option<Spoil>),
    Fails(AttemptFailure),
    /// The connection is not made, and not refused.
    NotConnected,
    /// Read, and nothing more.
    Held,
}

/// How an answer goes wrong on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoil {
    /// Tokens of a stream before that.
    pub(super) after: u32,
    /// The code of the error event that comes then; `None`: a cut.
    pub(super) says: Option<u16>,
}

/// How all that was open ends with a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Onset {
    /// It does not.
    Nothing,
    /// The process was killed: connections are cut.
    Killed,
    /// The engine's process has died: its server says so.
    EngineDied,
    /// As at a SIGTERM: answers end where they are.
    Aborted,
}

impl Host {
    /// Jobs' blocks are of `block_tokens` tokens; `chances` decides whom a fault befalls that is not for all.
    pub(super) fn new(profile: Profile, block_tokens: u32, chances: SeededRng) -> Self {
        Self {
            engine: Replica::new(profile.clone()),
            step: (profile.block_tokens / block_tokens.max(1)).max(1) as usize,
            profile,
            fault: None,
            changes: 0,
            away: false,
            chances,
            held: Vec::new(),
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

    /// What is wrong with it; `None`: all is well.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault.map(|spec| spec.fault)
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

    /// What becomes of a request that comes now, before the engine sees it.
    pub(super) fn meet(&mut self, stream: bool) -> Met {
        let Some(spec) = &mut self.fault else { return Met::Served(None) };
        let struck = !spec.fault.hits_requests() || spec.strikes(&mut self.chances);
        if !struck {
            return Met::Served(None);
        }
        match spec.fault {
            Fault::Slow { .. } | Fault::Frozen | Fault::SlowHealth(_) => Met::Served(None),
            Fault::Flap { .. } if !self.away => Met::Served(None),
            Fault::Flap { .. } | Fault::Refuse | Fault::Dead | Fault::Sigterm => {
                Met::Fails(AttemptFailure::Refused)
            }
            Fault::Unreachable => Met::NotConnected,
            Fault::Loading => Met::Fails(AttemptFailure::Status(503)),
            Fault::EngineDead => Met::Fails(AttemptFailure::Status(500)),
            Fault::Status(status) => Met::Fails(AttemptFailure::Status(status)),
            Fault::Reset => Met::Fails(AttemptFailure::Reset { sent_whole: true }),
            Fault::Hang => Met::Held,
            Fault::Cut { after } => Met::Served(Some(Spoil { after, says: None })),
            Fault::ErrorEvent { status, .. } if !stream => Met::Fails(AttemptFailure::Status(status)),
            Fault::ErrorEvent { after: 0, status } => Met::Fails(AttemptFailure::ErrorEvent(status)),
            Fault::ErrorEvent { after, status } => Met::Served(Some(Spoil { after, says: Some(status) })),
        }
    }

    pub(super) fn hold(&mut self, job: JobId, request: Request) {
        self.held.push((job, request));
    }

    /// Hands a request to the engine. An error: it is answered at once with this status.
    pub(super) fn submit(&mut self, now: Time, job: JobId, request: Request) -> Result<(), u16> {
        let id = RequestId(u64::from(job.0));
        self.engine.submit(since_start(now), id, request).map_err(|refusal| match refusal {
            SubmitError::QueueFull => 503,
            SubmitError::TooLarge { .. } | SubmitError::DuplicateId => 400,
        })
    }

    /// The client's connection is closed.
    pub(super) fn abort(&mut self, now: Time, job: JobId) {
        self.held.retain(|(other, _)| *other != job);
        self.engine.abort(since_start(now), RequestId(u64::from(job.0)));
    }

    /// Completes the steps that are due and moves what they generated to `outputs`.
    pub(super) fn advance(&mut self, now: Time, outputs: &mut Vec<Output>) {
        self.engine.advance(since_start(now));
        outputs.extend(std::iter::from_fn(|| self.engine.poll_output()));
    }

    /// When the host is to be advanced: at the end of the step under way, or at once where a request that came or left in
    /// the very moment of a step's end has completed it. `None` while idle or frozen.
    pub(super) fn next_deadline(&self, now: Time) -> Option<Time> {
        if self.engine.has_output() {
            return Some(now);
        }
        self.engine.next_deadline().map(|due| Time::ZERO + due)
    }

    /// How long `/health` takes beside what any scrape does.
    pub(super) fn health_delay(&self) -> Duration {
        match self.fault() {
            Some(Fault::SlowHealth(delay)) => delay,
            _ => Duration::ZERO,
        }
    }

    /// What a scrape that is answered now will say, and whether only its time limit ends it.
    pub(super) fn scrape(&self) -> Scrape {
        match self.fault() {
            Some(Fault::Refuse | Fault::Dead | Fault::Sigterm) => Scrape::Refused,
            Some(Fault::Flap { .. }) if self.away => Scrape::Refused,
            Some(Fault::Unreachable) => Scrape::TimedOut,
            Some(Fault::Loading) => Scrape::Loading,
            Some(Fault::EngineDead) => Scrape::Failed,
            _ => Scrape::Healthy { load: Some(self.load()) },
        }
    }

    /// Whether a canary that is sent now is answered well: one token and no stream. The engine's load is not looked at, the
    /// token comes in time.
    pub(super) fn answers_canary(&mut self) -> bool {
        self.meet(false) == Met::Served(None) && self.fault() != Some(Fault::Frozen)
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

    /// From now on this is wrong with it, in place of what was before; `None`: nothing.
    pub(super) fn change(&mut self, now: Time, fault: Option<FaultSpec>) -> Onset {
        self.changes += 1;
        let was_gone = self.is_gone();
        (self.fault, self.away) = (fault, false);
        let slowness = match self.fault() {
            Some(Fault::Slow { factor }) => factor,
            _ => 1.0,
        };
        self.engine.set_cost(self.profile.cost.slowed(slowness));
        let still = matches!(self.fault(), Some(Fault::Frozen | Fault::Unreachable));
        self.engine.set_frozen(since_start(now), still);
        match self.fault() {
            Some(Fault::Dead | Fault::Loading) if !was_gone => self.killed(),
            Some(Fault::EngineDead) => Onset::EngineDied,
            Some(Fault::Sigterm) if !was_gone => {
                self.killed();
                Onset::Aborted
            }
            _ => Onset::Nothing,
        }
    }

    /// The next phase of one that flaps.
    pub(super) fn turn(&mut self, away: bool) -> Onset {
        self.away = away;
        if away { self.killed() } else { Onset::Nothing }
    }

    /// What was held and is to be answered after all.
    pub(super) fn let_go(&mut self) -> Vec<(JobId, Request)> {
        std::mem::take(&mut self.held)
    }

    fn killed(&mut self) -> Onset {
        self.engine = Replica::new(self.profile.clone());
        self.held.clear();
        Onset::Killed
    }

    /// The process is not there, or is another one that serves nobody yet.
    fn is_gone(&self) -> bool {
        self.away || matches!(self.fault(), Some(Fault::Dead | Fault::Loading | Fault::Sigterm))
    }
}

/// The engine's time.
fn since_start(now: Time) -> Duration {
    now.since(Time::ZERO)
}
