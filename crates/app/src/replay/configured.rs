//! What a configuration would have made of recorded requests: its pools, with their replicas, slots and settings.

use std::borrow::Cow;

use anyhow::{bail, ensure};
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fleet::{Choosing, Gateway, Job, Limits, Settings};
use sluicegate_lab::replay::at_speed;
use sluicegate_proxy::plan::{Plan, PoolPlan, RouteMode, RoutePlan, RoutesPlan, Slots};

use super::Contestant;
use super::trace::Recorded;

/// A contestant for each pool that the requests' routes lead to, and how many requests are left out: their route is not in
/// the configuration, or its targets are in several pools or in a hosted one. All keep their distances in time.
///
/// # Errors
/// The requests name no routes and the configuration has several; none leads to a pool.
pub(crate) fn contestants(
    plan: &Plan,
    profile: &Profile,
    recorded: &[Recorded],
    speed: f64,
    seed: u64,
) -> anyhow::Result<(Vec<Contestant<'static>>, usize)> {
    let jobs: Vec<Job> = recorded.iter().map(|one| one.job.clone()).collect();
    let mut by_pool: Vec<(Option<&RoutePlan>, Vec<Job>)> =
        plan.pools.iter().map(|_| (None, Vec::new())).collect();
    let mut lost = 0;
    for (job, one) in at_speed(&jobs, speed).into_iter().zip(recorded) {
        let route = route(&plan.routes, one.route.as_deref())?;
        let pool = route.and_then(|route| {
            let index =
                only_pool(route).filter(|index| plan.pools.get(*index).is_some_and(|pool| !pool.hosted));
            by_pool.get_mut(index?)
        });
        match pool {
            Some((first, jobs)) => {
                *first = first.or(route);
                jobs.push(job);
            }
            None => lost += 1,
        }
    }
    let pools = plan.pools.iter().zip(by_pool);
    let contestants: Vec<_> = pools
        .filter_map(|(pool, (route, jobs))| Some(contestant(pool, route?, profile, jobs, seed)))
        .collect();
    ensure!(
        !contestants.is_empty(),
        "no request's route leads to a pool of the configuration that can be simulated"
    );
    Ok((contestants, lost))
}

/// The route of that name. Requests without names are for the only route there is.
fn route<'p>(routes: &'p RoutesPlan, name: Option<&str>) -> anyhow::Result<Option<&'p RoutePlan>> {
    let routes = match routes {
        RoutesPlan::AskEngines(template) => return Ok(Some(template)),
        RoutesPlan::Fixed(routes) => routes,
    };
    let Some(name) = name else {
        let [only] = routes.as_slice() else {
            bail!("the trace names no routes and the configuration has {}: leave one", routes.len());
        };
        return Ok(Some(only));
    };
    let named =
        |route: &&RoutePlan| *route.model == *name || route.aliases.iter().any(|alias| **alias == *name);
    Ok(routes.iter().find(named))
}

/// The pool of all its targets. Its fallback is for what no replica of them can serve, which is not simulated.
fn only_pool(route: &RoutePlan) -> Option<usize> {
    let first = route.targets.first()?.pool;
    route.targets.iter().all(|target| target.pool == first).then_some(first)
}

fn choosing(mode: &RouteMode) -> Choosing {
    match mode {
        // Shares of targets that are all in one pool say only which model is asked for.
        RouteMode::Adaptive | RouteMode::Weighted(_) => Choosing::Adaptive,
        RouteMode::Policy(policies) => Choosing::Policy(policies.clone()),
        RouteMode::Predictive => Choosing::Predictive,
        RouteMode::RoundRobin => Choosing::RoundRobin,
    }
}

/// Mode, limits and retries are those of the first of its routes that a request is for.
fn contestant(
    pool: &PoolPlan,
    route: &RoutePlan,
    profile: &Profile,
    jobs: Vec<Job>,
    seed: u64,
) -> Contestant<'static> {
    let settings = Settings {
        replicas: pool.replicas.len(),
        profile: profile.clone(),
        scrape_timeout: pool.scrape_timeout,
        limits: Limits {
            connect_timeout: route.timeouts.connect,
            silence: route.timeouts.stream_silence,
            total: route.timeouts.total,
            retry: route.retry.clone(),
            poison_ttl: route.poison_ttl,
            fallback: None,
        },
        ..Settings::default()
    };
    let slots = match pool.slots {
        Slots::Unknown => None,
        Slots::Fixed(slots) => Some(slots),
        // As the engines would say.
        Slots::Ask => Some(profile.max_num_seqs),
    };
    let gateway = Gateway::new(pool.settings.clone(), &settings, slots, seed)
        .with_queue(route.queue)
        .with_mode(&choosing(&route.mode));
    let name = format!("pool {}", pool.name);
    Contestant { name, settings, decider: Box::new(gateway), jobs: Cow::Owned(jobs) }
}
