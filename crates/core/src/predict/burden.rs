//! What a choice reads of every replica, side by side: a choice among a thousand replicas touches these few kilobytes and
//! not their ledgers. Derived from the ledger and the speed after each change.

use super::fit::Fit;
use super::work::Work;
use crate::time::Time;

/// One replica's line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burden {
    /// All own requests without a first byte, and of them what the engine works on or may have done already.
    pub(super) total: Work,
    pub(super) begun: Work,
    /// The most of that which is believed to be done, however long ago it began: 0 to 1.
    pub(super) believed: f64,
    /// Since when it works on these.
    pub(super) since: Time,
    /// Own requests that decode, and the sum of their prompts.
    pub(super) decoders: u32,
    pub(super) context: u64,
    pub(super) foreign: Foreign,
    pub(super) slowness: f64,
}

/// Requests of others, as scrapes told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Foreign {
    pub(super) waiting: u32,
    pub(super) running: u32,
    /// The latter on the mean of several: how many decode now is not known, but how many usually do.
    pub(super) usually: f64,
    pub(super) at: Time,
}

/// What is not known of others' requests is taken from our own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usual {
    /// Mean seconds of prefill of a request.
    pub(crate) prefill: f64,
    /// Mean tokens of a prompt.
    pub(crate) prompt: f64,
}

impl Burden {
    pub(crate) fn none() -> Self {
        Self {
            total: Work::default(),
            begun: Work::default(),
            believed: 1.0,
            since: Time::ZERO,
            decoders: 0,
            context: 0,
            foreign: Foreign::default(),
            slowness: 1.0,
        }
    }

    /// Seconds until the engine can begin with a newcomer.
    pub(crate) fn wait(&self, now: Time, fit: &Fit, usual: Usual) -> f64 {
        let mut wait = 0.0;
        if self.total.size > 0 {
            let done = seconds(self.since, now).min(fit.seconds(self.begun) * self.slowness * self.believed);
            wait = fit.seconds(self.total) * self.slowness - done;
        }
        (wait + self.foreign_left(now, usual)).max(0.0)
    }

    /// Seconds of what the engine works on that time alone will have it believed to have done.
    pub(super) fn begun_left(&self, now: Time, fit: &Fit) -> f64 {
        (fit.seconds(self.begun) * self.slowness * self.believed - seconds(self.since, now)).max(0.0)
    }

    /// Seconds of prefill that others were seen to have waiting and that are not done.
    pub(super) fn foreign_left(&self, now: Time, usual: Usual) -> f64 {
        if self.foreign.waiting == 0 {
            return 0.0;
        }
        let queued = f64::from(self.foreign.waiting) * usual.prefill * self.slowness;
        (queued - seconds(self.foreign.at, now)).max(0.0)
    }

    /// Requests of others.
    pub(crate) fn others(&self) -> u32 {
        self.foreign.running.saturating_add(self.foreign.waiting)
    }

    /// How many requests decode there, others' included, and the sum of their prompts.
    pub(crate) fn decoding(&self, usual: Usual) -> (f64, f64) {
        let foreign = self.foreign.usually;
        (f64::from(self.decoders) + foreign, self.context as f64 + foreign * usual.prompt)
    }
}

/// A thousand of these are computed for one choice: a `Duration` would divide twice for each.
fn seconds(from: Time, to: Time) -> f64 {
    to.as_nanos().saturating_sub(from.as_nanos()) as f64 * 1e-9
}
