//! Keys: names, hashes, the routes they may use and what they may use up.

use std::collections::HashMap;
use std::sync::Arc;

use sluicegate_core::{KeyLimits, Price};
use sluicegate_proxy::plan::{AllowedRoutes, KeyPlan, KeysPlan, PoolPlan, RoutePlan, RoutesPlan, Slots};

use crate::config::amounts::Count;
use crate::config::diagnostics::{Origin, Problems};
use crate::config::names::Name;
use crate::config::nearest::nearest;
use crate::config::raw::{File, Key, Route};
use crate::config::read::Set;

/// Stands for every route in the list of a key, and so names none.
pub(super) const EVERY: &str = "*";

/// Stands for requests without a known key in metrics and sums.
const NOBODY: &str = "-";

/// Who may use the gateway. A key without a readable name or hash has been told to `problems`.
pub(super) fn keys(file: &File, problems: &mut Problems<'_>) -> KeysPlan {
    let keys = &file.keys;
    if keys.given() && keys.sound && keys.value.is_empty() {
        problems
            .add(&keys.origin, "keys: the list is empty")
            .hint("leave it out and write open = true in [listen] if nobody needs a key");
    }
    if !keys.given() {
        return KeysPlan::Open;
    }
    distinct(&keys.value, problems);
    let names = ModelNames::of(file);
    KeysPlan::Named(keys.value.iter().filter_map(|key| plan(&key.value, &names, problems)).collect())
}

/// Warns of keys whose settings have no effect with these pools and routes, which are in order.
pub(super) fn warn(
    file: &File,
    plans: &[KeyPlan],
    (pools, routes): (&[PoolPlan], &RoutesPlan),
    problems: &Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let queues = pools.iter().any(|pool| pool.slots != Slots::Unknown);
    for (key, plan) in file.keys.value.iter().zip(plans) {
        let key = &key.value;
        let mut warn = |at: &Origin, what: &str| {
            let what = format!("key \"{}\": {what}", plan.name);
            warnings.push(problems.line(at, &what));
        };
        if matches!(&plan.routes, AllowedRoutes::Only(routes) if routes.is_empty()) {
            warn(&key.routes.origin, "the list of routes is empty, so it may use none");
        }
        if key.priority.value != 0 && !queues {
            warn(&key.priority.origin, "priority does nothing, no pool has slots and so nobody waits");
        }
        if !may_cost(&plan.routes, routes) {
            for budget in [&key.cost_per_day, &key.cost_per_month] {
                if budget.value.is_some() {
                    warn(&budget.origin, "this is never used up, none of its routes has a price");
                }
            }
        }
        let tokens = [&key.tokens_per_minute, &key.tokens_per_day, &key.tokens_per_month];
        let amount = |set: &Set<Option<Count>>| set.value.map(|count| count.0);
        for (i, shorter) in tokens.iter().enumerate() {
            let longer = tokens[i + 1..].iter().filter_map(|set| amount(set)).min();
            if amount(shorter).is_some_and(|amount| longer.is_some_and(|longer| amount > longer)) {
                warn(&shorter.origin, "this is above the limit of a longer time");
            }
        }
        let costs = [&key.cost_per_day, &key.cost_per_month].map(|set| set.value.map(|budget| budget.0));
        if let [Some(day), Some(month)] = costs
            && day > month
        {
            warn(&key.cost_per_day.origin, "this is above the limit of a longer time");
        }
    }
}

/// Whether a request of one of these routes can cost anything.
fn may_cost(allowed: &AllowedRoutes, routes: &RoutesPlan) -> bool {
    let priced = |route: &RoutePlan| route.price != Price::default();
    match (routes, allowed) {
        (RoutesPlan::AskEngines(template), _) => priced(template),
        (RoutesPlan::Fixed(routes), AllowedRoutes::All) => routes.iter().any(priced),
        (RoutesPlan::Fixed(routes), AllowedRoutes::Only(names)) => {
            routes.iter().any(|route| names.contains(&route.model) && priced(route))
        }
    }
}

