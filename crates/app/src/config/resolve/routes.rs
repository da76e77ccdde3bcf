//! Routes: public names, time limits, retries, queues and prices.

use std::collections::HashMap;

use sluicegate_core::{Micros, Price, QueueLimits, RetrySettings};
use sluicegate_proxy::plan::{DecisionPlan, RouteMode, RoutePlan, RoutesPlan, Slots, TargetPlan, Timeouts};

use super::keys::EVERY;
use super::pools::is_hosted;
use super::targets::{self, Chosen};
use super::{affinity, bytes, decision};
use crate::config::DecisionServicePlan;
use crate::config::diagnostics::{Origin, Problems};
use crate::config::names::Name;
use crate::config::nearest::nearest;
use crate::config::raw::{self, File, Pool, Retry, Route};
use crate::config::read::{Required, Set};
use crate::config::session_keys;

/// The routes of the file, or the template of those that the engines name.
pub(super) fn routes(
    file: &File,
    decisions: &mut Vec<DecisionServicePlan>,
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) -> Option<RoutesPlan> {
    if file.routes.value.is_empty() {
        return ask_engines(file, problems);
    }
    let pools = Pools { all: &file.pools.value, known: file.pools.sound };
    if pools.all.is_empty() && pools.known {
        no_pool(problems);
        return None;
    }
    distinct_names(&file.routes.value, problems);
    let plans: Vec<Option<RoutePlan>> = file
        .routes
        .value
        .iter()
        .map(|route| {
            let asks = decision::service(route, problems, warnings);
            let plan = plan(route, &pools, problems, warnings)?;
            let decision = asks.map(|(service, max_state_bytes)| {
                decisions.push(service);
                DecisionPlan { service: decisions.len() - 1, max_state_bytes }
            });
            Some(RoutePlan { decision, ..plan })
        })
        .collect();
    let used: Vec<&str> = file.routes.value.iter().flat_map(|route| pools_of(&route.value)).collect();
    for pool in pools.all {
        if let Some(name) = pool.value.name.value.0.as_ref().filter(|name| !used.contains(&&*name.0)) {
            let what = format!("pool \"{}\" is used by no route", name.0);
            warnings.push(problems.line(&pool.value.name.origin, &what));
        }
    }
    Some(RoutesPlan::Fixed(plans.into_iter().flatten().collect()))
}

/// Every route of the plan; those that the engines name are alike.
pub(super) fn each(routes: &RoutesPlan) -> &[RoutePlan] {
    match routes {
        RoutesPlan::Fixed(routes) => routes,
        RoutesPlan::AskEngines(template) => std::slice::from_ref(&**template),
    }
}

/// The pools of the file, by name.
pub(super) struct Pools<'f> {
    pub(super) all: &'f [Set<Pool>],
    /// Every pool's name could be read.
    known: bool,
}

impl<'f> Pools<'f> {
    fn names(&self) -> impl Iterator<Item = &'f str> {
        self.all.iter().filter_map(|p| p.value.name.value.0.as_ref().map(|name| &*name.0))
    }

    /// The pool that `wanted` names. None where there is none, or the name could not be read.
    pub(super) fn index(&self, wanted: &Set<Required<Name>>, problems: &mut Problems<'_>) -> Option<usize> {
        let name = &*wanted.value.0.as_ref()?.0;
        let named = |p: &Set<Pool>| p.value.name.value.0.as_ref().is_some_and(|n| &*n.0 == name);
        let index = self.all.iter().position(named);
        let all_named = self.known && self.all.iter().all(|p| p.value.name.value.0.is_some());
        if index.is_none() && all_named {
            let names: Vec<String> = self.names().map(|name| format!("\"{name}\"")).collect();
            let hint = match nearest(name, self.names()) {
                Some(meant) => format!("did you mean \"{meant}\"?"),
                None => format!("pools of this file: {}", names.join(", ")),
            };
            problems.add(&wanted.origin, format!("there is no pool \"{name}\"")).hint(hint);
        }
        index
    }
}

