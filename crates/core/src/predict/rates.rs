//! What comes in: how often, how much, and where it has gone lately. All of it fades.

use super::burden::Usual;
use crate::time::Time;
use std::time::Duration;

/// What happened this long ago counts a third of what happens now.
const MEMORY: Duration = Duration::from_secs(60);
/// Seconds: a burst at the very beginning is no rate yet.
const LEAST_SPAN: f64 = 10.0;
/// Utilisation is taken to be no more than this, however much comes in: waits are not endless.
const MOST_BUSY: f64 = 0.9;
/// Tokens of an answer, before any was seen.
const PRIOR_OUTPUT: f64 = 250.0;
/// Weight of the newest request in means, once there are many.
const NEWEST: f64 = 0.01;

/// Rates and means of one pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    since: Option<Time>,
    at: Time,
    /// Requests, and seconds of prefill, that still count.
    requests: f64,
    busy: f64,
    /// The former by replica.
    traffic: Vec<f32>,
    output: Mean,
    prefill: Mean,
    prompt: Mean,
}

/// A running mean: of all samples at first, of the last hundred later.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    samples: f64,
}

impl Mean {
    fn add(&mut self, sample: f64) {
        self.samples += 1.0;
        self.value += (sample - self.value) * (1.0 / self.samples).max(NEWEST);
    }
}

impl Rates {
    pub(crate) fn add_replica(&mut self) {
        self.traffic.push(0.0);
    }

    pub(crate) fn remove_replica(&mut self, replica: usize) {
        if let Some(count) = self.traffic.get_mut(replica) {
            *count = 0.0;
        }
    }

    /// A request of `prompt` tokens goes to `replica`, with `prefill` seconds of work.
    pub(crate) fn sent(&mut self, now: Time, replica: usize, prompt: u32, prefill: f64) {
        let faded = faded(now.since(self.at));
        self.since.get_or_insert(now);
        self.at = self.at.max(now);
        self.requests = self.requests * faded + 1.0;
        self.busy = self.busy * faded + prefill;
        self.traffic.iter_mut().for_each(|count| *count *= faded as f32);
        if let Some(count) = self.traffic.get_mut(replica) {
            *count += 1.0;
        }
        self.prefill.add(prefill);
        self.prompt.add(f64::from(prompt));
    }

    /// An answer has had this many tokens.
    pub(crate) fn generated(&mut self, output: u32) {
        self.output.add(f64::from(output));
    }

    /// Requests per second, all replicas together.
    pub(crate) fn arrivals(&self, now: Time) -> f64 {
        self.requests * faded(now.since(self.at)) / self.span(now)
    }

    /// Share of their time that `replicas` replicas spend on prefill, 0 to 0.9.
    pub(crate) fn utilisation(&self, now: Time, replicas: usize) -> f64 {
        let capacity = self.span(now) * replicas.max(1) as f64;
        (self.busy * faded(now.since(self.at)) / capacity).min(MOST_BUSY)
    }

    /// Recent requests of one replica, and of all: for comparing, in no unit.
    pub(crate) fn traffic(&self, replica: usize) -> f64 {
        self.traffic.get(replica).copied().map_or(0.0, f64::from)
    }

    pub(crate) fn all_traffic(&self) -> f64 {
        self.requests
    }

    /// Mean tokens of an answer.
    pub(crate) fn mean_output(&self) -> f64 {
        if self.output.samples > 0.0 { self.output.value } else { PRIOR_OUTPUT }
    }

    /// What a request is like.
    pub(crate) fn usual(&self) -> Usual {
        Usual { prefill: self.prefill.value, prompt: self.prompt.value }
    }

    /// Seconds that the fading sums speak for: the memory, or as long as there has been anything.
    fn span(&self, now: Time) -> f64 {
        let known = self.since.map_or(0.0, |since| now.since(since).as_secs_f64());
        let memory = MEMORY.as_secs_f64();
        (memory * (1.0 - faded(Duration::from_secs_f64(known.min(1e6))))).max(LEAST_SPAN)
    }
}

/// What is left after `passed`: about `exp(-passed / MEMORY)`, by arithmetic that is the same on every machine.
fn faded(passed: Duration) -> f64 {
    let x = passed.as_secs_f64() / MEMORY.as_secs_f64();
    1.0 / (1.0 + x + x * x / 2.0 + x * x * x / 6.0)
}

#[cfg(test)]
mod tests;
