//! What is to come, in order.

use super::JobId;
use crate::fault::FaultSpec;
use sluicegate_core::{AttemptFailure, ReplicaId, Scrape, Time};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Clone, Debug)]
pub(super) enum Event {
    Arrive(JobId),
    /// The engine's step ends.
    Step(ReplicaId),
    /// An attempt, by its number, fails.
    Fail(JobId, u32, AttemptFailure),
    /// The client has no more patience.
    Leave(JobId),
    /// The request's whole time is over.
    Total(JobId),
    /// The stream's silence is looked at.
    Silence(JobId),
    /// A slow `/health` answers the scrape that began then.
    HealthDue(ReplicaId, Time),
    Scraped(ReplicaId, Scrape),
    Canary(ReplicaId, bool),
    Change(ReplicaId, Option<FaultSpec>),
    /// The time of a fault, by the change that it came with, is over.
    FaultOver(ReplicaId, u64),
    /// A replica that flaps, likewise, goes away or is back.
    Turn(ReplicaId, u64, bool),
    Tick,
}

#[derive(Debug)]
struct Entry {
    at: Time,
    serial: u64,
    event: Event,
}

/// Events by time; those of one moment in the order in which they were put in.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Entry>,
    serial: u64,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.heap.push(Entry { at, serial: self.serial, event });
    }

    /// The next event, if it comes at or before `until`.
    pub(super) fn take(&mut self, until: Time) -> Option<(Time, Event)> {
        if self.heap.peek()?.at > until {
            return None;
        }
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}

// A max-heap: the earliest is the greatest.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}
