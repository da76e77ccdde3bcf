//! The queue's invariants.

use super::{FlowId, Queue};
use std::collections::BTreeSet;

impl Queue {
    /// Panics where the queue's views of who waits disagree.
    pub(crate) fn check(&self) {
        let by_route: BTreeSet<_> = self.routes.values().flat_map(|crowd| crowd.tickets()).copied().collect();
        let waiting: BTreeSet<_> = self.waiters.keys().copied().collect();
        assert_eq!(by_route, waiting, "every waiting request counts for its route");
        assert!(self.routes.values().all(|c| !c.tickets().is_empty()), "a route that nobody waits for");
        self.routes.values().for_each(super::crowd::Crowd::check);
        let by_deadline: BTreeSet<_> = self.deadlines.iter().map(|(_, ticket)| *ticket).collect();
        assert_eq!(by_deadline, waiting, "every waiting request has a deadline");
        let (mut heads, mut in_flows) = (BTreeSet::new(), 0);
        for (ticket, waiter) in &self.waiters {
            if waiter.is_fresh() {
                let id: FlowId = waiter.flow();
                let flow = &self.flows.flows[&id];
                assert!(
                    flow.waiting.contains(&(waiter.line(), waiter.due(), *ticket)),
                    "a fresh one waits with its key"
                );
                in_flows += 1;
                heads.insert((waiter.line(), id.rank(flow)));
            } else {
                heads.insert((waiter.line(), waiter.retry_rank(*ticket)));
            }
        }
        let waiting_flows: usize = self.flows.flows.values().map(|flow| flow.waiting.len()).sum();
        assert_eq!(waiting_flows, in_flows, "keys wait with nothing else");
        let of_lines = |(id, line): (&_, &super::Line)| {
            assert!(!line.heads.is_empty(), "a line that nobody waits in");
            line.heads.iter().map(|rank| (*id, *rank)).collect::<Vec<_>>()
        };
        let in_lines: BTreeSet<_> = self.lines.iter().flat_map(of_lines).collect();
        assert_eq!(in_lines, heads, "each key is in its lines at its rank");
    }
}
