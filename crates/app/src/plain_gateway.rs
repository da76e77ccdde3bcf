//! A gateway made of plain data, for the tests of metrics and admin side.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluicegate_core::{EngineLoad, Health, PoolSnapshot, ReplicaId, ReplicaSnapshot};

use crate::inspect::{
    CandidateView, ExplainRequest, ExplainedView, GaugesView, Inspect, NotFound, OutcomeView, Readiness,
    RefusedView,
};

/// Two replicas in one pool; what was drained is remembered.
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
        inflight: id,
        inflight_weight: 2.5,
        scraped: Some(EngineLoad { running: 3, waiting: 1, tokens_total: Some(500), kv_usage: Some(0.25) }),
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
        last_transition: None,
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

    fn models(&self) -> Vec<Arc<str>> {
        vec!["qwen3".into()]
    }

    fn readiness(&self) -> Readiness {
        self.readiness.lock().unwrap().clone()
    }

    fn gauges(&self) -> GaugesView {
        GaugesView { open_connections: 5, open_requests: 2, accepted_total: 90, refused_heads_total: 1 }
    }

    fn explain(&self, request: &ExplainRequest) -> Result<ExplainedView, RefusedView> {
        if request.target != "/v1/chat/completions" {
            let message = format!("{} {} is not routed", request.method, request.target);
            return Err(RefusedView { status: 404, code: "not_found".into(), message });
        }
        Ok(ExplainedView {
            route: "qwen3".into(),
            pool: "big".into(),
            session: request.headers.iter().find(|(name, _)| name == "x-session-id").map(|(_, v)| v.clone()),
            prefix: None,
            estimated_prompt_tokens: u64::try_from(request.body.len()).unwrap(),
            outcome: OutcomeView::Replica {
                name: "http://10.0.0.1:8000".into(),
                reason: "load".into(),
                spilled: false,
            },
            candidates: vec![CandidateView {
                name: "http://10.0.0.1:8000".into(),
                state: "live".into(),
                effective_running: 3.0,
                effective_waiting: 0.0,
                inflight: 1,
                excluded: None,
            }],
            steps: vec!["pool: 1 of 2 replicas".into()],
        })
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
