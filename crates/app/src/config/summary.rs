//! What was understood of a configuration, in words, for `sluicegate check`.

use std::fmt::Write as _;

use sluicegate_core::{KeyLimits, Micros, Price, TargetIndex};
use sluicegate_proxy::plan::{
    AllowedRoutes, KeyPlan, KeysPlan, RouteMode, RoutePlan, RoutesPlan, Slots, TargetPlan,
};

use super::Loaded;
use super::names::Name;
use super::raw::File;
use super::read::{Required, Value};
use super::units::Span;
use super::values::Text;

/// Keys that the summary shows in its own words.
const TOLD: [&str; 14] = [
    "gateway_id",
    "listen.address",
    "listen.threads",
    "admin.address",
    "admin.token",
    "usage.output",
    "replicas",
    "aliases",
    "slots",
    "queue.max_length",
    "queue.max_wait",
    "price.prompt",
    "price.cached",
    "price.completion",
];

/// Every key that differs from its default, as `path = value`.
pub(super) fn changes(file: &File) -> Vec<String> {
    let mut out = changes_of(file, "");
    for pool in &file.pools.value {
        out.extend(changes_of(&pool.value, &owner("pool", &pool.value.name.value)));
    }
    for route in &file.routes.value {
        out.extend(changes_of(&route.value, &owner("route", &route.value.model.value)));
    }
    out
}

fn changes_of<T: Value + Default>(section: &T, owner: &str) -> Vec<String> {
    let mut own = Vec::new();
    section.changes(&T::default(), "", &mut own);
    let told = |change: &String| TOLD.iter().any(|key| change.split(" = ").next() == Some(key));
    own.iter().filter(|change| !told(change)).map(|change| format!("{owner}{change}")).collect()
}

fn owner(what: &str, name: &Required<Name>) -> String {
    format!("{what} {}: ", name.0.as_ref().map_or("", |name| &*name.0))
}

/// Lines that say what `loaded` does.
pub(super) fn summary(loaded: &Loaded) -> String {
    let plan = &loaded.plan;
    let mut out = String::new();
    let _ = writeln!(out, "gateway  {}", plan.gateway_id);
    let threads = plan.listen.threads;
    let _ = writeln!(out, "listen   {}, {threads} thread{}", plan.listen.address, plural(threads));
    let token = if loaded.admin.token.is_some() { "with a token" } else { "without a token" };
    let _ = writeln!(out, "admin    {}, {token}", loaded.admin.address);
    let _ = writeln!(out, "usage    {}", usage(loaded));
    for (index, pool) in plan.pools.iter().enumerate() {
        let n = pool.replicas.len();
        let hosted = if pool.hosted { ", a provider's API" } else { "" };
        let slots = match pool.slots {
            Slots::Unknown => String::new(),
            Slots::Fixed(n) => format!(", {n} slot{} each", plural(n as usize)),
            Slots::Ask => ", as many slots as the engines tell".into(),
        };
        let _ = writeln!(out, "pool     {}: {n} replica{}{hosted}{slots}", pool.name, plural(n));
        for replica in &pool.replicas {
            let _ = writeln!(out, "           {}", replica.text);
        }
        for discover in loaded.discover.iter().filter(|discover| discover.pool == index) {
            let _ = writeln!(out, "           and those of {}", discover.source.what());
        }
    }
    match &plan.routes {
        RoutesPlan::AskEngines(template) => {
            let _ =
                writeln!(out, "routes   every model that the replicas serve, {}", mode_words(&template.mode));
            queue_and_price(&mut out, template, loaded);
        }
        RoutesPlan::Fixed(routes) => routes.iter().for_each(|r| route(&mut out, r, loaded)),
    }
    match &plan.keys {
        KeysPlan::Open => out.push_str("keys     none, whoever reaches the listener is served\n"),
        KeysPlan::Named(keys) => keys.iter().for_each(|k| key(&mut out, k)),
    }
    if !loaded.changes.is_empty() {
        let _ = writeln!(out, "not the default:");
        loaded.changes.iter().for_each(|change| {
            let _ = writeln!(out, "  {change}");
        });
    }
    for warning in &loaded.warnings {
        let _ = writeln!(out, "warning: {warning}");
    }
    out
}

fn route(out: &mut String, route: &RoutePlan, loaded: &Loaded) {
    let _ = write!(out, "route    {}", route.model);
    if !route.aliases.is_empty() {
        let _ = write!(out, " (also {})", route.aliases.join(", "));
    }
    let _ = writeln!(out, ", {}", mode_words(&route.mode));
    for (index, own) in (0..).map(TargetIndex).zip(&route.targets) {
        let share = share(&route.mode, index);
        let _ = writeln!(out, "           {share}-> {}", target(own, loaded));
    }
    if let Some(service) = route.decision.and_then(|own| loaded.decisions.get(own.service)) {
        let (tokens, kept) = (service.tokens.len(), Span(service.cache_ttl).text());
        let _ = writeln!(
            out,
            "           asks {} ({}, {tokens} token{}) for the model, at most {}, answers kept for {kept}",
            service.url.text,
            service.model,
            plural(tokens),
            Span(service.timeout).text()
        );
    }
    if let Some(fallback) = &route.fallback {
        let on: Vec<String> = fallback.on.iter().map(Text::text).collect();
        let on = if on.is_empty() { String::new() } else { format!(", and instead of {}", on.join(" and ")) };
        let _ = writeln!(out, "           else -> {}{on}", target(&fallback.target, loaded));
    }
    queue_and_price(out, route, loaded);
}

