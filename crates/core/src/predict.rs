//! Predicting when each replica of a pool would answer, and what it costs everybody else.
//!
//! Learned from our own requests alone: what was sent where and has no first byte yet, what decodes, which blocks of
//! prompts each replica has worked on, and how long prefills took. A scrape adds what others have sent.

mod burden;
mod cost;
mod fit;
mod held;
mod ledger;
mod mirror;
mod query;
mod rates;
mod recent;
mod speed;
mod ties;
mod work;

use crate::load::EngineLoad;
use crate::pick::Prompt;
use crate::time::Time;
use burden::Burden;
pub(crate) use cost::Terms;
use fit::{Fit, OVERHEAD};
pub(crate) use ledger::Entry;
use ledger::Ledger;
use mirror::Mirror;
pub(crate) use query::{Prediction, Query};
use rates::Rates;
use speed::{Scatter, Speed};
use std::time::Duration;
pub(crate) use ties::{Standing, Ties, WINDOW};
use work::Work;

/// Tokens that an engine's prefix cache is taken to hold, as long as it does not say so.
const CACHED_TOKENS: u64 = 200_000;
/// Tokens in a block, before there is a prompt with blocks.
const BLOCK_TOKENS: f64 = 256.0;
/// A change of an engine's capacity below this share is none.
const CAPACITY_GRAIN: f64 = 0.1;
/// Seconds of prefill that are believed at most.
const LONGEST: f64 = 1e6;

/// What is known of the replicas of one pool.
#[derive(Debug)]
pub(crate) struct Predictor {
    mirror: Mirror,
    fit: Fit,
    /// How far it is off.
    scatter: Scatter,
    rates: Rates,
    replicas: Vec<Known>,
    /// Seats of replicas that are gone.
    vacant: Vec<usize>,
    /// Derived from each of them.
    burdens: Vec<Burden>,
    /// Running mean of the tokens in a block of prompt text.
    block_tokens: f64,
}

/// What is known of one replica.
#[derive(Debug)]
struct Known {
    ledger: Ledger,
    speed: Speed,
    /// Tokens that its cache holds.
    cached_tokens: u64,
    /// Blocks that its mirror was given room for.
    blocks: usize,
}

/// A request that was sent: what its first byte and its end refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    entry: Entry,
    prompt: u32,
}

impl Predictor {
    pub(crate) fn new() -> Self {
        Self {
            mirror: Mirror::default(),
            fit: Fit::default(),
            scatter: Scatter::default(),
            rates: Rates::default(),
            replicas: Vec::new(),
            vacant: Vec::new(),
            burdens: Vec::new(),
            block_tokens: BLOCK_TOKENS,
        }
    }

    /// The new replica's seat: what it is known by here. One that was given back is given out again.
    pub(crate) fn add_replica(&mut self) -> usize {
        let blocks = (CACHED_TOKENS as f64 / self.block_tokens) as usize;
        let (ledger, speed) = (Ledger::default(), Speed::default());
        let known = Known { ledger, speed, cached_tokens: CACHED_TOKENS, blocks };
        if let Some(seat) = self.vacant.pop() {
            self.mirror.set_capacity(seat, blocks);
            self.replicas[seat] = known;
            self.burdens[seat] = Burden::none();
            return seat;
        }
        self.mirror.add_replica(blocks);
        self.rates.add_replica();
        self.replicas.push(known);
        self.burdens.push(Burden::none());
        self.replicas.len() - 1
    }

    /// The replica is gone for good: nothing of it is left. None of its requests is open.
    pub(crate) fn remove_replica(&mut self, seat: usize) {
        self.mirror.set_capacity(seat, 0);
        self.rates.remove_replica(seat);
        self.vacant.push(seat);
    }

