//! `GET /api/state`: everything at a glance, as JSON.

mod keys;

use std::time::Duration;

use serde::Serialize;
use sluicegate_core::{EngineLoad, PoolSnapshot, ReplicaSnapshot, Transition};

use super::Shown;
use crate::discovery::SourceView;
use crate::inspect::{ANY_MODEL, GaugesView, QueueView, Readiness, RouteState, health_name};
use keys::KeyView;

/// The gateway's state.
#[derive(Serialize)]
pub(super) struct StateView {
    gateway: String,
    version: &'static str,
    ready: bool,
    reason: Option<String>,
    models: Vec<String>,
    routes: Vec<RouteState>,
    gauges: GaugesView,
    usage_lines_lost: u64,
    pools: Vec<PoolView>,
    discovery: Vec<SourceView>,
    queues: Vec<QueueView>,
    keys: Vec<KeyView>,
}

#[derive(Serialize)]
struct PoolView {
    name: String,
    imbalance_index: f64,
    session_pins: usize,
    prefix_pins: usize,
    replicas: Vec<ReplicaView>,
}

#[derive(Serialize)]
struct ReplicaView {
    name: String,
    state: &'static str,
    /// Its source does not list it any more; it serves until one that is listed is LIVE.
    outgoing: bool,
    inflight: u32,
    inflight_weight: f64,
    engine: Option<EngineView>,
    effective_running: f64,
    effective_waiting: f64,
    slots: Option<u32>,
    free_slot: Option<bool>,
    cooldown_seconds: Option<f64>,
    streak: u32,
    ejections: u64,
    picks: u64,
    traffic_share: f64,
    pins: usize,
    last_transition: Option<TransitionView>,
}

/// What the engine's own metrics said last.
#[derive(Serialize)]
struct EngineView {
    running: u32,
    waiting: u32,
    tokens_total: Option<u64>,
    kv_usage: Option<f32>,
}

#[derive(Serialize)]
struct TransitionView {
    from: &'static str,
    to: &'static str,
    reason: &'static str,
    /// How long ago it was.
    age_seconds: f64,
}

impl StateView {
    pub(super) fn of(shown: &Shown) -> Self {
        let readiness = shown.gateway.readiness();
        let routes = shown.gateway.routes();
        Self {
            gateway: String::from(&*shown.gateway_id),
            version: env!("CARGO_PKG_VERSION"),
            ready: readiness == Readiness::Ready,
            reason: readiness.reason(),
            models: routes
                .iter()
                .map(|route| route.model.clone())
                .filter(|model| model != ANY_MODEL)
                .collect(),
            routes,
            gauges: shown.gateway.gauges(),
            usage_lines_lost: shown.lost_lines(),
            pools: shown.gateway.pools().iter().map(|(name, now)| PoolView::of(name, now)).collect(),
            discovery: shown.sources.sources(),
            queues: shown.gateway.queues(),
            keys: shown.gateway.keys().into_iter().map(KeyView::of).collect(),
        }
    }
}

impl PoolView {
    fn of(name: &str, now: &PoolSnapshot) -> Self {
        Self {
            name: name.into(),
            imbalance_index: now.imbalance_index,
            session_pins: now.session_pins,
            prefix_pins: now.prefix_pins,
            replicas: now.replicas.iter().map(ReplicaView::of).collect(),
        }
    }
}

impl ReplicaView {
    fn of(now: &ReplicaSnapshot) -> Self {
        Self {
            name: now.name.clone(),
            state: health_name(now.health),
            outgoing: now.outgoing,
            inflight: now.inflight,
            inflight_weight: now.inflight_weight,
            engine: now.scraped.map(EngineView::of),
            effective_running: now.effective_running,
            effective_waiting: now.effective_waiting,
            slots: now.slots,
            free_slot: now.free_slot,
            cooldown_seconds: now.cooldown_left.map(|left| left.as_secs_f64()),
            streak: now.streak,
            ejections: now.ejections,
            picks: now.picks,
            traffic_share: now.traffic_share,
            pins: now.pins,
            last_transition: now
                .last_transition
                .as_ref()
                .zip(now.last_transition_age)
                .map(TransitionView::of),
        }
    }
}

impl EngineView {
    const fn of(load: EngineLoad) -> Self {
        let EngineLoad { running, waiting, tokens_total, kv_usage, kv_tokens: _ } = load;
        Self { running, waiting, tokens_total, kv_usage }
    }
}

impl TransitionView {
    fn of((transition, age): (&Transition, Duration)) -> Self {
        Self {
            from: health_name(transition.from),
            to: health_name(transition.to),
            reason: transition.reason.as_str(),
            age_seconds: age.as_secs_f64(),
        }
    }
}
