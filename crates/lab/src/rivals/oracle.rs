//! The bar: the rule of predicted cost with exact knowledge of caches, queues, speed and the length of answers.
//!
//! For each replica: `W`, the prefill that is queued and under way; `p`, the request's own with what is cached now;
//! `mu`, what a second more of prefill costs those who come after; `D`, how much decoding is slowed, its own and that of
//! others. The least `W + p * (1 + mu) + 0.05 * D` wins; within 20 ms the deepest match, then the fewest requests, then
//! the next in turn.

use super::{Books, Pick, Rival};
use crate::engine::{Profile, Replica};
use crate::fleet::{Ask, Host};
use sluicegate_core::Time;
use std::time::Duration;

/// Costs within this many seconds are alike.
const TIE: f64 = 0.02;
/// What a second of slowed decoding counts against one of waiting.
const DECODE_WEIGHT: f64 = 0.05;
/// How long the arrival rate and the share of prefill are remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// The share of prefill is taken to be at most this: beyond it waits have no end.
const MOST_BUSY: f64 = 0.95;

/// Exact knowledge.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    turn: usize,
    last: Time,
    /// Arrivals and seconds of prefill sent out, decayed over [`MEMORY`].
    arrivals: f64,
    prefill: f64,
}

/// What one replica would do with the request.
struct Prospect {
    cost: f64,
    prefill: f64,
    pick: Pick,
    inflight: usize,
}

impl Oracle {
    fn decay(&mut self, now: Time) {
        let passed = now.since(self.last).as_secs_f64() / MEMORY.as_secs_f64();
        self.last = now;
        self.arrivals *= (-passed).exp();
        self.prefill *= (-passed).exp();
    }

    fn prospect(&self, now: Time, ask: &Ask<'_>, index: usize, host: &Host, replicas: f64) -> Prospect {
        let (profile, engine, job) = (host.profile(), host.engine(), ask.job);
        let cached = (engine.cached_blocks(ask.prompt_blocks()) as u32 * profile.block_tokens)
            .min(job.prompt_tokens.saturating_sub(1));
        let prefill = seconds(profile, job.prompt_tokens - cached, cached);
        let (queued, decoders, decode) = burden(now, profile, engine);
        let per_replica = MEMORY.as_secs_f64() * replicas;
        let (rate, busy) = (self.arrivals / per_replica, (self.prefill / per_replica).min(MOST_BUSY));
        let mu = rate * (queued + prefill / 2.0) / (1.0 - busy);
        let own_step = profile.cost.decode_ns(job.prompt_tokens) / 1e9;
        let tokens = f64::from(job.output_tokens);
        let slowed = tokens * decode + decoders * (prefill + tokens * own_step);
        Prospect {
            cost: queued + prefill * (1.0 + mu) + DECODE_WEIGHT * slowed,
            prefill,
            pick: Pick { replica: index, cached },
            inflight: host.inflight(),
        }
    }
}

impl Rival for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn choose(&mut self, now: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick> {
        self.decay(now);
        self.arrivals += 1.0;
        let (n, from) = (books.replicas().max(1), self.turn);
        let prospects: Vec<Prospect> = books
            .open_to(ask)
            .filter_map(|(index, _)| Some(self.prospect(now, ask, index, ask.hosts.get(index)?, n as f64)))
            .collect();
        let least = prospects.iter().map(|prospect| prospect.cost).min_by(f64::total_cmp)?;
        let best =
            prospects.iter().filter(|prospect| prospect.cost <= least + TIE).min_by_key(|prospect| {
                let replica = prospect.pick.replica;
                (std::cmp::Reverse(prospect.pick.cached), prospect.inflight, (replica + n - from) % n)
            })?;
        self.turn = (best.pick.replica + 1) % n;
        self.prefill += best.prefill;
        Some(best.pick)
    }
}

/// Seconds of prefilling so many tokens behind so many others.
fn seconds(profile: &Profile, tokens: u32, behind: u32) -> f64 {
    let steps = (f64::from(tokens) / f64::from(profile.max_num_batched_tokens)).ceil();
    steps * profile.cost.base.as_secs_f64() + profile.cost.prefill_ns(tokens, behind) / 1e9
}

/// Seconds of prefill that are queued or under way, how many requests decode, and the seconds that one token of each of
/// those takes.
fn burden(now: Time, profile: &Profile, engine: &Replica) -> (f64, f64, f64) {
    let (mut queued, mut decoders, mut decode) = (0.0, 0.0, 0.0);
    for progress in engine.progress() {
        if progress.decoding {
            decoders += 1.0;
            decode += profile.cost.decode_ns(progress.known) / 1e9;
        } else {
            queued += seconds(profile, progress.known - progress.computed, progress.computed);
        }
    }
    // The step under way has done a part of its chunk already.
    let step = engine.next_deadline().map_or(Duration::ZERO, |end| end.saturating_sub(now.since(Time::ZERO)));
    (f64::max(queued - engine.step_length().saturating_sub(step).as_secs_f64(), 0.0), decoders, decode)
}
