//! A gateway made of plain data, for the tests of metrics and admin side.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_core::{
    EngineLoad, Health, KeyLimits, KeyUsage, Micros, PoolSnapshot, ReplicaId, ReplicaSnapshot, Spent, Time,
    Transition, TransitionReason,
};

use crate::inspect::{
    CandidateView, ClassQueueView, ExplainRequest, ExplainedView, Explaining, GaugesView, Inspect,
    KeyQueueView, KeyState, NotFound, OutcomeView, QueueView, Readiness, RefusedView, RouteQueueView,
    RouteState, TargetState,
};

/// Two replicas in one pool, two routes, two keys; what was drained is remembered.
pub(crate) struct PlainGateway {
    pub(crate) readiness: Mutex<Readiness>,
    pub(crate) drained: Mutex<HashSet<String>>,
}

impl Default for PlainGateway {
    fn default() -> Self {
        Self { readiness: Mutex::new(Readiness::Ready), drained: Mutex::default() }
    }
}

fn replica(id: u32, health: Health, cooldown_left: Option<Duration>) -> ReplicaSnapshot {
    ReplicaSnapshot {
        id: ReplicaId(id),
        name: format!("http://10.0.0.{id}:8000"),
        health,
        outgoing: false,
        inflight: id,
        inflight_weight: 2.5,
        scraped: Some(EngineLoad {
            running: 3,
            waiting: 1,
            tokens_total: Some(500),
            kv_usage: Some(0.25),
            kv_tokens: None,
        }),
        last_good_scrape: None,
        effective_running: 3.0,
        effective_waiting: 1.0,
        slots: Some(16),
        free_slot: Some(false),
        cooldown_left,
        streak: 0,
        ejections: u64::from(id) - 1,
        picks: 40,
        traffic_share: 0.5,
        pins: 4,
        last_transition: cooldown_left.map(|_| Transition {
            replica: ReplicaId(id),
            at: Time::ZERO,
            from: Health::Live,
            to: health,
            reason: TransitionReason::Refused,
            cooldown: cooldown_left,
            streak: 1,
        }),
        last_transition_age: cooldown_left.map(|_| Duration::from_millis(28_500)),
    }
}

/// Three requests wait for one of two routes.
fn queue() -> QueueView {
    let class = ClassQueueView { priority: 1, waiting: 3, held: 2, oldest_seconds: 2.5 };
    let busy = RouteQueueView {
        route: "qwen3".into(),
        waiting: 3,
        held: 2,
        oldest_seconds: 2.5,
        classes: vec![class],
    };
    let idle = RouteQueueView { route: "idle".into(), ..RouteQueueView::default() };
    QueueView {
        pool: "big".into(),
        waiting: 3,
        held: 2,
        oldest_seconds: 2.5,
        routes: vec![busy, idle],
        keys: vec![KeyQueueView { key: Some("team-a".into()), priority: 1, waiting: 3, served_tokens: 40 }],
        grants_total: 11,
        refused_total: 12,
        timeouts_total: 13,
        denied_total: 14,
        left_total: 15,
        sent_on_total: 16,
    }
}

/// A key with every limit, at work.
fn limited_key() -> KeyState {
    let limits = KeyLimits {
        max_concurrent: Some(8),
        requests_per_minute: Some(600),
        tokens_per_minute: Some(100_000),
        tokens_per_day: Some(5_000_000),
        tokens_per_month: Some(9_000_000_000),
        cost_per_day: Some(Micros(12_500_000)),
        cost_per_month: Some(Micros(200_000_000)),
    };
    let usage = KeyUsage {
        concurrent: 2,
        requests_minute: 30,
        tokens_minute: 4_000,
        day: Spent { tokens: 90_000, cost: Micros(4_500) },
        month: Spent { tokens: 8_000_000_000, cost: Micros(150_000_001) },
    };
    KeyState {
        name: "team-a".into(),
        project: Some("search".into()),
        routes: Some(vec!["qwen3".into()]),
        priority: 1,
        limits,
        usage,
    }
}

impl Inspect for PlainGateway {
    fn pools(&self) -> Vec<(Arc<str>, PoolSnapshot)> {
        let replicas = vec![
            replica(1, Health::Live, None),
            replica(2, Health::Ejected, Some(Duration::from_millis(1500))),
        ];
        let pool = PoolSnapshot { replicas, imbalance_index: 0.0, session_pins: 7, prefix_pins: 1 };
        vec![("big".into(), pool)]
    }

    fn queues(&self) -> Vec<QueueView> {
        vec![queue()]
    }

    fn keys(&self) -> Vec<KeyState> {
        let free = KeyState {
            name: "free".into(),
            project: None,
            routes: None,
            priority: 0,
            limits: KeyLimits::default(),
            usage: KeyUsage::default(),
        };
        vec![limited_key(), free]
    }

    fn routes(&self) -> Vec<RouteState> {
        let target = TargetState { name: "big/Qwen".into(), weight: Some(3) };
        let (targets, fallback) = (vec![target], Some("provider/gpt".into()));
        vec![RouteState { model: "qwen3".into(), mode: "weighted", targets, fallback }]
    }

    fn readiness(&self) -> Readiness {
        self.readiness.lock().unwrap().clone()
    }

    fn gauges(&self) -> GaugesView {
        GaugesView { open_connections: 5, open_requests: 2, accepted_total: 90, refused_heads_total: 1 }
    }

    fn explain<'a>(&'a self, request: &'a ExplainRequest) -> Explaining<'a> {
        Box::pin(std::future::ready(explained(request)))
    }

    fn set_draining(&self, pool: &str, replica: &str, draining: bool) -> Result<(), NotFound> {
        if pool != "big" {
            return Err(NotFound::Pool);
        }
        if !self.pools().iter().any(|(_, p)| p.replicas.iter().any(|r| r.name == replica)) {
            return Err(NotFound::Replica);
        }
        let mut drained = self.drained.lock().unwrap();
        if draining {
            drained.insert(replica.into())
        } else {
            drained.remove(replica)
        };
        Ok(())
    }
}

fn explained(request: &ExplainRequest) -> Result<ExplainedView, RefusedView> {
    if request.target != "/v1/chat/completions" {
        let message = format!("{} {} is not routed", request.method, request.target);
        return Err(RefusedView { status: 404, code: "not_found".into(), message });
    }
    Ok(ExplainedView {
        route: "qwen3".into(),
        key: request.key.clone(),
        targets: vec!["big".into()],
        decision: None,
        session: request.headers.iter().find(|(name, _)| name == "x-session-id").map(|(_, v)| v.clone()),
        prefix: None,
        estimated_prompt_tokens: u64::try_from(request.body.len()).unwrap(),
        outcome: OutcomeView::Replica {
            name: "http://10.0.0.1:8000".into(),
            target: Some("big".into()),
            reason: "load".into(),
            spilled: false,
        },
        candidates: vec![CandidateView {
            name: "http://10.0.0.1:8000".into(),
            target: "big".into(),
            state: "live".into(),
            effective_running: 3.0,
            effective_waiting: 0.0,
            inflight: 1,
            excluded: None,
            policies: Vec::new(),
            predicted: None,
        }],
        steps: Vec::new(),
    })
}
