//! A pool's queue with the names of routes and keys in the place of their numbers.

use std::sync::Arc;

use sluicegate_core::{KeyIndex, QueueDepth, QueueKey, QueueSnapshot, RouteIndex};
use sluicegate_proxy::RouteName;

use crate::inspect::{ClassQueueView, KeyQueueView, QueueView, RouteQueueView};

/// The queue of `pool`. `routes` are those of every pool, `keys` the names in the order of the configuration.
pub(super) fn view(pool: &str, now: &QueueSnapshot, routes: &[RouteName], keys: &[Arc<str>]) -> QueueView {
    let own: Vec<_> = routes.iter().filter(|route| route.pools.iter().any(|own| **own == *pool)).collect();
    let gone = |depth: &&QueueDepth| !own.iter().any(|route| route.index == depth.route);
    let of_route = |index: RouteIndex| now.waiting.iter().filter(move |depth| depth.route == index);
    let mut routes: Vec<_> =
        own.iter().map(|route| route_view(&route.model, of_route(route.index))).collect();
    let left_over = route_view("", now.waiting.iter().filter(gone));
    if left_over.waiting > 0 {
        routes.push(left_over);
    }
    QueueView {
        pool: pool.to_owned(),
        waiting: now.waiting.iter().map(|depth| depth.waiting).sum(),
        held: now.waiting.iter().map(|depth| depth.held).sum(),
        oldest_seconds: now.oldest.as_secs_f64(),
        routes,
        keys: now.keys.iter().map(|waiting| key_view(waiting, keys)).collect(),
        grants_total: now.grants,
        refused_total: now.refused,
        timeouts_total: now.timeouts,
        denied_total: now.denied,
        left_total: now.left,
        sent_on_total: now.sent_on,
    }
}

fn route_view<'a>(route: &str, depths: impl Iterator<Item = &'a QueueDepth>) -> RouteQueueView {
    let mut view = RouteQueueView { route: route.to_owned(), ..RouteQueueView::default() };
    for depth in depths {
        let QueueDepth { priority, waiting, held, oldest, .. } = *depth;
        let oldest_seconds = oldest.as_secs_f64();
        view.waiting += waiting;
        view.held += held;
        view.oldest_seconds = view.oldest_seconds.max(oldest_seconds);
        view.classes.push(ClassQueueView { priority, waiting, held, oldest_seconds });
    }
    view
}

fn key_view(waiting: &QueueKey, keys: &[Arc<str>]) -> KeyQueueView {
    let QueueKey { key: KeyIndex(index), priority, waiting, served_tokens } = *waiting;
    let name = usize::try_from(index).ok().and_then(|index| keys.get(index));
    KeyQueueView { key: name.map(|name| String::from(&**name)), priority, waiting, served_tokens }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn route(index: u32, model: &str, pool: &str) -> RouteName {
        RouteName {
            index: RouteIndex(index),
            model: model.into(),
            pools: vec![pool.into()],
            mode: "adaptive",
            targets: Vec::new(),
            fallback: None,
        }
    }

    fn depth(route: u32, priority: i32, waiting: usize, oldest: u64) -> QueueDepth {
        let oldest = Duration::from_secs(oldest);
        QueueDepth { route: RouteIndex(route), priority, waiting, held: waiting / 2, oldest }
    }

    fn row(
        route: &str,
        waiting: usize,
        oldest_seconds: f64,
        classes: &[(i32, usize, f64)],
    ) -> RouteQueueView {
        let class = |&(priority, waiting, oldest_seconds): &(i32, usize, f64)| ClassQueueView {
            priority,
            waiting,
            held: waiting / 2,
            oldest_seconds,
        };
        let classes: Vec<_> = classes.iter().map(class).collect();
        let held = classes.iter().map(|class| class.held).sum();
        RouteQueueView { route: route.to_owned(), waiting, held, oldest_seconds, classes }
    }

    #[test]
    fn every_route_of_the_pool_is_shown_with_the_sum_and_the_oldest_of_its_classes() {
        let now = QueueSnapshot {
            waiting: vec![depth(1, 0, 3, 9), depth(1, 5, 2, 4), depth(7, 0, 1, 2)],
            oldest: Duration::from_secs(9),
            ..QueueSnapshot::default()
        };
        let routes = [route(0, "idle", "big"), route(1, "busy", "big"), route(2, "other", "small")];
        let view = view("big", &now, &routes, &[]);
        assert_eq!((view.waiting, view.held, view.oldest_seconds), (6, 2, 9.0));
        let idle = row("idle", 0, 0.0, &[]);
        let busy = row("busy", 5, 9.0, &[(0, 3, 9.0), (5, 2, 4.0)]);
        let gone = row("", 1, 2.0, &[(0, 1, 2.0)]);
        assert_eq!(view.routes, [idle, busy, gone], "a route that is gone keeps its waiting requests");
    }

    #[test]
    fn waiting_keys_are_named_and_an_open_gateway_has_no_names() {
        let waiting = QueueKey { key: KeyIndex(1), priority: 2, waiting: 3, served_tokens: 40 };
        let now = QueueSnapshot { keys: vec![waiting], ..QueueSnapshot::default() };
        for (names, name) in [(&["a".into(), "b".into()][..], Some("b")), (&[], None)] {
            let expected =
                KeyQueueView { key: name.map(String::from), priority: 2, waiting: 3, served_tokens: 40 };
            assert_eq!(view("big", &now, &[], names).keys, [expected]);
        }
    }
}
