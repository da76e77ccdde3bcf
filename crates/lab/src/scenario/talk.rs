//! Traffic: what a scenario describes, as jobs.

use super::seen::Origin;
use super::spec::{Requests, Scenario, Sessions};
use crate::fleet::{Job, Poison};
use crate::rng::{SeededRng, mix};
use sluicegate_core::{KeyIndex, Session, Time};
use std::time::Duration;

impl Scenario {
    /// Names of the traffic, by group: open-loop traffic first.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let requests = self.requests.iter().map(|requests| requests.name.as_str());
        requests.chain(self.sessions.iter().map(|sessions| sessions.name.as_str()))
    }
}

/// Chained hashes of the whole blocks of a text: first the system prompt that all share, then a talk of its own.
fn blocks(system_tokens: u32, talk: u64, tokens: u32, block_tokens: u32) -> Vec<u64> {
    let block = block_tokens.max(1);
    let mut chain = 0;
    (0..tokens / block)
        .map(|index| {
            let shared = (index + 1) * block <= system_tokens;
            let content = if shared { u64::from(system_tokens) } else { mix(talk) };
            chain = mix(chain ^ mix(content ^ (u64::from(index) << 32)));
            chain
        })
        .collect()
}

fn prefix(system_tokens: u32) -> Option<u64> {
    (system_tokens > 0).then(|| mix(u64::from(system_tokens)))
}

fn pause(mean: Duration, random: bool, rng: &mut SeededRng) -> Duration {
    match random {
        true => Duration::from_secs_f64(rng.exponential(mean.as_secs_f64())),
        false => mean,
    }
}

/// All requests of one kind of open-loop traffic.
pub(super) fn requests(group: usize, spec: &Requests, block_tokens: u32, seed: u64) -> Vec<(Origin, Job)> {
    let mut rng = SeededRng::stream(seed, group as u64);
    let mut at = spec.at.time();
    let poison = match (spec.crashes_for, spec.answered_with) {
        (Some(down), _) => Some(Poison::Crash(down.0)),
        (None, status) => status.map(Poison::Status),
    };
    let one = |index: u32| {
        if index > 0 {
            at = at + pause(spec.every.0, spec.random, &mut rng);
        }
        let (prompt, output) = (spec.prompt_tokens.draw(&mut rng), spec.output_tokens.draw(&mut rng));
        let talk = talk_id(group, if spec.identical { 0 } else { index }, 0);
        let tokens = spec.system_tokens.saturating_add(prompt);
        let leaves = rng.chance(spec.leaving);
        let patience = leaves.then(|| Duration::from_millis(u64::from(spec.leave_after_ms.draw(&mut rng))));
        let whole = tokens.saturating_add(output);
        let job = Job {
            blocks: blocks(spec.system_tokens, talk, whole, block_tokens).into(),
            prefix: prefix(spec.system_tokens),
            session: spec.new_session.then(|| Session::Explicit(mix(talk))),
            key: KeyIndex(spec.key),
            stream: spec.stream,
            patience,
            poison,
            fingerprint: spec.identical.then_some(talk),
            ..Job::unique(at, tokens, output)
        };
        (Origin { group, session: index }, job)
    };
    (0..spec.count).map(one).collect()
}

fn talk_id(group: usize, session: u32, part: u32) -> u64 {
    ((group as u64 + 1) << 56) ^ (u64::from(session) << 24) ^ u64::from(part)
}

/// One conversation and how far it has come.
#[derive(Debug)]
pub(super) struct Talk {
    group: usize,
    session: u32,
    turn: u32,
    /// How often it has begun anew.
    part: u32,
    /// Tokens so far, the system prompt among them.
    tokens: u32,
    rng: SeededRng,
}

impl Talk {
    /// All conversations of one kind, each with its first moment.
    pub(super) fn all(group: usize, spec: &Sessions, seed: u64) -> Vec<(Time, Self)> {
        let one = |session: u32| {
            let rng = SeededRng::stream(seed ^ (group as u64) << 32, u64::from(session));
            let talk = Self { group, session, turn: 0, part: 0, tokens: spec.system_tokens, rng };
            (spec.at.time() + spec.over.0 * session / spec.count.max(1), talk)
        };
        (0..spec.count).map(one).collect()
    }

    /// The next turn at `at`; `None` where it is over.
    pub(super) fn next(&mut self, spec: &Sessions, at: Time, block_tokens: u32) -> Option<(Origin, Job)> {
        if self.turn >= spec.turns {
            return None;
        }
        let message = spec.message_tokens.draw(&mut self.rng).max(1);
        let answer = spec.output_tokens.draw(&mut self.rng).max(1);
        if self.tokens.saturating_add(message).saturating_add(answer) > spec.compact_at {
            (self.part, self.tokens) = (self.part + 1, spec.system_tokens);
        }
        let prompt = self.tokens.saturating_add(message);
        self.tokens = prompt.saturating_add(answer);
        let talk = talk_id(self.group, self.session, self.part);
        let job = Job {
            blocks: blocks(spec.system_tokens, talk, self.tokens, block_tokens).into(),
            prefix: prefix(spec.system_tokens),
            session: Some(Session::Explicit(mix(talk_id(self.group, self.session, 0)))),
            key: KeyIndex(spec.key),
            ..Job::unique(at, prompt, answer)
        };
        let origin = Origin { group: self.group, session: self.session };
        self.turn += 1;
        Some((origin, job))
    }

    pub(super) fn pause(&mut self, spec: &Sessions) -> Duration {
        pause(spec.think.0, spec.random, &mut self.rng)
    }
}
