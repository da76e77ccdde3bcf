//! What one replica has before it: our own requests that wait for their first byte, in the order in which they were sent,
//! those that decode, and what a scrape says of others' requests.
//!
//! Engines prefill in order of arrival, so a newcomer waits for the prefill of all that were sent before it, less what has
//! been done of the first. A request burdens the replica's prefill until its first byte and no longer.

use super::burden::{Burden, Foreign};
use super::work::Work;
use crate::load::EngineLoad;
use crate::time::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// First bytes that come within this belong to the same step of the engine.
const STEP: Duration = Duration::from_millis(5);

/// Weight of the newest scrape in how many requests of others decode: half a minute of scrapes is remembered. Those of
/// one scrape have mostly ended by the next, and everybody would go where there were fewest.
const NEWEST: f64 = 0.1;

/// A request's place in the ledger of its replica: counts up in order of dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u64);

#[derive(Clone, Copy, Debug)]
struct Pending {
    entry: Entry,
    work: Work,
    prompt: u32,
    sent: Time,
    /// Nothing was before it when it was sent.
    at_once: bool,
    /// Its first byte comes with its last: it is taken to be prefilled by then.
    silent_until: Option<Time>,
}

/// A measured prefill.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) work: Work,
    pub(crate) seconds: f64,
}

/// First bytes of one step of the engine.
#[derive(Clone, Copy, Debug)]
struct Step {
    work: Work,
    last: Time,
    /// When the one that did not wait was sent, if there is one among them.
    began: Option<Time>,
}

/// The ledger of one replica.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    pending: VecDeque<Pending>,
    total: Work,
    /// Since when the engine has worked on the first of them.
    head_since: Time,
    step: Option<Step>,
    next: u64,
    decoders: u32,
    /// Sum of their prompts, in tokens.
    context: u64,
    foreign: Foreign,
    /// Most own requests, without a first byte and in all, at a time since the last scrape was started.
    most: (usize, usize),
}

impl Ledger {
    /// The request goes to the replica, with this much to do there.
    /// `silent_until`: when it is taken to be prefilled, where its first byte does not say so.
    pub(crate) fn sent(&mut self, now: Time, prompt: u32, work: Work, silent_until: Option<Time>) -> Entry {
        self.pass_silent(now, None);
        let entry = Entry(self.next);
        self.next += 1;
        let at_once = self.pending.is_empty();
        if at_once {
            self.head_since = now;
        }
        self.pending.push_back(Pending { entry, work, prompt, sent: now, at_once, silent_until });
        self.total += work;
        self.count();
        entry
    }

    /// Its first byte has come: it decodes from here on. Only the first call counts. `predicted`: seconds that work takes.
    /// `doubt`: see [`Self::burden`].
    pub(crate) fn answered(&mut self, now: Time, entry: Entry, predicted: impl Fn(Work) -> f64, doubt: f64) {
        self.pass_silent(now, Some(entry));
        let begun = self.begun_before(now, entry, predicted) * (1.0 - doubt);
        let Some(pending) = self.take(now, entry) else { return };
        self.head_since = Time::from_nanos(self.head_since.as_nanos().saturating_sub((begun * 1e9) as u64));
        self.decodes(&pending);
        if pending.silent_until.is_some() {
            return;
        }
        let step = self.step.get_or_insert(Step { work: Work::default(), last: now, began: None });
        step.work += pending.work;
        step.last = now;
        if pending.at_once {
            step.began = Some(pending.sent);
        }
    }

    /// It has ended, with a first byte or without one.
    pub(crate) fn ended(&mut self, now: Time, entry: Entry, prompt: u32) {
        if self.take(now, entry).is_none() {
            self.decoders = self.decoders.saturating_sub(1);
            self.context = self.context.saturating_sub(u64::from(prompt));
        }
    }