/// Names of the pools that a route leads to.
fn pools_of(route: &Route) -> impl Iterator<Item = &str> {
    let targets = route.targets.value.iter().map(|target| &target.value.pool);
    let fallback = route.fallback.value.as_ref().map(|fallback| &fallback.pool);
    targets.chain(fallback).filter_map(|pool| pool.value.0.as_ref().map(|name| &*name.0))
}

fn ask_engines(file: &File, problems: &mut Problems<'_>) -> Option<RoutesPlan> {
    match file.pools.value.as_slice() {
        [] if file.pools.sound => no_pool(problems),
        [first, second, ..] if file.routes.sound => {
            problems
                .conflict(
                    &second.origin,
                    "with several pools, each model needs a route",
                    &first.origin,
                    "the first pool",
                )
                .hint(
                    "add [[routes]] with model = ... and [[routes.targets]] with pool = ... for each model",
                );
        }
        _ => {}
    }
    let pool = file.pools.value.first()?;
    if is_hosted(&pool.value) && file.routes.sound {
        problems
            .add(
                &pool.value.engine.origin,
                "a provider's API is not asked for its models, and there is no route",
            )
            .hint("add [[routes]] with model = ... and [[routes.targets]] with pool = ... for each model");
    }
    let target = TargetPlan { pool: 0, upstream_model: None, description: None };
    let chosen = Chosen { mode: affinity::mode_by_itself(Some(pool)), targets: vec![target], fallback: None };
    let template = from(&Route::default(), "".into(), chosen, pool, problems);
    Some(RoutesPlan::AskEngines(Box::new(template)))
}

fn no_pool(problems: &mut Problems<'_>) {
    problems
        .add(&Origin::Default, "there is no pool, so there is nowhere to send requests to")
        .hint("add [[pools]] with name = ... and replicas = [...], or start with --replica URL");
}

fn distinct_names(routes: &[Set<Route>], problems: &mut Problems<'_>) {
    let mut names: HashMap<&str, &Origin> = HashMap::new();
    for route in routes {
        let model = route.value.model.value.0.iter().map(|name| (name, &route.value.model.origin));
        for (name, at) in
            model.chain(route.value.aliases.value.iter().map(|alias| (&alias.value, &alias.origin)))
        {
            if &*name.0 == EVERY {
                problems
                    .add(at, "\"*\" stands for every route where a key lists its routes")
                    .hint("write the name that clients ask for");
            }
            if let Some(first) = names.get(&*name.0) {
                let what = format!("\"{}\" names two routes or the same one twice", name.0);
                problems
                    .conflict(at, what, first, "the first time")
                    .hint("each model name and alias stands once");
            }
            names.entry(&name.0).or_insert(at);
        }
    }
}

fn plan(
    route: &Set<Route>,
    pools: &Pools<'_>,
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) -> Option<RoutePlan> {
    let chosen = targets::chosen(route, pools, problems, warnings);
    times_that_never_end(&route.value, problems, warnings);
    odd_price(&route.value.price.value, problems, warnings);
    if let Some(chosen) = &chosen {
        queue_that_nobody_is_in(&route.value, chosen, pools, problems, warnings);
    }
    let known = chosen.is_some();
    let chosen = chosen.unwrap_or(Chosen {
        mode: affinity::mode_by_itself(None),
        targets: Vec::new(),
        fallback: None,
    });
    // A stand-in keeps the rest of a route under judgement when its pool is unknown.
    let stand_in = Set::unset(Pool::default());
    let settings = chosen.targets.first().and_then(|target| pools.all.get(target.pool)).unwrap_or(&stand_in);
    let model = route.value.model.value.0.as_ref().map(|name| name.0.clone());
    let plan = from(&route.value, model.clone().unwrap_or_else(|| "".into()), chosen, settings, problems);
    (known && model.is_some()).then_some(plan)
}

