//! Configurations against recorded requests: pools, routes and fallbacks as `serve` would have them, in front of
//! simulated replicas.

mod assumed;
mod compared;
mod lookup;
mod page;
mod report;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use anyhow::ensure;
use sluicegate_core::RouteIndex;
use sluicegate_lab::fleet::{Choosing, Fallback, Gateway, Job, Limits, PoolPart, RoutePart, Settings};
use sluicegate_lab::replay::at_speed;
use sluicegate_proxy::plan::{PoolPlan, RouteMode, RoutePlan, Slots, StatusClass};

use super::profiles::{Profiles, provider};
use super::runs::Contestant;
use super::trace::Recorded;
use crate::config::Loaded;

pub(crate) use compared::table;
pub(crate) use lookup::Unplayed;
pub(crate) use page::html;
pub(crate) use report::{Report, json};

use lookup::{Lookup, Served};

/// How recorded requests are played.
pub(crate) struct Manner<'a> {
    /// What replicas can do.
    pub(crate) profiles: &'a Profiles,
    /// The model of requests whose record names none.
    pub(crate) model: Option<&'a str>,
    /// Times as fast as recorded.
    pub(crate) speed: f64,
    pub(crate) seed: u64,
}

/// A configuration that is ready to be played.
pub(crate) struct Configured {
    pub(crate) contestant: Contestant<'static>,
    pub(crate) shape: Shape,
}

/// What of a configuration and of the requests for it a report goes by.
pub(crate) struct Shape {
    /// The file, as it is called here.
    pub(super) name: String,
    pub(super) pools: Vec<PoolShape>,
    pub(super) routes: Vec<RouteShape>,
    /// The route of each request played, in their order.
    pub(super) route_of: Vec<u32>,
    /// Requests that are none of its.
    pub(super) unplayed: Unplayed,
    /// What is taken for granted because it cannot be simulated, by name.
    pub(super) assumed: Vec<String>,
}

/// One pool.
pub(super) struct PoolShape {
    pub(super) name: Arc<str>,
    pub(super) replicas: Range<usize>,
    /// What each can do, by name.
    pub(super) profile: String,
    /// How long its replicas take is known.
    pub(super) timed: bool,
}

/// One route.
pub(super) struct RouteShape {
    pub(super) name: Arc<str>,
    /// The pools of its targets.
    pub(super) pools: Vec<usize>,
}

/// Makes ready what `loaded`, called `name`, would have done with the requests. Their blocks are of the size that the
/// profiles have in common.
///
/// # Errors
/// No request can be played; a pool that is needed has no replica in the file; the trace names no models.
pub(crate) fn configured(
    name: &str,
    loaded: &Loaded,
    recorded: &[Recorded],
    manner: &Manner<'_>,
) -> anyhow::Result<Configured> {
    let mut lookup = Lookup::new(&loaded.plan, manner.model);
    lookup.check(recorded)?;
    let jobs: Vec<Job> = recorded.iter().map(|one| one.job.clone()).collect();
    let (mut unplayed, mut route_of) = (Unplayed::default(), Vec::new());
    let mut played = Vec::new();
    for (job, one) in at_speed(&jobs, manner.speed).into_iter().zip(recorded) {
        if let Some(Served { route, priority }) = lookup.served(one, &mut unplayed) {
            route_of.push(route);
            played.push(Job { route: RouteIndex(route), priority, ..job });
        }
    }
    let routes = lookup.into_routes();
    ensure!(
        !played.is_empty(),
        "none of the {} requests is for a route that it has: {unplayed}; its routes: {}",
        recorded.len(),
        routes.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
    );
    let pools = pools(&loaded.plan.pools, manner.profiles);
    check_replicas(loaded, &pools, &routes, &route_of)?;
    let shapes = |(name, route): &(Arc<str>, &RoutePlan)| RouteShape {
        name: Arc::clone(name),
        pools: route.targets.iter().map(|target| target.pool).collect(),
    };
    let contestant = contestant(name, &loaded.plan.pools, &pools, &routes, played, manner);
    let assumed = assumed::of(loaded, &pools, &routes);
    let shape = Shape {
        name: name.to_owned(),
        routes: routes.iter().map(shapes).collect(),
        pools: pools.into_iter().map(|(shape, _)| shape).collect(),
        route_of,
        unplayed,
        assumed,
    };
    Ok(Configured { contestant, shape })
}

type Profiled = (PoolShape, sluicegate_lab::engine::Profile);

fn pools(plans: &[PoolPlan], profiles: &Profiles) -> Vec<Profiled> {
    let mut next = 0;
    let shape = |plan: &PoolPlan| {
        let replicas = next..next + plan.replicas.len();
        next = replicas.end;
        let own = profiles.of_pool(&plan.name);
        let timed = own.is_some() || !plan.hosted;
        let named = own.unwrap_or(profiles.all());
        let (profile, known) = match timed {
            true => (named.name.clone(), named.profile.clone()),
            false => ("none".into(), provider(profiles.block_tokens())),
        };
        (PoolShape { name: Arc::clone(&plan.name), replicas, profile, timed }, known)
    };
    plans.iter().map(shape).collect()
}

