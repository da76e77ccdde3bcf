//! The gateway's shared state, and what the rest of the program may ask of it.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use sluicegate_core::{Health, ModelId, ReplicaId, RouteIndex, Serves, TargetIndex};

use crate::decide::Decisions;
use crate::keys::{Key, Keys};
use crate::plan::{Plan, RoutePlan, RoutesPlan};
use crate::pool::{Control, Pool, WakeEpoch};
use crate::responses::Responses;
use crate::route::{Route, Routes};
use crate::server::{self, Running};
use crate::usage::UsageSink;

/// State that every thread of the gateway shares.
pub struct Gateway {
    pub(crate) plan: Plan,
    pub(crate) pools: Vec<Arc<Pool>>,
    pub(crate) routes: ArcSwap<Routes>,
    pub(crate) sink: Arc<dyn UsageSink>,
    pub(crate) decisions: Arc<dyn Decisions>,
    pub(crate) keys: Keys,
    pub(crate) responses: Responses,
    pub(crate) counters: Counters,
    /// The longest time limit of any route: until its route is known, a request has that long.
    pub(crate) longest_total: Duration,
    draining: AtomicBool,
    stopping: AtomicBool,
    /// Raised when waiting connections must look around.
    pub(crate) wake: Arc<WakeEpoch>,
    learned: Mutex<Learned>,
}

/// Counted by the data plane.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) open_connections: AtomicU64,
    pub(crate) open_requests: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused_heads: AtomicU64,
}

/// Numbers read at a glance. The first two are 0 on an idle gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Client connections that are open.
    pub open_connections: u64,
    /// Requests that have not ended.
    pub open_requests: u64,
    /// Client connections accepted so far.
    pub accepted_total: u64,
    /// Requests refused so far because their head could not be read.
    pub refused_heads_total: u64,
}

/// A target as people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetName {
    /// Its pool.
    pub pool: Arc<str>,
    /// The model name that its replicas are asked for; None: as the client asked.
    pub upstream_model: Option<Arc<str>>,
}

/// A route as queues number it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteName {
    /// Its number in the queue of its pool.
    pub index: RouteIndex,
    /// Its public model name; `*` for the route to engines that have no list of models.
    pub model: Arc<str>,
    /// The pools that its requests can go to, that of a fallback included.
    pub pools: Vec<Arc<str>>,
    /// Its mode, by the name that configurations have for it.
    pub mode: &'static str,
    /// Its targets with their weights, where they have some.
    pub targets: Vec<(TargetName, Option<u32>)>,
    /// Where its requests go when no target can serve.
    pub fallback: Option<TargetName>,
}

impl RouteName {
    fn of(route: &Route) -> Self {
        let mode = &route.plan.mode;
        let targets = (0..).map(TargetIndex).zip(route.targets.all());
        Self {
            index: route.index,
            model: Arc::clone(&route.plan.model),
            pools: route.pools().into_iter().map(|pool| Arc::clone(pool.name())).collect(),
            mode: mode.as_str(),
            targets: targets.map(|(index, target)| (target.name(), mode.weight(index))).collect(),
            fallback: route.fallback.as_ref().and_then(|targets| Some(targets.only_target()?.name())),
        }
    }
}

/// Models that the engines told of, and which replicas serve them.
#[derive(Debug, Default)]
struct Learned {
    ids: HashMap<Arc<str>, ModelId>,
    by_replica: HashMap<ReplicaId, Models>,
}

/// What a replica says it serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Models {
    /// These.
    Named(Vec<Arc<str>>),
    /// It has no list of models: whatever it is asked for.
    Any,
}

/// Name of the route to replicas that have no list of models, and the id that only those serve.
const ANY: (&str, ModelId) = ("*", ModelId(u32::MAX));

impl Gateway {
    /// Binds the listener and starts the data-plane threads and the control thread. Returns when connections are
    /// accepted.
    ///
    /// # Errors
    /// The listener's address cannot be bound, or a thread cannot be started.
    pub fn start(plan: Plan, sink: Arc<dyn UsageSink>, decisions: Arc<dyn Decisions>) -> io::Result<Running> {
        let learning = matches!(plan.routes, RoutesPlan::AskEngines(_));
        let serves = if learning { Serves::Only(Vec::new()) } else { Serves::All };
        let wake = Arc::new(WakeEpoch::default());
        let pool = |(p, seed)| Pool::new(p, &serves, seed, Arc::clone(&wake));
        let pools: Vec<_> = plan.pools.iter().zip(1..).map(pool).collect();
        let routes = match &plan.routes {
            RoutesPlan::AskEngines(_) => Vec::new(),
            RoutesPlan::Fixed(routes) => routes
                .iter()
                .zip(0..)
                .filter_map(|(r, i)| Route::new(r.clone(), &pools, None, RouteIndex(i)))
                .collect(),
        };
        let keys = Keys::new(&plan.keys);
        let totals = match &plan.routes {
            RoutesPlan::AskEngines(route) => std::slice::from_ref(&**route),
            RoutesPlan::Fixed(routes) => routes,
        };
        let longest_total = totals.iter().map(|r| r.timeouts.total).max().unwrap_or(Duration::MAX);
        server::start(Self {
            plan,
            pools,
            routes: ArcSwap::from_pointee(Routes::new(routes, None)),
            sink,
            decisions,
            keys,
            responses: Responses::default(),
            counters: Counters::default(),
            longest_total,
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            wake,
            learned: Mutex::default(),
        })
    }

