//! Requests that wait, and what became of those that did.

use super::{Family, Labels};
use crate::inspect::{QueueView, RouteQueueView};

pub(super) fn families(queues: &[QueueView]) -> Vec<Family> {
    let by_pool = |queue: &QueueView| vec![("pool", queue.pool.clone())];
    let count = |name, help, read: fn(&QueueView) -> u64| {
        Family::counts(name, help, queues.iter().map(|queue| (by_pool(queue), read(queue))).collect())
    };
    let oldest = queues.iter().map(|queue| (by_pool(queue), queue.oldest_seconds)).collect();
    vec![
        Family::levels("sluicegate_queue_waiting", "Requests that wait", by_route(queues, |row| row.waiting)),
        Family::levels(
            "sluicegate_queue_held",
            "Those of them that hold alone holds back",
            by_route(queues, |row| row.held),
        ),
        Family::levels("sluicegate_queue_oldest_seconds", "How long the oldest of them has waited", oldest),
        count("sluicegate_queue_grants", "Places given to requests that had waited", |q| q.grants_total),
        count("sluicegate_queue_refused", "Requests turned away by a full queue", |q| q.refused_total),
        count("sluicegate_queue_timeouts", "Requests that waited too long", |q| q.timeouts_total),
        count("sluicegate_queue_denied", "Waiting requests whose last replica went away", |q| q.denied_total),
        count("sluicegate_queue_left", "Clients that left while they waited", |q| q.left_total),
        count("sluicegate_queue_sent_on", "Requests that went on before hold allowed it", |q| {
            q.sent_on_total
        }),
    ]
}

fn by_route(queues: &[QueueView], read: fn(&RouteQueueView) -> usize) -> Vec<(Labels, f64)> {
    let of_pool = |queue: &QueueView| {
        let labels = |route: &String| vec![("pool", queue.pool.clone()), ("route", route.clone())];
        queue.routes.iter().map(|row| (labels(&row.route), read(row) as f64)).collect::<Vec<_>>()
    };
    queues.iter().flat_map(of_pool).collect()
}