/// Every pool that played requests are for has somebody to serve them.
fn check_replicas(
    loaded: &Loaded,
    pools: &[Profiled],
    routes: &[(Arc<str>, &RoutePlan)],
    route_of: &[u32],
) -> anyhow::Result<()> {
    for (index, (pool, _)) in pools.iter().enumerate().filter(|(_, (pool, _))| pool.replicas.is_empty()) {
        let leads = |(at, (_, route)): &(usize, &(Arc<str>, &RoutePlan))| {
            route.targets.iter().any(|target| target.pool == index)
                && route_of.iter().any(|route| *route as usize == *at)
        };
        let needed = routes.iter().enumerate().find(leads);
        let source = loaded.discover.iter().find(|source| source.pool == index);
        let source =
            source.map_or_else(String::new, |own| format!(", it learns them from {}", own.source.what()));
        ensure!(
            needed.is_none(),
            "pool {}: the file names no replica{source}; give the replay as many as there are: replicas = [\"http://...\", ...]",
            pool.name
        );
    }
    Ok(())
}

fn contestant(
    name: &str,
    plans: &[PoolPlan],
    pools: &[Profiled],
    routes: &[(Arc<str>, &RoutePlan)],
    jobs: Vec<Job>,
    manner: &Manner<'_>,
) -> Contestant<'static> {
    let profile_of_each =
        pools.iter().flat_map(|(shape, profile)| shape.replicas.clone().map(move |_| profile.clone()));
    let settings = Settings {
        replicas: pools.last().map_or(0, |(shape, _)| shape.replicas.end),
        profile: manner.profiles.all().profile.clone(),
        profiles: profile_of_each.collect(),
        routes: routes.iter().map(|(_, route)| limits(route)).collect(),
        ..Settings::default()
    };
    let (own, read) = (settings.block_tokens(), manner.profiles.block_tokens());
    let thinned = |job: Job| Job { blocks: thinned(&job.blocks, own / read.max(1)), ..job };
    let part = |(plan, (shape, profile)): (&PoolPlan, &Profiled)| PoolPart {
        settings: plan.settings.clone(),
        replicas: shape.replicas.len(),
        slots: match plan.slots {
            Slots::Unknown => None,
            Slots::Fixed(slots) => Some(slots),
            // As the engines would say.
            Slots::Ask => Some(profile.max_num_seqs),
        },
        scraped: !plan.hosted,
    };
    let parts = plans.iter().zip(pools).map(part).collect();
    let gateway = Gateway::of(
        parts,
        routes.iter().map(|(_, route)| route_part(route)).collect(),
        &settings,
        manner.seed,
    );
    Contestant {
        name: name.to_owned(),
        settings,
        decider: Box::new(gateway),
        jobs: Cow::Owned(jobs.into_iter().map(thinned).collect()),
        pools: pools.iter().map(|(shape, _)| shape.replicas.clone()).collect(),
    }
}

/// Blocks that are so many times as large: a hash stands for everything before it, too.
fn thinned(blocks: &Arc<[u64]>, step: u32) -> Arc<[u64]> {
    let step = step.max(1) as usize;
    if step == 1 { Arc::clone(blocks) } else { blocks.iter().copied().skip(step - 1).step_by(step).collect() }
}

fn limits(route: &RoutePlan) -> Limits {
    let on = |class| route.fallback.as_ref().is_some_and(|fallback| fallback.on.contains(&class));
    Limits {
        connect_timeout: route.timeouts.connect,
        silence: route.timeouts.stream_silence,
        total: route.timeouts.total,
        retry: route.retry.clone(),
        poison_ttl: route.poison_ttl,
        fallback: route
            .fallback
            .as_ref()
            .map(|_| Fallback { on_4xx: on(StatusClass::Client), on_5xx: on(StatusClass::Server) }),
    }
}

fn route_part(route: &RoutePlan) -> RoutePart {
    RoutePart {
        choosing: match &route.mode {
            RouteMode::Adaptive => Choosing::Adaptive,
            RouteMode::Weighted(shares) => Choosing::Weighted(shares.clone()),
            RouteMode::Policy(policies) => Choosing::Policy(policies.clone()),
            RouteMode::Predictive { hold } => Choosing::Predictive { hold: *hold },
            RouteMode::RoundRobin => Choosing::RoundRobin,
        },
        targets: route.targets.iter().map(|target| target.pool).collect(),
        fallback: route.fallback.as_ref().map(|fallback| fallback.target.pool),
        queue: route.queue,
    }
}