fn distinct(keys: &[Set<Key>], problems: &mut Problems<'_>) {
    let mut names: HashMap<&str, &Origin> = HashMap::new();
    let mut hashes: HashMap<[u8; 32], &Origin> = HashMap::new();
    for key in keys {
        let (name, hash) = (&key.value.name, &key.value.hash);
        if let Some(text) = name.value.0.as_ref().map(|name| &*name.0) {
            if text == NOBODY {
                let what = format!("name: \"{text}\" stands for requests without a key");
                problems.add(&name.origin, what).hint("in metrics and sums; take another name");
            }
            if let Some(first) = names.get(text) {
                let what = format!("a second key named \"{text}\"");
                let added = problems.conflict(&name.origin, what, first, "the first");
                added.hint("give each key a name of its own");
            }
            names.entry(text).or_insert(&name.origin);
        }
        if let Some(digest) = hash.value.0.as_ref().map(|hash| hash.0) {
            if let Some(first) = hashes.get(&digest) {
                problems
                    .conflict(&hash.origin, "two entries for the same key", first, "the first")
                    .hint("`sluicegate key new` makes a further key");
            }
            hashes.entry(digest).or_insert(&hash.origin);
        }
    }
}

/// The names that a key's routes can have.
enum ModelNames<'f> {
    /// Every model name and alias, with the model name it stands for.
    Known(Vec<(&'f str, &'f Arc<str>)>),
    /// The engines tell at run time, or a route could not be read.
    Open,
}

impl<'f> ModelNames<'f> {
    fn of(file: &'f File) -> Self {
        let routes = &file.routes;
        let readable = |route: &Set<Route>| route.value.model.value.0.is_some() && route.value.aliases.sound;
        if routes.value.is_empty() || !routes.sound || !routes.value.iter().all(readable) {
            return Self::Open;
        }
        let mut names = Vec::new();
        for route in &routes.value {
            let Some(model) = &route.value.model.value.0 else { continue };
            names.push((&*model.0, &model.0));
            names.extend(route.value.aliases.value.iter().map(|alias| (&*alias.value.0, &model.0)));
        }
        Self::Known(names)
    }

    /// The model name of the route that `asked` names.
    fn resolve(&self, asked: &Set<Name>, problems: &mut Problems<'_>) -> Option<Arc<str>> {
        let Self::Known(names) = self else { return Some(asked.value.0.clone()) };
        let name = &*asked.value.0;
        if let Some((_, model)) = names.iter().find(|(known, _)| *known == name) {
            return Some(Arc::clone(model));
        }
        let quoted: Vec<String> = names.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let hint = match nearest(name, names.iter().map(|(name, _)| *name)) {
            Some(meant) => format!("did you mean \"{meant}\"?"),
            None => format!("routes of this file: {}; or \"*\" for every one", quoted.join(", ")),
        };
        problems.add(&asked.origin, format!("routes: there is no route \"{name}\"")).hint(hint);
        None
    }
}

fn plan(key: &Key, names: &ModelNames<'_>, problems: &mut Problems<'_>) -> Option<KeyPlan> {
    let routes = allowed(key, names, problems);
    Some(KeyPlan {
        name: key.name.value.0.as_ref()?.0.clone(),
        hash: *key.hash.value.0.as_ref()?,
        project: key.project.value.as_ref().map(|project| project.0.clone()),
        routes,
        priority: key.priority.value,
        limits: limits(key),
    })
}

fn allowed(key: &Key, names: &ModelNames<'_>, problems: &mut Problems<'_>) -> AllowedRoutes {
    let routes = &key.routes.value;
    match routes.iter().find(|route| &*route.value.0 == EVERY) {
        Some(every) => {
            if let Some(other) = routes.iter().find(|route| &*route.value.0 != EVERY) {
                let what = format!("routes: both every route and \"{}\"", other.value.0);
                problems
                    .conflict(&other.origin, what, &every.origin, "every route")
                    .hint("leave one of them out");
            }
            AllowedRoutes::All
        }
        None => {
            let mut only: Vec<Arc<str>> = Vec::new();
            for route in routes {
                if let Some(model) = names.resolve(route, problems).filter(|model| !only.contains(model)) {
                    only.push(model);
                }
            }
            AllowedRoutes::Only(only)
        }
    }
}

fn limits(key: &Key) -> KeyLimits {
    let count = |set: &Set<Option<Count>>| set.value.map(|count| count.0);
    KeyLimits {
        // More at the same time than 32 bits can say is the same as no limit.
        max_concurrent: count(&key.max_concurrent).and_then(|n| u32::try_from(n).ok()),
        requests_per_minute: count(&key.requests_per_minute),
        tokens_per_minute: count(&key.tokens_per_minute),
        tokens_per_day: count(&key.tokens_per_day),
        tokens_per_month: count(&key.tokens_per_month),
        cost_per_day: key.cost_per_day.value.map(|budget| budget.0),
        cost_per_month: key.cost_per_month.value.map(|budget| budget.0),
    }
}