fn queue_that_nobody_is_in(
    route: &Route,
    chosen: &Chosen,
    pools: &Pools<'_>,
    problems: &Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let mut used = chosen.targets.iter().filter_map(|target| pools.all.get(target.pool));
    let queues = |pool: &Set<Pool>| !pool.value.slots.sound || pool.value.slots.value != Slots::Unknown;
    if chosen.mode.hold().is_some() || used.any(queues) {
        return;
    }
    let queue = &route.queue.value;
    for (name, at) in [("max_length", &queue.max_length.origin), ("max_wait", &queue.max_wait.origin)] {
        if *at != Origin::Default {
            let what = format!("{name} does nothing, the route's pool has no slots and so nobody waits");
            warnings.push(problems.line(at, &what));
        }
    }
}

fn from(
    route: &Route,
    model: std::sync::Arc<str>,
    chosen: Chosen,
    settings: &Set<Pool>,
    problems: &mut Problems<'_>,
) -> RoutePlan {
    let timeouts = &route.timeouts.value;
    let by_scores = matches!(chosen.mode, RouteMode::Policy(_)) && !route.session_keys.given();
    RoutePlan {
        model,
        aliases: route.aliases.value.iter().map(|alias| alias.value.0.clone()).collect(),
        mode: chosen.mode,
        targets: chosen.targets,
        fallback: chosen.fallback,
        decision: None,
        session_keys: match by_scores {
            true => session_keys::of_policy_mode(),
            false => route.session_keys.value.iter().map(|source| source.value.clone()).collect(),
        },
        prefix_chars: settings.value.affinity.value.prefix_chars.value.get() as usize,
        timeouts: Timeouts {
            connect: timeouts.connect.value.0,
            stream_silence: timeouts.stream_silence.value.0,
            total: timeouts.total.value.0,
        },
        retry: retry(&route.retry.value, problems),
        hold_limit: bytes(route.retry.value.hold_limit.value.0),
        queue: QueueLimits {
            max_length: route.queue.value.max_length.value as usize,
            max_wait: route.queue.value.max_wait.value.0,
        },
        price: price(&route.price.value),
        poison_ttl: route.retry.value.poison_ttl.value.0,
        poison_entries: route.retry.value.poison_entries.value as usize,
    }
}

fn price(price: &raw::Price) -> Price {
    Price { prompt: price.prompt.value.0, cached: price.cached.value.0, completion: price.completion.value.0 }
}

fn odd_price(price: &raw::Price, problems: &Problems<'_>, warnings: &mut Vec<String>) {
    let (prompt, cached) = (&price.prompt, &price.cached);
    if !prompt.sound || !cached.sound {
        return;
    }
    if !cached.given() && prompt.value.0 > Micros(0) {
        let what = "cached has no price, so prompt tokens from the cache cost nothing";
        warnings.push(problems.line(&prompt.origin, what));
    } else if cached.value.0 > prompt.value.0 {
        warnings.push(problems.line(&cached.origin, "cached prompt tokens cost more than others"));
    }
}

fn times_that_never_end(route: &Route, problems: &Problems<'_>, warnings: &mut Vec<String>) {
    let (silence, wait) = (&route.timeouts.value.stream_silence, &route.queue.value.max_wait);
    let total = route.timeouts.value.total.value.0;
    for (limit, what) in [
        (silence, "stream_silence is not shorter than total, so it never ends a stream"),
        (wait, "max_wait is not shorter than the route's total, so it never ends a wait"),
    ] {
        if limit.given() && limit.value.0 >= total {
            warnings.push(problems.line(&limit.origin, what));
        }
    }
}

fn retry(retry: &Retry, problems: &mut Problems<'_>) -> RetrySettings {
    if retry.budget.value > 1.0 {
        problems
            .add(
                &retry.budget.origin,
                format!("budget: {} is more than one retry per request", retry.budget.value),
            )
            .hint("a share from 0 to 1, such as 0.2");
    }
    RetrySettings {
        attempts: retry.attempts.value.get(),
        on_status: retry.on_status.value.iter().map(|status| status.value.0).collect(),
        budget: retry.budget.value,
        spill_429: retry.spill_429.value,
        budget_per_second: RetrySettings::default().budget_per_second,
    }
}