    /// The request goes to `replica`. `depth`: blocks of it that the replica knows, where somebody has looked.
    pub(crate) fn sent(
        &mut self,
        now: Time,
        replica: usize,
        prompt: &Prompt<'_>,
        depth: Option<u32>,
    ) -> Option<Sent> {
        self.close_step(now, replica);
        let depth = depth.unwrap_or_else(|| self.mirror.depth(&self.mirror.find(prompt.blocks), replica));
        let known = self.replicas.get_mut(replica)?;
        let work = Work::of(prompt.tokens, depth.saturating_mul(prompt.block_tokens));
        let slowness = known.speed.slowness(&self.scatter);
        let prefill = self.fit.seconds(work) * slowness;
        let silent_until = prompt.whole_answer.then(|| {
            let burden = known.ledger.burden(slowness, self.scatter.doubt());
            let wait = burden.wait(now, &self.fit, self.rates.usual());
            now + Duration::from_secs_f64((wait + prefill).min(LONGEST))
        });
        let entry = known.ledger.sent(now, prompt.tokens, work, silent_until);
        self.rates.sent(now, replica, prompt.tokens, prefill);
        if !prompt.blocks.is_empty() {
            self.block_tokens += (f64::from(prompt.block_tokens.max(1)) - self.block_tokens) * 0.01;
            self.mirror.touch(replica, prompt.blocks);
        }
        self.derive(replica);
        Some(Sent { entry, prompt: prompt.tokens })
    }

    /// Its first byte has come. Only the first call counts.
    pub(crate) fn answered(&mut self, now: Time, replica: usize, sent: Sent) {
        self.close_step(now, replica);
        if let Some(known) = self.replicas.get_mut(replica) {
            let (fit, slowness) = (&self.fit, known.speed.slowness(&self.scatter));
            let predicted = |work| fit.seconds(work) * slowness;
            known.ledger.answered(now, sent.entry, predicted, self.scatter.doubt());
        }
        self.derive(replica);
    }

    /// It has ended, however it did.
    pub(crate) fn ended(&mut self, now: Time, replica: usize, sent: Sent) {
        if let Some(known) = self.replicas.get_mut(replica) {
            known.ledger.ended(now, sent.entry, sent.prompt);
        }
        self.derive(replica);
    }

    /// An answer has had this many tokens.
    pub(crate) fn generated(&mut self, tokens: u32) {
        self.rates.generated(tokens);
    }

    /// Requests that were sent to the replica and have not ended.
    pub(crate) fn open(&self, replica: usize) -> usize {
        self.replicas.get(replica).map_or(0, |known| known.ledger.open())
    }

    pub(crate) fn scrape_started(&mut self, replica: usize) {
        if let Some(known) = self.replicas.get_mut(replica) {
            known.ledger.scrape_started();
        }
    }

    /// What the engine said. `None`: nothing.
    pub(crate) fn scraped(&mut self, now: Time, replica: usize, load: Option<EngineLoad>) {
        self.close_step(now, replica);
        let Some(known) = self.replicas.get_mut(replica) else { return };
        known.ledger.scraped(now, load);
        if let Some(tokens) = load.and_then(|load| load.kv_tokens) {
            known.cached_tokens = tokens;
        }
        let blocks = (known.cached_tokens as f64 / self.block_tokens) as usize;
        if blocks.abs_diff(known.blocks) as f64 > known.blocks as f64 * CAPACITY_GRAIN {
            known.blocks = blocks;
            self.mirror.set_capacity(replica, blocks);
        }
        self.derive(replica);
    }

    /// The replica's process is gone, and its cache with it.
    pub(crate) fn forget(&mut self, replica: usize) {
        self.mirror.forget(replica);
    }

    /// Ends every change of a replica.
    fn derive(&mut self, replica: usize) {
        if let (Some(known), Some(burden)) = (self.replicas.get(replica), self.burdens.get_mut(replica)) {
            *burden = known.ledger.burden(known.speed.slowness(&self.scatter), self.scatter.doubt());
        }
    }

    /// A step of the engine whose first bytes are all there is a measurement.
    fn close_step(&mut self, now: Time, replica: usize) {
        let Some(known) = self.replicas.get_mut(replica) else { return };
        // A pool that is never without a queue would else keep a prior that may be wrong by ten.
        let rough = !self.fit.is_trusted();
        let Some(sample) = known.ledger.sample(now, rough) else { return };
        let predicted = self.fit.seconds(sample.work);
        // A shorter one says more of the engine's step than of how slow the replica is next to others.
        if self.fit.is_trusted() && predicted >= OVERHEAD {
            known.speed.learn(sample.seconds, predicted, &mut self.scatter);
        }
        self.fit.learn(sample);
    }
}

#[cfg(test)]
mod tests;