    /// The last step whose first bytes are all there, once. `None` if all that were in it had waited: how long the engine
    /// worked on those is not known. Nor is it known, where somebody waits now, how much of the step was the next one's:
    /// such a sample is too long by up to a step, and taken only if `rough` is good enough.
    pub(crate) fn sample(&mut self, now: Time, rough: bool) -> Option<Sample> {
        let step = self.step.take_if(|step| now.since(step.last) > STEP)?;
        if !rough && !self.pending.is_empty() {
            return None;
        }
        let seconds = step.last.since(step.began?).as_secs_f64();
        Some(Sample { work: step.work, seconds })
    }

    /// What a choice reads of it. `doubt`: the part of a prefill that may be to come when it has taken as long as
    /// predicted, until its first byte says that it is over.
    pub(crate) fn burden(&self, slowness: f64, doubt: f64) -> Burden {
        // A silent one may be over without a word, and the next one have begun.
        let silent = self.pending.iter().take_while(|pending| pending.silent_until.is_some());
        let may_be_over = silent.fold(Work::default(), |sum, pending| sum + pending.work);
        let head = self.pending.front().map_or(Work::default(), |head| head.work);
        // Nothing but time ends a silent one.
        let (begun, believed) = if may_be_over.size == 0 { (head, 1.0 - doubt) } else { (may_be_over, 1.0) };
        Burden {
            total: self.total,
            begun,
            believed,
            since: self.head_since,
            decoders: self.decoders,
            context: self.context,
            foreign: self.foreign,
            slowness,
        }
    }

    pub(crate) fn scrape_started(&mut self) {
        self.most = (0, 0);
        self.count();
    }

    /// What the engine said is more than our own requests explain: the rest is others'. `None`: it says nothing.
    pub(crate) fn scraped(&mut self, now: Time, load: Option<EngineLoad>) {
        let ((pending, all), before) = (self.most, self.foreign.usually);
        self.foreign = load.map_or(Foreign::default(), |load| {
            let running = load.running.saturating_sub(all as u32);
            Foreign {
                waiting: load.waiting.saturating_sub(pending as u32),
                running,
                usually: before + (f64::from(running) - before) * NEWEST,
                at: now,
            }
        });
    }

    /// Requests that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.pending.len() + self.decoders as usize
    }

    #[cfg(test)]
    fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Silent ones at the front whose time has come decode, and so do all that were sent before one that is `answered`.
    fn pass_silent(&mut self, now: Time, answered: Option<Entry>) {
        while let Some(head) = self.pending.front().copied() {
            let over = head
                .silent_until
                .is_some_and(|until| until <= now || answered.is_some_and(|answered| head.entry < answered));
            if !over {
                break;
            }
            self.take(now, head.entry);
            self.decodes(&head);
        }
    }

    /// Seconds that the engine has worked on the second when the first, `entry`, has its first byte: what that took longer
    /// than predicted. An engine fills its steps, and the last of the first has a part of the second.
    fn begun_before(&self, now: Time, entry: Entry, predicted: impl Fn(Work) -> f64) -> f64 {
        let (Some(first), Some(second)) = (self.pending.front(), self.pending.get(1)) else { return 0.0 };
        if first.entry != entry {
            return 0.0;
        }
        let longer = now.since(self.head_since).as_secs_f64() - predicted(first.work);
        longer.clamp(0.0, predicted(second.work).min(now.since(second.sent).as_secs_f64()))
    }

    fn decodes(&mut self, pending: &Pending) {
        self.decoders += 1;
        self.context += u64::from(pending.prompt);
    }

    fn take(&mut self, now: Time, entry: Entry) -> Option<Pending> {
        let at = self.pending.binary_search_by_key(&entry, |pending| pending.entry).ok()?;
        let pending = self.pending.remove(at)?;
        self.total -= pending.work;
        if at == 0 {
            self.head_since = now;
        }
        Some(pending)
    }

    fn count(&mut self) {
        let pending = self.pending.len();
        self.most = (self.most.0.max(pending), self.most.1.max(pending + self.decoders as usize));
    }
}

#[cfg(test)]
mod tests;
