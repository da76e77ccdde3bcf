//! What was understood of a configuration, in words, for `sluicegate check`.

use std::fmt::Write as _;

use sluicegate_proxy::plan::{RoutePlan, RoutesPlan};

use super::Loaded;
use super::names::Name;
use super::raw::File;
use super::read::{Required, Value};

/// Keys that the summary shows in its own words.
const TOLD: [&str; 8] = [
    "gateway_id",
    "listen.address",
    "listen.threads",
    "admin.address",
    "admin.token",
    "usage.output",
    "replicas",
    "aliases",
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
    for pool in &plan.pools {
        let n = pool.replicas.len();
        let _ = writeln!(out, "pool     {}: {n} replica{}", pool.name, plural(n));
        for replica in &pool.replicas {
            let _ = writeln!(out, "           {}", replica.text);
        }
    }
    match &plan.routes {
        RoutesPlan::AskEngines(_) => {
            let _ = writeln!(out, "routes   every model that the replicas serve");
        }
        RoutesPlan::Fixed(routes) => routes.iter().for_each(|r| route(&mut out, r, loaded)),
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
    let pool = loaded.plan.pools.get(route.pool).map_or("", |pool| &*pool.name);
    let _ = write!(out, " -> pool {pool}");
    match &route.upstream_model {
        Some(name) => {
            let _ = writeln!(out, ", model {name}");
        }
        None => out.push('\n'),
    }
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
