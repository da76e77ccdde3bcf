//! The queue's numbers for metrics and the dashboard.

use super::crowd::Crowd;
use super::fairness::Flow;
use super::line::LineId;
use super::{FlowId, Line, Queue, QueueDepth, QueueKey, QueueSnapshot, Ticket};
use crate::ids::RouteIndex;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Keys that a snapshot names.
const MOST_KEYS: usize = 100;

impl Queue {
    /// `held`: a line whose requests would have a place but for their hold.
    pub(crate) fn snapshot(&self, now: Time, held: impl Fn(&Line) -> bool) -> QueueSnapshot {
        let held: BTreeSet<LineId> = self.lines().filter(|(_, line)| held(line)).map(|(id, _)| id).collect();
        let mut held_by_place = BTreeMap::new();
        for waiter in self.waiters.values().filter(|waiter| held.contains(&waiter.line())) {
            *held_by_place.entry(waiter.place()).or_insert(0) += 1;
        }
        let wait = |tickets: Option<&Ticket>| {
            let waiter = tickets.and_then(|ticket| self.waiters.get(ticket));
            waiter.map_or(Duration::ZERO, |waiter| now.since(waiter.since))
        };
        let depth = |((route, class), crowd): (&(RouteIndex, Reverse<i32>), &Crowd)| QueueDepth {
            route: *route,
            priority: class.0,
            waiting: crowd.tickets().len(),
            held: held_by_place.get(&(*route, *class)).copied().unwrap_or(0),
            oldest: wait(crowd.tickets().first()),
        };
        QueueSnapshot {
            waiting: self.routes.iter().map(depth).collect(),
            oldest: wait(self.waiters.keys().next()),
            grants: self.tally.grants,
            refused: self.tally.refused,
            timeouts: self.tally.timeouts,
            denied: self.tally.denied,
            left: self.tally.left,
            sent_on: self.tally.sent_on,
            keys: self.keys(),
        }
    }

    fn keys(&self) -> Vec<QueueKey> {
        let waits = |(_, flow): &(&FlowId, &Flow)| !flow.waiting.is_empty();
        let mut keys: Vec<QueueKey> = self
            .flows
            .flows
            .iter()
            .filter(waits)
            .map(|(id, flow)| QueueKey {
                key: id.key,
                priority: id.priority,
                waiting: flow.waiting.len(),
                served_tokens: flow.counter,
            })
            .collect();
        keys.sort_by_key(|key| Reverse(key.waiting));
        keys.truncate(MOST_KEYS);
        let mut least = BTreeMap::new();
        for key in &keys {
            let of_class = least.entry(key.priority).or_insert(key.served_tokens);
            *of_class = key.served_tokens.min(*of_class);
        }
        for key in &mut keys {
            key.served_tokens -= least.get(&key.priority).copied().unwrap_or(0);
        }
        keys
    }
}
