//! What a replay cannot know of a configuration, and what it takes for granted in its place.

use std::sync::Arc;

use sluicegate_core::KeyLimits;
use sluicegate_proxy::plan::{KeysPlan, RoutePlan, RoutesPlan, Slots};

use super::Profiled;
use crate::config::Loaded;

/// A sentence for each, by name.
pub(super) fn of(loaded: &Loaded, pools: &[Profiled], routes: &[(Arc<str>, &RoutePlan)]) -> Vec<String> {
    let mut all = Vec::new();
    if matches!(loaded.plan.routes, RoutesPlan::AskEngines(_)) {
        all.push(
            "the file has no routes, and no engine is asked: each model of the log is taken to be served"
                .into(),
        );
    }
    for ((index, (pool, profile)), plan) in pools.iter().enumerate().zip(&loaded.plan.pools) {
        let name = &pool.name;
        if !pool.timed {
            all.push(format!(
                "pool {name} is a provider's API: nobody can say how long it takes. Each answer is taken to come \
                 at 50 tokens a second, and counts in no time and no hit rate; --profile {name}=... says otherwise"
            ));
        }
        if let Some(source) = loaded.discover.iter().find(|source| source.pool == index) {
            all.push(format!(
                "pool {name} learns replicas from {}: only the {} of the file are simulated",
                source.source.what(),
                pool.replicas.len()
            ));
        }
        if plan.slots == Slots::Ask {
            let slots = profile.max_num_seqs;
            all.push(format!(
                "pool {name}: slots = \"auto\" are taken to be {slots}, what profile {} runs at once",
                pool.profile
            ));
        }
    }
    for (name, route) in routes {
        if let Some(service) = route.decision.and_then(|own| loaded.decisions.get(own.service)) {
            all.push(format!(
                "route {name}: the decision service {} ({}) is not asked, its policy abstains",
                service.url.text, service.model
            ));
        }
    }
    all.extend(shared(loaded));
    all.extend(limited(&loaded.plan.keys));
    all
}

/// Replicas of several pools, which are one engine in truth.
fn shared(loaded: &Loaded) -> impl Iterator<Item = String> {
    let pools = &loaded.plan.pools;
    let earlier = |at: usize, url: &str| {
        let has =
            |pool: &&sluicegate_proxy::plan::PoolPlan| pool.replicas.iter().any(|own| *own.text == *url);
        pools.get(..at).unwrap_or_default().iter().find(has)
    };
    pools.iter().enumerate().flat_map(move |(at, pool)| {
        pool.replicas.iter().filter_map(move |replica| {
            let first = earlier(at, &replica.text)?;
            let url = &replica.text;
            Some(format!(
                "replica {url} of pools {} and {} is simulated as two engines",
                first.name, pool.name
            ))
        })
    })
}

fn limited(keys: &KeysPlan) -> Option<String> {
    let KeysPlan::Named(keys) = keys else { return None };
    let limited = keys.iter().filter(|key| key.limits != KeyLimits::default());
    let names: Vec<&str> = limited.map(|key| &*key.name).collect();
    (!names.is_empty()).then(|| format!("the limits of keys are not applied: {}", names.join(", ")))
}