fn target(target: &TargetPlan, loaded: &Loaded) -> String {
    let pool = loaded.plan.pools.get(target.pool).map_or("", |pool| &*pool.name);
    match &target.upstream_model {
        Some(model) => format!("pool {pool}, model {model}"),
        None => format!("pool {pool}"),
    }
}

/// The mode in force, which need not stand in the file, and what it goes by.
fn mode_words(mode: &RouteMode) -> String {
    let by = match mode {
        RouteMode::Adaptive => "by load and warm caches".into(),
        RouteMode::Weighted(_) => "by shares".into(),
        RouteMode::RoundRobin => "in turn".into(),
        RouteMode::Predictive { hold: None } => "by predicted cost".into(),
        RouteMode::Predictive { hold: Some(hold) } => {
            format!("by predicted cost, waiting while all have more than {} queued", Span(*hold).text())
        }
        RouteMode::Policy(policies) => {
            let all: Vec<String> =
                policies.each().map(|(policy, weight)| format!("{} {weight}", policy.as_str())).collect();
            format!("by scores: {}", all.join(", "))
        }
    };
    format!("mode {}, {by}", mode.as_str())
}

/// A target's share of the requests, in percent.
fn share(mode: &RouteMode, target: TargetIndex) -> String {
    match mode {
        RouteMode::Weighted(shares) => {
            format!("{:.3} % ", f64::from(shares.of(target)) / shares.sum() * 100.0).replace(".000", "")
        }
        RouteMode::Adaptive | RouteMode::Predictive { .. } | RouteMode::Policy(_) | RouteMode::RoundRobin => {
            String::new()
        }
    }
}

fn queue_and_price(out: &mut String, route: &RoutePlan, loaded: &Loaded) {
    let pools = route.targets.iter().filter_map(|target| loaded.plan.pools.get(target.pool));
    let queues = pools.into_iter().any(|pool| pool.slots != Slots::Unknown);
    if queues {
        let _ = match (route.queue.max_length, Span(route.queue.max_wait).text()) {
            (0, _) => writeln!(out, "           no queue"),
            (most, wait) => writeln!(out, "           queue: at most {most} wait, at most {wait}"),
        };
    }
    let price = &route.price;
    if *price != Price::default() {
        let [prompt, cached, completion] =
            [price.prompt, price.cached, price.completion].map(|amount| amount.to_string());
        let _ = writeln!(
            out,
            "           price of a million tokens: prompt {prompt}, cached {cached}, completion {completion}"
        );
    }
}

/// Name, routes and limits of a key, and never its hash.
fn key(out: &mut String, key: &KeyPlan) {
    let _ = write!(out, "key      {}", key.name);
    if let Some(project) = &key.project {
        let _ = write!(out, " (project {project})");
    }
    let _ = match &key.routes {
        AllowedRoutes::All => write!(out, ": every route"),
        AllowedRoutes::Only(routes) if routes.is_empty() => write!(out, ": no route"),
        AllowedRoutes::Only(routes) => write!(out, ": {}", routes.join(", ")),
    };
    if key.priority != 0 {
        let _ = write!(out, ", priority {}", key.priority);
    }
    let limits = limits(&key.limits);
    let _ = match limits.as_slice() {
        [] => writeln!(out, ", no limits"),
        limits => writeln!(out, "\n           at most {}", limits.join(", ")),
    };
}

fn limits(limits: &KeyLimits) -> Vec<String> {
    let count = |limit: Option<u64>, unit: &str| limit.map(|n| format!("{n} {unit}"));
    let cost = |limit: Option<Micros>, unit: &str| limit.map(|n| format!("{n} {unit}"));
    [
        count(limits.max_concurrent.map(u64::from), "at once"),
        count(limits.requests_per_minute, "requests a minute"),
        count(limits.tokens_per_minute, "tokens a minute"),
        count(limits.tokens_per_day, "tokens a day"),
        count(limits.tokens_per_month, "tokens a month"),
        cost(limits.cost_per_day, "of cost a day"),
        cost(limits.cost_per_month, "of cost a month"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn usage(loaded: &Loaded) -> String {
    let file = loaded.usage.file.as_ref().map(|path| path.display().to_string());
    match (loaded.usage.stdout, file) {
        (true, Some(path)) => format!("to stdout and {path}"),
        (true, None) => "to stdout".into(),
        (false, Some(path)) => format!("to {path}"),
        (false, None) => "off".into(),
    }
}

fn plural(n: usize) -> &'static str {
    if n == 1 { "" } else { "s" }
}
