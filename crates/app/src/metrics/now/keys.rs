//! What keys may use and have used.

use sluicegate_core::{KeyLimits, KeyUsage, Limit};

use super::{Family, Labels};
use crate::inspect::{KeyState, amount};

pub(super) fn families(keys: &[KeyState]) -> Vec<Family> {
    let level = |name, help, read: fn(&KeyUsage) -> f64| {
        let sample = |key: &KeyState| (by_key(key), read(&key.usage));
        Family::levels(name, help, keys.iter().map(sample).collect())
    };
    vec![
        level("sluicegate_key_concurrent", "Requests of the key now", |u| f64::from(u.concurrent)),
        level("sluicegate_key_requests_minute", "Requests of the last 60 s", |u| u.requests_minute as f64),
        level("sluicegate_key_tokens_minute", "Tokens of the last 60 s", |u| u.tokens_minute as f64),
        level("sluicegate_key_tokens_day", "Tokens of this day", |u| u.day.tokens as f64),
        level("sluicegate_key_tokens_month", "Tokens of this month", |u| u.month.tokens as f64),
        level("sluicegate_key_cost_day", "Money spent this day", |u| amount(u.day.cost)),
        level("sluicegate_key_cost_month", "Money spent this month", |u| amount(u.month.cost)),
        Family::levels("sluicegate_key_limit", "The key's limits", keys.iter().flat_map(limits).collect()),
    ]
}

fn by_key(key: &KeyState) -> Labels {
    vec![("key", String::from(&*key.name))]
}

/// Only the limits there are: a missing one is no limit, which no number says.
fn limits(key: &KeyState) -> Vec<(Labels, f64)> {
    let KeyLimits {
        max_concurrent,
        requests_per_minute,
        tokens_per_minute,
        tokens_per_day,
        tokens_per_month,
        cost_per_day,
        cost_per_month,
    } = key.limits;
    let whole = |limit: Option<u64>| limit.map(|n| n as f64);
    let all = [
        (Limit::MaxConcurrent, max_concurrent.map(f64::from)),
        (Limit::RequestsPerMinute, whole(requests_per_minute)),
        (Limit::TokensPerMinute, whole(tokens_per_minute)),
        (Limit::TokensPerDay, whole(tokens_per_day)),
        (Limit::TokensPerMonth, whole(tokens_per_month)),
        (Limit::CostPerDay, cost_per_day.map(amount)),
        (Limit::CostPerMonth, cost_per_month.map(amount)),
    ];
    let sample = |(limit, most): (Limit, Option<f64>)| {
        let mut labels = by_key(key);
        labels.push(("limit", limit.as_str().into()));
        Some((labels, most?))
    };
    all.into_iter().filter_map(sample).collect()
}
