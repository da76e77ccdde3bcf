//! What traffic has seen.

use crate::client::Outcome;
use crate::latency::LatencyHistogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Counts and latencies since the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Requests sent.
    pub started: u64,
    /// Requests that ended, by how.
    pub ended: BTreeMap<Outcome, u64>,
    /// Requests sent with a heavy message in the same turn.
    pub heavy: u64,
    /// Bytes of request bodies.
    pub sent_bytes: u64,
    /// Prompt tokens that answers reported.
    pub prompt_tokens: u64,
    /// Those of them that came from a prefix cache.
    pub cached_tokens: u64,
    /// Completion tokens that answers reported.
    pub completion_tokens: u64,
    /// From sending to the first content, of requests that had any.
    pub first_token: LatencyHistogram,
    /// From sending to the end, of requests that ended well.
    pub latency: LatencyHistogram,
}

impl Totals {
    /// Requests under way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.started - self.ended.values().sum::<u64>().min(self.started)
    }

    /// Requests that ended well.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.ended.get(&Outcome::Ok).copied().unwrap_or(0)
    }

    /// Requests that ended in any other way, without those broken off by us.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let failures =
            self.ended.iter().filter(|(outcome, _)| !matches!(outcome, Outcome::Ok | Outcome::BrokenOff));
        failures.map(|(_, count)| count).sum()
    }

    pub(super) fn sent(&mut self, bytes: usize, heavy: bool) {
        self.started += 1;
        self.sent_bytes += bytes as u64;
        self.heavy += u64::from(heavy);
    }

    pub(super) fn end(&mut self, outcome: Outcome, took: Duration) {
        *self.ended.entry(outcome).or_default() += 1;
        if outcome == Outcome::Ok {
            self.latency.record(took);
        }
    }
}
