//! How many are served before one that begins to wait: the order of the queue, played on.

use super::held::due;
use super::{FlowId, Line, Queue, Ticket};
use crate::ids::KeyIndex;
use crate::time::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// The costs of one key's waiting requests, by when they are due: in the order in which they are served.
type Costs = BTreeMap<(Time, Ticket), u64>;

impl Queue {
    /// Those who wait now and are given a place before a request of `newcomer` that begins to wait now (`fresh`: one
    /// that was not tried yet; `prefill` as in [`Queue::push`]), if nobody else comes or leaves and each costs what was
    /// expected of it. `rival`: a line whose requests may take a place that the newcomer could have. Takes time in
    /// proportion to those waiting, and its logarithm.
    pub(crate) fn ahead(
        &self,
        now: Time,
        newcomer: FlowId,
        fresh: bool,
        prefill: f64,
        rival: impl Fn(&Line) -> bool,
    ) -> usize {
        let own_due = due(now, prefill);
        let mut ahead = 0;
        let mut class: BTreeMap<KeyIndex, Costs> = BTreeMap::new();
        for (ticket, waiter) in &self.waiters {
            let of = waiter.flow();
            let competes = self.lines.get(&waiter.line()).is_some_and(&rival);
            if !competes || of.priority < newcomer.priority {
                continue;
            }
            if of.priority > newcomer.priority || !waiter.is_fresh() {
                ahead += 1;
            } else if of.key != newcomer.key || waiter.due() <= own_due {
                class.entry(of.key).or_default().insert((waiter.due(), *ticket), waiter.waiting.cost_tokens);
            }
        }
        if fresh { ahead + self.turns_before(newcomer, class) } else { ahead }
    }

    /// Turns of the keys of a class until the newcomer has its own, behind those of its key that go before it.
    fn turns_before(&self, newcomer: FlowId, mut waiting: BTreeMap<KeyIndex, Costs>) -> usize {
        let mut serial = self.serial() + 1;
        waiting.entry(newcomer.key).or_default();
        let standing = |key: KeyIndex| self.flows.standing(FlowId { key, ..newcomer }, serial);
        let mut turns: BinaryHeap<_> = waiting.keys().map(|key| (Reverse(standing(*key)), *key)).collect();
        let mut before = 0;
        while let Some((Reverse((counter, _)), key)) = turns.pop() {
            let Some((_, cost)) = waiting.get_mut(&key).and_then(BTreeMap::pop_first) else {
                if key == newcomer.key {
                    break;
                }
                continue;
            };
            before += 1;
            serial += 1;
            turns.push((Reverse((counter.saturating_add(cost), serial)), key));
        }
        before
    }
}