    /// The pools, in the order of the plan.
    #[must_use]
    pub fn pools(&self) -> &[Arc<Pool>] {
        &self.pools
    }

    /// The keys of the configuration, in its order; none where the gateway is open.
    #[must_use]
    pub fn keys(&self) -> &[Arc<Key>] {
        self.keys.all()
    }

    /// Public model names now routed, sorted: configured, or learned from the engines.
    #[must_use]
    pub fn models(&self) -> Vec<Arc<str>> {
        self.routes.load().models().to_vec()
    }

    /// Every route now, sorted by public model name.
    #[must_use]
    pub fn routes(&self) -> Vec<RouteName> {
        self.routes.load().each().map(|route| RouteName::of(route)).collect()
    }

    /// Some pool has a replica that can take a request, some model is routed, and no shutdown was asked for. One
    /// dead pool must not take the models of the others out of service.
    #[must_use]
    pub fn ready(&self) -> bool {
        let serves = |pool: &Arc<Pool>| {
            pool.snapshot().replicas.iter().any(|r| matches!(r.health, Health::Live | Health::Probing))
        };
        !self.is_draining() && !self.routes.load().is_empty() && self.pools.iter().any(serves)
    }

    /// Numbers of the data plane, now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let read = |n: &AtomicU64| n.load(Ordering::Relaxed);
        Gauges {
            open_connections: read(&self.counters.open_connections),
            open_requests: read(&self.counters.open_requests),
            accepted_total: read(&self.counters.accepted),
            refused_heads_total: read(&self.counters.refused_heads),
        }
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// What still runs is told, and ends.
    pub(crate) fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.raise();
    }

    pub(crate) fn begin_drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.wake.raise();
    }

    /// Takes note of what a replica says it serves. Only where the configuration names no routes.
    pub(crate) fn learn_models(&self, pool: &Arc<Pool>, replica: ReplicaId, models: Models) {
        let RoutesPlan::AskEngines(template) = &self.plan.routes else { return };
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.by_replica.get(&replica) == Some(&models) {
            return;
        }
        let url = pool.replica(replica).map(|r| r.url.text.clone()).unwrap_or_default();
        let serves = match &models {
            Models::Any => {
                tracing::info!(replica = %url, "replica has no list of models: it is sent every name");
                Serves::All
            }
            Models::Named(names) => {
                tracing::info!(replica = %url, models = %names.join(", "), "replica serves");
                Serves::Only(names.iter().map(|name| learned.id(name)).collect())
            }
        };
        learned.by_replica.insert(replica, models);
        pool.with_core(Control::IfEffects, |core, _| core.set_serves(replica, serves));
        self.routes.store(Arc::new(learned.routes(&self.routes.load(), template, pool)));
    }

    /// A replica is gone, and with it what it served alone.
    pub(crate) fn unlearn_models(&self, pool: &Arc<Pool>, replica: ReplicaId) {
        let RoutesPlan::AskEngines(template) = &self.plan.routes else { return };
        let mut learned = self.learned.lock().unwrap_or_else(PoisonError::into_inner);
        if learned.by_replica.remove(&replica).is_some() {
            self.routes.store(Arc::new(learned.routes(&self.routes.load(), template, pool)));
        }
    }
}

impl Learned {
    fn id(&mut self, name: &Arc<str>) -> ModelId {
        let next = ModelId(u32::try_from(self.ids.len()).unwrap_or(u32::MAX - 1));
        *self.ids.entry(name.clone()).or_insert(next)
    }

    /// A route a name. One that stays keeps what it has learned and its retry budget.
    fn routes(&self, old: &Routes, template: &RoutePlan, pool: &Arc<Pool>) -> Routes {
        let pools = std::slice::from_ref(pool);
        let made = |name: &str, id| {
            let plan = RoutePlan { model: name.into(), ..template.clone() };
            Route::new(plan, pools, Some(id), RouteIndex(id.0))
        };
        let known = |models: &Models| match models {
            Models::Named(names) => names.clone(),
            Models::Any => Vec::new(),
        };
        let mut names: Vec<_> = self.by_replica.values().flat_map(known).collect();
        names.sort();
        names.dedup();
        let routes = names.iter().filter_map(|name| {
            let id = *self.ids.get(name)?;
            let kept = old.get(name).filter(|r| r.model == Some(id)).cloned();
            kept.or_else(|| made(name, id))
        });
        let any = self.by_replica.values().any(|m| *m == Models::Any);
        let any = any.then(|| old.any().cloned().or_else(|| made(ANY.0, ANY.1))).flatten();
        Routes::new(routes.collect(), any)
    }
}

impl std::fmt::Debug for Gateway {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gateway").field("plan", &self.plan).finish_non_exhaustive()
    }
}
