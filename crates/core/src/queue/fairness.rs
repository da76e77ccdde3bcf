//! Fairness between keys: the virtual token counter.
//!
//! Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024, algorithm 2: each key has a counter of the
//! tokens it was served; a place goes to the waiting key with the smallest; a key that begins to wait is lifted, so
//! that nobody saves up service by not asking for any. One counter per class and key, since classes are strict.
//!
//! Two things differ. The cost is not known while a request runs, so the estimate is charged at the grant and
//! corrected once. And a key is lifted to the counter that the last one served had *before* it was charged (the
//! virtual time of Goyal et al., "Start-time Fair Queuing", SIGCOMM 1996) rather than to the smallest of the waiting
//! ones, which is at most one request more: else the two would tie, and a key that asks rarely would let one more
//! request of the flooding key pass each time.

use super::line::LineId;
use super::{Rank, Ticket};
use crate::ids::KeyIndex;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Idle keys are looked for when there are this many more than twice those kept the last time.
const MOST_NEW: usize = 64;

/// A key in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowId {
    pub(crate) priority: i32,
    pub(crate) key: KeyIndex,
}

/// What was charged for a place, until the truth is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    flow: FlowId,
    tokens: u64,
}

#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) counter: u64,
    /// What it was last lifted to. No correction takes the counter below: it would be service saved up.
    floor: u64,
    /// When it last had its turn or began to wait: the order of equal counters.
    pub(super) turn: u64,
    /// In each line in the order of [`due`](super::held::due).
    pub(super) waiting: BTreeSet<(LineId, Time, Ticket)>,
}

/// Keys that wait or owe: at most one per key and class that were ever seen.
#[derive(Debug, Default)]
pub(super) struct Flows {
    pub(super) flows: BTreeMap<FlowId, Flow>,
    /// Per class the counter, before its charge, of the key that was last served.
    virtual_times: BTreeMap<i32, u64>,
    kept: usize,
}

impl FlowId {
    pub(super) fn rank(self, flow: &Flow) -> Rank {
        Rank {
            class: Reverse(self.priority),
            fresh: true,
            counter: flow.counter,
            turn: flow.turn,
            key: self.key,
        }
    }
}

impl Charge {
    pub(super) fn flow(&self) -> FlowId {
        self.flow
    }
}

impl Flow {
    /// The lines in which it waits.
    pub(super) fn lines(&self) -> Vec<LineId> {
        let mut lines: Vec<LineId> = self.waiting.iter().map(|(line, ..)| *line).collect();
        lines.dedup();
        lines
    }

    pub(super) fn first_in(&self, line: LineId) -> Option<(Time, Ticket)> {
        let (found, due, ticket) = self.waiting.range((line, Time::ZERO, Ticket(0))..).next()?;
        (*found == line).then_some((*due, *ticket))
    }
}

impl Flows {
    /// The flow, lifted if it did not wait.
    pub(super) fn activate(&mut self, id: FlowId, turn: u64) -> &mut Flow {
        self.forget_idle();
        let now = self.virtual_time(id.priority);
        let flow = self.flows.entry(id).or_default();
        if flow.waiting.is_empty() {
            flow.floor = now;
            flow.counter = flow.counter.max(now);
            flow.turn = turn;
        }
        flow
    }

    /// It gets a place. `others`: the least counter of the keys of its class that wait.
    pub(super) fn serve(&mut self, id: FlowId, tokens: u64, turn: u64, others: Option<u64>) -> Charge {
        let flow = self.flows.entry(id).or_default();
        let reached = others.map_or(flow.counter, |others| others.min(flow.counter));
        flow.counter = flow.counter.saturating_add(tokens);
        flow.turn = turn;
        let time = self.virtual_times.entry(id.priority).or_default();
        *time = reached.max(*time);
        Charge { flow: id, tokens }
    }

    /// The truth takes the place of what was charged. A flow that has been forgotten since owed nothing.
    pub(super) fn correct(&mut self, charge: Charge, tokens: u64) {
        let now = self.virtual_time(charge.flow.priority);
        match self.flows.get_mut(&charge.flow) {
            Some(flow) => {
                let counter = flow.counter.saturating_sub(charge.tokens).saturating_add(tokens);
                flow.counter = counter.max(flow.floor);
            }
            None if tokens > charge.tokens => {
                let counter = now.saturating_add(tokens - charge.tokens);
                self.flows.insert(charge.flow, Flow { counter, floor: now, ..Flow::default() });
            }
            None => {}
        }
    }

    /// Counter and turn of a key that waits, or that would begin to at `turn`: the smallest is next.
    pub(super) fn standing(&self, id: FlowId, turn: u64) -> (u64, u64) {
        match self.flows.get(&id) {
            Some(flow) if !flow.waiting.is_empty() => (flow.counter, flow.turn),
            flow => (flow.map_or(0, |flow| flow.counter).max(self.virtual_time(id.priority)), turn),
        }
    }

    fn virtual_time(&self, priority: i32) -> u64 {
        self.virtual_times.get(&priority).copied().unwrap_or(0)
    }

    /// One that neither waits nor is ahead of its class would be lifted anyway: there is nothing to remember.
    fn forget_idle(&mut self) {
        if self.flows.len() < 2 * self.kept + MOST_NEW {
            return;
        }
        let times = &self.virtual_times;
        self.flows.retain(|id, flow| {
            let now = times.get(&id.priority).copied().unwrap_or(0);
            !flow.waiting.is_empty() || flow.counter > now
        });
        self.kept = self.flows.len();
    }
}

#[cfg(test)]
mod tests;
