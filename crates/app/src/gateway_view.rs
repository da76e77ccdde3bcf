//! The running data plane as the admin side sees it: the only place that translates its types.

mod explained;
mod queues;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sluicegate_core::{Health, PoolSnapshot};
use sluicegate_proxy::plan::AllowedRoutes;
use sluicegate_proxy::{Depth, Gateway, Key, RouteName, ToExplain};

use crate::config::nearest;
use crate::inspect::{
    ExplainRequest, ExplainedView, Explaining, GaugesView, Inspect, KeyState, NotFound, QueueView, Readiness,
    RefusedView, RouteState, TargetState,
};

/// Most names of keys that a refusal lists.
const MOST_NAMED: usize = 10;

/// A gateway and whether its shutdown was asked for.
pub(crate) struct GatewayView {
    gateway: Arc<Gateway>,
    draining: AtomicBool,
}

impl GatewayView {
    pub(crate) const fn new(gateway: Arc<Gateway>) -> Self {
        Self { gateway, draining: AtomicBool::new(false) }
    }

    /// A shutdown was asked for.
    pub(crate) fn draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    async fn explained(&self, request: &ExplainRequest) -> Result<ExplainedView, RefusedView> {
        let ExplainRequest { method, target, headers, body, key, decide } = request;
        let key = key.as_deref().map(|name| self.key(name)).transpose()?;
        let depth = if *decide { Depth::Service } else { Depth::Known };
        let explained = self.gateway.explain(ToExplain { method, target, headers, body, key, depth }).await;
        explained.map(|explained| explained::view(explained, key)).map_err(|refusal| RefusedView {
            status: refusal.status(),
            code: refusal.code().to_owned(),
            message: refusal.message(),
        })
    }

    fn key(&self, name: &str) -> Result<&Key, RefusedView> {
        let key = self.gateway.keys().iter().find(|key| **key.name() == *name);
        key.map(|key| &**key).ok_or_else(|| RefusedView {
            status: 404,
            code: "unknown_key".into(),
            message: unknown_key(name, self.gateway.keys().iter().map(|key| &**key.name())),
        })
    }
}

impl Inspect for GatewayView {
    fn pools(&self) -> Vec<(Arc<str>, PoolSnapshot)> {
        self.gateway.pools().iter().map(|pool| (Arc::clone(pool.name()), pool.snapshot())).collect()
    }

    fn queues(&self) -> Vec<QueueView> {
        let routes = self.gateway.routes();
        let keys: Vec<_> = self.gateway.keys().iter().map(|key| Arc::clone(key.name())).collect();
        let pools = self.gateway.pools().iter();
        pools.map(|pool| queues::view(pool.name(), &pool.queue(), &routes, &keys)).collect()
    }

    fn keys(&self) -> Vec<KeyState> {
        self.gateway.keys().iter().map(|key| key_state(key)).collect()
    }

    fn routes(&self) -> Vec<RouteState> {
        let state = |route: RouteName| RouteState {
            model: String::from(&*route.model),
            mode: route.mode,
            targets: route
                .targets
                .iter()
                .map(|(target, weight)| TargetState { name: explained::name(target), weight: *weight })
                .collect(),
            fallback: route.fallback.as_ref().map(explained::name),
        };
        self.gateway.routes().into_iter().map(state).collect()
    }

    fn readiness(&self) -> Readiness {
        if self.draining.load(Ordering::Relaxed) {
            return Readiness::Draining;
        }
        if self.gateway.ready() {
            return Readiness::Ready;
        }
        let cannot = |pool: &PoolSnapshot| !pool.replicas.iter().any(|r| takes_requests(r.health));
        let pools: Vec<_> = self.pools().into_iter().filter(|(_, pool)| cannot(pool)).collect();
        match pools.is_empty() {
            true => Readiness::NoModel,
            false => Readiness::NoReplica(pools.into_iter().map(|(name, _)| name).collect()),
        }
    }

    fn gauges(&self) -> GaugesView {
        let now = self.gateway.gauges();
        GaugesView {
            open_connections: now.open_connections,
            open_requests: now.open_requests,
            accepted_total: now.accepted_total,
            refused_heads_total: now.refused_heads_total,
        }
    }

    fn explain<'a>(&'a self, request: &'a ExplainRequest) -> Explaining<'a> {
        Box::pin(self.explained(request))
    }

    fn set_draining(&self, pool: &str, replica: &str, draining: bool) -> Result<(), NotFound> {
        let pool = self.gateway.pools().iter().find(|p| **p.name() == *pool).ok_or(NotFound::Pool)?;
        let replicas = pool.snapshot().replicas;
        let id = replicas.iter().find(|r| r.name == replica).ok_or(NotFound::Replica)?.id;
        if draining {
            pool.drain(id)
        } else {
            pool.undrain(id)
        }
        Ok(())
    }
}

/// Names of keys are no secret here: `GET /api/state` lists them.
fn unknown_key<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let hint = match (nearest(name, known.iter().copied()), known.len()) {
        (_, 0) => "this gateway has none".to_owned(),
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, 1..=MOST_NAMED) => format!("there are: {}", known.join(", ")),
        (None, len) => format!("there are {len}: {}, ...", known[..MOST_NAMED].join(", ")),
    };
    format!("there is no key of the name `{name}`; {hint}")
}

const fn takes_requests(health: Health) -> bool {
    matches!(health, Health::Live | Health::Probing)
}

fn key_state(key: &Key) -> KeyState {
    let plan = key.plan();
    KeyState {
        name: Arc::clone(&plan.name),
        project: plan.project.clone(),
        routes: match &plan.routes {
            AllowedRoutes::All => None,
            AllowedRoutes::Only(routes) => Some(routes.clone()),
        },
        priority: plan.priority,
        limits: plan.limits.clone(),
        usage: key.usage(),
    }
}
