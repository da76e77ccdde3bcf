//! Slots, queues, prices and the poison guard.

use std::time::Duration;

use sluicegate_core::{Micros, Price, QueueLimits};
use sluicegate_proxy::plan::{RoutePlan, RoutesPlan, Slots};

use super::{findings, good};

/// A file with one pool and one route, `pool` and `route` among their keys.
fn with(pool: &str, route: &str) -> String {
    format!(
        "[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\", \"http://h:2\"]\n{pool}\n[[routes]]\nmodel = \"m\"\n\
         targets = [{{ pool = \"a\" }}]\n{route}\n"
    )
}

#[track_caller]
fn route(text: &str) -> RoutePlan {
    match good(text).plan.routes {
        RoutesPlan::Fixed(mut routes) => routes.remove(0),
        RoutesPlan::AskEngines(template) => *template,
    }
}

#[test]
fn slots_are_a_number_or_asked_of_the_engine_or_not_known() {
    for (line, expected) in [
        ("", Slots::Unknown),
        ("slots = 16", Slots::Fixed(16)),
        ("slots = 0x10", Slots::Fixed(16)),
        ("slots = \"auto\"", Slots::Ask),
    ] {
        let loaded = good(&with(line, ""));
        assert_eq!(loaded.plan.pools[0].slots, expected, "{line}");
        assert_eq!(loaded.warnings, [""; 0]);
    }
    for value in ["0", "-1", "\"16\"", "\"Auto\"", "4294967296", "1.5", "true"] {
        let found = findings(&with(&format!("slots = {value}"), ""));
        let expected = "4:9: slots: expected a whole number, 1 or more, or `\"auto\"`, found ";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
}

#[test]
fn a_route_without_a_queue_section_has_the_cores_bounds() {
    let route = route(&with("slots = 1", ""));
    assert_eq!((route.queue, route.price), (QueueLimits::default(), Price::default()));
    assert_eq!((route.poison_ttl.as_secs(), route.poison_entries), (60, 1000));
}

#[test]
fn a_queue_is_what_the_file_says_and_its_length_may_be_zero() {
    for length in [0, 7] {
        let text = with("slots = 1", &format!("queue = {{ max_length = {length}, max_wait = \"250ms\" }}"));
        let expected = QueueLimits { max_length: length, max_wait: Duration::from_millis(250) };
        assert_eq!(route(&text).queue, expected);
    }
    let found = findings(&with("slots = 1", "queue = { max_wait = \"0s\" }"));
    assert_eq!(found, ["8:22: max_wait: zero makes no sense here"]);
}

#[test]
fn prices_reach_the_plan_exactly() {
    let text = with("", "price = { prompt = 0.29, cached = 0.000001, completion = 15 }");
    let expected = Price { prompt: Micros(290_000), cached: Micros(1), completion: Micros(15_000_000) };
    assert_eq!(route(&text).price, expected);
}

#[test]
fn the_poison_guard_is_what_the_file_says_and_can_be_switched_off() {
    let text = with("", "retry = { poison_ttl = \"10s\", poison_entries = 0, spill_429 = false }");
    let route = route(&text);
    assert_eq!((route.poison_ttl.as_secs(), route.poison_entries, route.retry.spill_429), (10, 0, false));
}

#[test]
fn settings_that_do_nothing_or_surprise_are_warned_of() {
    let slots = "slots = 4";
    for (pool, route, expected) in [
        ("", "queue = { max_length = 9 }", "8:24: max_length does nothing, the route's pool has no slots"),
        ("", "queue = { max_wait = \"9s\" }", "8:22: max_wait does nothing, the route's pool has no slots"),
        (slots, "queue = { max_wait = \"9s\" }", ""),
        (slots, "queue = { max_wait = \"10m\" }", "8:22: max_wait is not shorter than the route's total"),
        ("", "price = { prompt = 1.0 }", "8:20: cached has no price, so prompt tokens from the cache cost"),
        ("", "price = { prompt = 1.0, cached = 0 }", ""),
        ("", "price = { prompt = 1.0, cached = 2 }", "8:34: cached prompt tokens cost more than others"),
        ("", "price = { completion = 1.0 }", ""),
        ("engine = \"vllm\"\nslots = \"auto\"", "", "5:9: slots: engines of kind \"vllm\" do not tell"),
        ("engine = \"sglang\"\nslots = \"auto\"", "", ""),
    ] {
        let warnings = good(&with(pool, route)).warnings;
        let told = warnings.join("\n");
        let right = if expected.is_empty() { told.is_empty() } else { told.contains(expected) };
        assert!(right && warnings.len() <= 1, "{pool} {route}: {told}");
    }
}

#[test]
fn a_summary_shows_slots_queue_and_price() {
    for (pool, route, expected) in [
        (
            "slots = 1",
            "queue = { max_length = 5 }",
            "pool     a: 2 replicas, 1 slot each\n           http://h:1\n           http://h:2\n\
             route    m, mode predictive, by predicted cost\n           -> pool a\n           queue: at most 5 wait, at most 60s\n",
        ),
        (
            "slots = \"auto\"",
            "queue = { max_length = 0 }\nprice = { completion = 2.5 }",
            "pool     a: 2 replicas, as many slots as the engines tell\n           http://h:1\n           http://h:2\n\
             route    m, mode predictive, by predicted cost\n           -> pool a\n           no queue\n           \
             price of a million tokens: prompt 0, cached 0, completion 2.5\n",
        ),
    ] {
        let summary = good(&with(pool, route)).summary();
        assert!(summary.contains(expected) && !summary.contains("not the default"), "{summary}");
    }
}
