//! One request's question to every replica.

use super::Predictor;
use super::burden::Usual;
use super::cost::{Decoding, Terms, Traffic, forgiven};
use super::mirror::Match;
use super::work::Work;
use crate::pick::Prompt;
use crate::time::Time;

/// Different ways on from a block from which it is a shared beginning, and not one talk's own.
const SHARED_FROM: u32 = 2;

/// What does not depend on the replica is computed once.
#[derive(Debug)]
pub(crate) struct Query<'a> {
    predictor: &'a Predictor,
    now: Time,
    tokens: u32,
    block_tokens: u32,
    found: Match,
    /// The longest match of any replica, in blocks.
    deepest: u32,
    /// What a replica that knows nothing of the prompt has to do, and how long that takes one of ordinary speed.
    cold: (Work, f64),
    traffic: Traffic,
    usual: Usual,
    output: f64,
    forgiven: f64,
}

/// What is predicted of a request at one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Prediction {
    /// Blocks of the prompt that the replica knows.
    pub(crate) depth: u32,
    /// Of these, those that draw the request there where costs are the same: none while the spread guard has a shared
    /// beginning leave its holders, which else would win every tie that it makes.
    pub(crate) draws: u32,
    /// Seconds of prefill that are forgiven by the spread guard.
    pub(crate) forgiven: f64,
    pub(crate) terms: Terms,
}

impl Prediction {
    /// Seconds until the first byte.
    pub(crate) fn ttft(&self) -> f64 {
        self.terms.first_token() + self.forgiven
    }
}

impl Predictor {
    /// `serving`: how many replicas share the pool's traffic. Allocates nothing.
    pub(crate) fn query<'a>(&'a self, now: Time, prompt: &Prompt<'_>, serving: usize) -> Query<'a> {
        let found = self.mirror.find(prompt.blocks);
        let arrivals = self.rates.arrivals(now) / serving.max(1) as f64;
        let traffic = Traffic::new(arrivals, self.rates.utilisation(now, serving));
        let work = Work::of(prompt.tokens, 0);
        Query {
            predictor: self,
            now,
            tokens: prompt.tokens.max(1),
            block_tokens: prompt.block_tokens,
            deepest: self.mirror.deepest(&found),
            cold: (work, self.fit.seconds(work)),
            traffic,
            usual: self.rates.usual(),
            output: self.rates.mean_output(),
            forgiven: self.forgiven(&found, serving),
            found,
        }
    }

    /// The spread guard's f. It is about new talks with an old beginning: the longest match ends where others have gone
    /// different ways.
    fn forgiven(&self, found: &Match, serving: usize) -> f64 {
        if self.mirror.branches(found) < SHARED_FROM { 0.0 } else { self.crowding(found, serving) }
    }

    /// How far those with the longest match take more than their share.
    fn crowding(&self, found: &Match, serving: usize) -> f64 {
        let (mut holders, mut traffic) = (0_usize, 0.0);
        self.mirror.for_each_deepest(found, |replica| {
            holders += 1;
            traffic += self.rates.traffic(replica);
        });
        let share = traffic / self.rates.all_traffic().max(f64::MIN_POSITIVE);
        forgiven(share, holders as f64 / serving.max(1) as f64)
    }
}

impl Query<'_> {
    /// The prompt follows on nothing, as its session tells. Where all its blocks are known, what comes behind the
    /// last one is too short for a hash and is yet another way on from there: its beginning is a shared one.
    pub(crate) fn of_a_new_talk(mut self, prompt: &Prompt<'_>, serving: usize) -> Self {
        let goes_on = self.tokens > self.deepest.saturating_mul(self.block_tokens);
        if self.deepest > 0 && self.deepest as usize == prompt.blocks.len() && goes_on {
            self.forgiven = self.predictor.crowding(&self.found, serving);
        }
        self
    }

    /// Requests that the replica got in about the last minute, whole ones.
    pub(crate) fn lately(&self, replica: usize) -> u32 {
        self.predictor.rates.traffic(replica) as u32
    }

    /// Requests of others that the replica has, as its last scrape told.
    pub(crate) fn others(&self, replica: usize) -> u32 {
        self.predictor.burdens.get(replica).map_or(0, |burden| burden.others())
    }

    /// Blocks of the prompt that the replica knows.
    pub(crate) fn depth(&self, replica: usize) -> u32 {
        self.predictor.mirror.depth(&self.found, replica)
    }

    pub(crate) fn predict(&self, replica: usize) -> Prediction {
        self.predict_below(replica, f64::INFINITY).unwrap_or_default()
    }

    /// `None` where the first byte alone costs more than `limit`.
    pub(crate) fn predict_below(&self, replica: usize, limit: f64) -> Option<Prediction> {
        let burden = self.predictor.burdens.get(replica)?;
        let fit = &self.predictor.fit;
        let wait = burden.wait(self.now, fit, self.usual);
        if wait > limit {
            return None;
        }
        let depth = self.depth(replica);
        let (work, seconds) = if depth == 0 {
            self.cold
        } else {
            let work = Work::of(self.tokens, depth.saturating_mul(self.block_tokens));
            (work, fit.seconds(work))
        };
        let all = seconds * burden.slowness;
        let forgiven = if self.forgiven > 0.0 {
            let shared = (self.deepest - depth).saturating_mul(self.block_tokens);
            all * self.forgiven * (f64::from(shared) / work.size as f64).min(1.0)
        } else {
            0.0
        };
        let prefill = all - forgiven;
        if wait + prefill > limit {
            return None;
        }
        let (decoders, context) = burden.decoding(self.usual);
        let decoding = Decoding { decoders, context, output: self.output, per_token: fit.per_token() };
        let delays = self.traffic.delays(wait, prefill);
        let slowed = decoding.slowed(f64::from(self.tokens), prefill);
        let draws = if self.forgiven > 0.0 { 0 } else { depth };
        Some(Prediction { depth, draws, forgiven, terms: Terms { wait, prefill, delays, slowed } })
    }
}
