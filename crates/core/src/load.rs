//! How loaded a replica is: what its engine last said, and what the gateway itself has sent since.
//!
//! All sums are integers in thousandths of a request, so that they return to exactly zero.

use crate::ids::Weight;
use crate::settings::{LoadSource, WaitingCounts};

/// What an engine's metrics say. Data-parallel series are summed by whoever reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EngineLoad {
    /// Requests that run.
    pub running: u32,
    /// Requests that wait in the engine.
    pub waiting: u32,
    /// Prompt and generated tokens so far, where the engine counts them: progress for the stall rule.
    pub tokens_total: Option<u64>,
    /// Used part of the KV cache, 0..=1; for the dashboard only.
    pub kv_usage: Option<f32>,
    /// Tokens that the KV cache holds, where the engine tells.
    pub kv_tokens: Option<u64>,
}

/// One request in the unit of all sums here.
pub(crate) const REQUEST: u64 = 1000;

/// The load record of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    scraped: Option<EngineLoad>,
    slots: Option<u32>,
    inflight: u32,
    weight: u64,
    sent: SentSince,
    foreign: Foreign,
    /// Requests that the last scrape showed waiting, less the own ones that have left the queue since.
    waiting: u32,
}

/// Requests that others have put on the engine: those that it runs beyond the gateway's own. They are known until the
/// next scrape, while own requests come and go: an own one that has ended since is not running any more, whatever the
/// scrape said, and one that has begun runs besides those of others.
#[derive(Clone, Debug, Default)]
struct Foreign {
    count: u32,
    /// The most own requests that were open at a time since the last scrape was started. Nobody knows when the engine
    /// took its numbers: others are rather counted one too few than own ones twice, which would leave a slot unused
    /// until the next scrape.
    own: u32,
}

/// Which scrape a request was sent after: how many scrapes had been started by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct ScrapeCount(u64);

/// Open own requests that the last scrape cannot have seen. They are counted from the moment that scrape was started,
/// since nobody knows when the engine took its numbers: one counted twice does less harm than one not counted.
#[derive(Clone, Debug, Default)]
struct SentSince {
    started: ScrapeCount,
    counted_from: ScrapeCount,
    since_started: u32,
    since_counted: u32,
}

impl Load {
    pub(crate) fn new(slots: Option<u32>) -> Self {
        Self { slots, ..Self::default() }
    }

    pub(crate) fn reserve(&mut self, weight: Weight) -> ScrapeCount {
        self.inflight += 1;
        self.weight += weight.0;
        self.sent.since_started += 1;
        self.sent.since_counted += 1;
        self.foreign.own = self.foreign.own.max(self.inflight);
        self.sent.started
    }

    pub(crate) fn give_back(&mut self, weight: Weight, sent: ScrapeCount) {
        debug_assert!(self.inflight > 0 && self.weight >= weight.0, "a lease was given back twice");
        self.inflight = self.inflight.saturating_sub(1);
        self.weight = self.weight.saturating_sub(weight.0);
        if sent == self.sent.started {
            self.sent.since_started = self.sent.since_started.saturating_sub(1);
        }
        if sent >= self.sent.counted_from {
            self.sent.since_counted = self.sent.since_counted.saturating_sub(1);
        }
    }

    /// An own request has its first byte, or has ended without one: where the last scrape can have seen it wait, one
    /// waits less. Engines take requests in order, so whoever else was shown waiting has come a place nearer. True
    /// where that changes something.
    pub(crate) fn unqueued(&mut self, sent: ScrapeCount) -> bool {
        let changes = self.waiting > 0 && sent < self.sent.counted_from;
        self.waiting -= u32::from(changes);
        changes
    }

    pub(crate) fn scrape_started(&mut self) {
        self.sent.started.0 += 1;
        self.sent.since_started = 0;
        self.foreign.own = self.inflight;
    }

    /// A good scrape came back. `None`: no metrics, own counts alone from here on.
    pub(crate) fn scraped(&mut self, load: Option<EngineLoad>) {
        self.scraped = load;
        self.waiting = load.map_or(0, |engine| engine.waiting);
        self.foreign.count = load.map_or(0, |engine| engine.running.saturating_sub(self.foreign.own));
        self.sent.counted_from = self.sent.started;
        self.sent.since_counted = self.sent.since_started;
    }

    pub(crate) fn set_slots(&mut self, slots: Option<u32>) {
        self.slots = slots;
    }

    pub(crate) fn engine(&self) -> Option<EngineLoad> {
        self.scraped
    }

    pub(crate) fn slots(&self) -> Option<u32> {
        self.slots
    }

    pub(crate) fn inflight(&self) -> u32 {
        self.inflight
    }

    /// Sum of the weights of own open requests.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    pub(crate) fn effective_running(&self, source: LoadSource) -> u64 {
        match (source, self.scraped) {
            (LoadSource::Engine, Some(engine)) => {
                (u64::from(engine.running) + u64::from(self.sent.since_counted)) * REQUEST
            }
            (LoadSource::Both, Some(engine)) => self.weight.max(u64::from(engine.running) * REQUEST),
            (_, None) => self.weight,
        }
    }

    pub(crate) fn effective_waiting(&self, source: LoadSource, counts: WaitingCounts) -> u64 {
        let engine = self.scraped.unwrap_or_default();
        let reported = u64::from(engine.waiting) * REQUEST;
        if source == LoadSource::Engine && self.scraped.is_some() {
            return reported;
        }
        let unseen = match counts {
            WaitingCounts::Requests => {
                let taken_in = engine.running.max(self.slots.unwrap_or(0));
                u64::from(self.inflight.saturating_sub(taken_in)) * REQUEST
            }
            WaitingCounts::Weight => self.weight.saturating_sub(u64::from(engine.running) * REQUEST),
        };
        reported + unseen
    }

    /// Whether a slot is free, in counts and not in weights; `None` where slots are not known. At the scrape this is
    /// `max(running, inflight) < slots` and nobody waiting; from then on own requests are followed one by one.
    pub(crate) fn free_slot(&self) -> Option<bool> {
        let taken = self.foreign.count.saturating_add(self.inflight);
        self.slots.map(|slots| taken < slots && self.waiting == 0)
    }

    pub(crate) fn check(&self) {
        assert!(u64::from(self.inflight) * REQUEST <= self.weight, "a request weighs at least one");
        assert!((self.inflight == 0) == (self.weight == 0), "weight without requests");
        assert!(self.sent.since_started <= self.sent.since_counted, "a later scrape counts fewer");
        assert!(self.sent.since_counted <= self.inflight, "only open requests count as sent");
        assert!(
            self.waiting <= self.scraped.map_or(0, |engine| engine.waiting),
            "nobody begins to wait unseen"
        );
        assert!(self.inflight <= self.foreign.own, "no more own requests than there were at most");
    }
}

#[cfg(test)]
mod tests;
