//! Keys in `GET /api/state`: their names, rights and numbers, never their hashes.

use std::sync::Arc;

use serde::Serialize;
use sluicegate_core::{KeyLimits, KeyUsage};

use crate::inspect::{KeyState, amount};

/// One key.
#[derive(Serialize)]
pub(super) struct KeyView {
    name: String,
    project: Option<String>,
    /// null: every route.
    routes: Option<Vec<String>>,
    priority: i32,
    limits: LimitsView,
    usage: UsageView,
}

/// Limits by the names of their configuration keys; null: none.
#[derive(Serialize)]
struct LimitsView {
    max_concurrent: Option<u32>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    tokens_per_day: Option<u64>,
    tokens_per_month: Option<u64>,
    cost_per_day: Option<f64>,
    cost_per_month: Option<f64>,
}

/// What counts against the limits now.
#[derive(Serialize)]
struct UsageView {
    concurrent: u32,
    requests_minute: u64,
    tokens_minute: u64,
    tokens_day: u64,
    tokens_month: u64,
    cost_day: f64,
    cost_month: f64,
}

impl KeyView {
    pub(super) fn of(key: KeyState) -> Self {
        let owned = |text: Arc<str>| String::from(&*text);
        Self {
            name: owned(key.name),
            project: key.project.map(owned),
            routes: key.routes.map(|routes| routes.into_iter().map(owned).collect()),
            priority: key.priority,
            limits: LimitsView::of(&key.limits),
            usage: UsageView::of(&key.usage),
        }
    }
}

impl LimitsView {
    fn of(limits: &KeyLimits) -> Self {
        Self {
            max_concurrent: limits.max_concurrent,
            requests_per_minute: limits.requests_per_minute,
            tokens_per_minute: limits.tokens_per_minute,
            tokens_per_day: limits.tokens_per_day,
            tokens_per_month: limits.tokens_per_month,
            cost_per_day: limits.cost_per_day.map(amount),
            cost_per_month: limits.cost_per_month.map(amount),
        }
    }
}

impl UsageView {
    fn of(usage: &KeyUsage) -> Self {
        Self {
            concurrent: usage.concurrent,
            requests_minute: usage.requests_minute,
            tokens_minute: usage.tokens_minute,
            tokens_day: usage.day.tokens,
            tokens_month: usage.month.tokens,
            cost_day: amount(usage.day.cost),
            cost_month: amount(usage.month.cost),
        }
    }
}
