//! Which route a recorded request would have gone to.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use anyhow::ensure;
use serde::Serialize;
use sluicegate_proxy::Plan;
use sluicegate_proxy::plan::{AllowedRoutes, KeyPlan, KeysPlan, RoutePlan, RoutesPlan};

use super::super::trace::Recorded;
use crate::usage_sums::{plain, with_commas};

/// Names of each kind that are told apart; further ones are counted under [`OTHERS`].
const MOST_NAMES: usize = 1000;
const OTHERS: &str = "(others)";
/// Names of each kind that people are told.
const SHOWN_NAMES: usize = 5;

/// Requests that are not played, by what the configuration does not have.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Unplayed {
    /// Models that no route has.
    models: BTreeMap<String, usize>,
    /// Keys that it does not know.
    keys: BTreeMap<String, usize>,
    /// Keys that may not use the route, as `KEY: ROUTE`.
    not_allowed: BTreeMap<String, usize>,
}

impl Unplayed {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        [&self.models, &self.keys, &self.not_allowed].into_iter().flat_map(BTreeMap::values).sum()
    }
}

fn note(names: &mut BTreeMap<String, usize>, name: &str) {
    let known = names.len() < MOST_NAMES || names.contains_key(name);
    *names.entry(if known { name } else { OTHERS }.to_owned()).or_default() += 1;
}

impl fmt::Display for Unplayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [
            ("models that no route has", &self.models),
            ("keys that it does not know", &self.keys),
            ("keys that may not use the route", &self.not_allowed),
        ];
        let mut before = "";
        for (what, names) in kinds.into_iter().filter(|(_, names)| !names.is_empty()) {
            let mut most: Vec<(&String, &usize)> = names.iter().collect();
            most.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
            write!(f, "{before}{what}: ")?;
            for (place, (name, count)) in most.iter().take(SHOWN_NAMES).enumerate() {
                let comma = if place > 0 { ", " } else { "" };
                write!(f, "{comma}{} ({})", plain(name), with_commas(**count as u64))?;
            }
            if most.len() > SHOWN_NAMES {
                write!(f, " and {} more", with_commas((most.len() - SHOWN_NAMES) as u64))?;
            }
            before = "; ";
        }
        Ok(())
    }
}

/// A request's way into the gateway.
pub(super) struct Served {
    /// Its route, by its place.
    pub(super) route: u32,
    /// The class of its key.
    pub(super) priority: i32,
}

/// The routes by the names that select them, and the keys.
pub(super) struct Lookup<'p> {
    /// With their public names.
    routes: Vec<(Arc<str>, &'p RoutePlan)>,
    by_name: HashMap<Arc<str>, u32>,
    /// Every other name is a route of its own, made from this.
    template: Option<&'p RoutePlan>,
    /// `None`: nobody needs a key.
    keys: Option<HashMap<&'p str, &'p KeyPlan>>,
    /// What requests without a name are for.
    unnamed: Option<Arc<str>>,
}

impl<'p> Lookup<'p> {
    /// `model`: what requests are for whose record names no model; without it, the only route's.
    pub(super) fn new(plan: &'p Plan, model: Option<&str>) -> Self {
        let (fixed, template) = match &plan.routes {
            RoutesPlan::Fixed(routes) => (routes.as_slice(), None),
            RoutesPlan::AskEngines(template) => (&[][..], Some(&**template)),
        };
        let mut by_name = HashMap::new();
        for (route, index) in fixed.iter().zip(0..) {
            let names = route.aliases.iter().chain([&route.model]);
            by_name.extend(names.map(|name| (Arc::clone(name), index)));
        }
        let only = match (fixed, template) {
            ([only], _) => Some(Arc::clone(&only.model)),
            (_, Some(_)) => Some("(any)".into()),
            _ => None,
        };
        let keys = match &plan.keys {
            KeysPlan::Open => None,
            KeysPlan::Named(keys) => Some(keys.iter().map(|key| (&*key.name, key)).collect()),
        };
        let routes = fixed.iter().map(|route| (Arc::clone(&route.model), route)).collect();
        Self { routes, by_name, template, keys, unnamed: model.map(Arc::from).or(only) }
    }

    /// Each request has a name to go by.
    pub(super) fn check(&self, recorded: &[Recorded]) -> anyhow::Result<()> {
        let nameless = || recorded.iter().filter(|one| one.name().is_none()).count();
        ensure!(
            self.unnamed.is_some() || nameless() == 0,
            "{} of the {} requests name no model, and the file has several routes: say with --model NAME which \
             one they are for, one of {}",
            nameless(),
            recorded.len(),
            self.routes.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
        );
        Ok(())
    }

    /// Where the request goes, or a note in `unplayed` why it goes nowhere.
    pub(super) fn served(&mut self, recorded: &Recorded, unplayed: &mut Unplayed) -> Option<Served> {
        let name = recorded.name().or(self.unnamed.as_ref())?.clone();
        let key = match (&self.keys, &recorded.key) {
            (Some(keys), Some(key)) => {
                let known = keys.get(&**key).copied();
                if known.is_none() {
                    note(&mut unplayed.keys, key);
                }
                Some(known?)
            }
            // Nobody is asked for one, or it is not recorded whose it was.
            (None, _) | (_, None) => None,
        };
        let Some(route) = self.route(&name) else {
            note(&mut unplayed.models, &name);
            return None;
        };
        if let (Some(key), Some((public, _))) = (key, self.routes.get(route as usize))
            && !may_use(key, public)
        {
            note(&mut unplayed.not_allowed, &format!("{}: {public}", key.name));
            return None;
        }
        Some(Served { route, priority: key.map_or(0, |key| key.priority) })
    }

    fn route(&mut self, name: &Arc<str>) -> Option<u32> {
        if let Some(route) = self.by_name.get(name) {
            return Some(*route);
        }
        let index = u32::try_from(self.routes.len()).ok()?;
        self.routes.push((Arc::clone(name), self.template?));
        self.by_name.insert(Arc::clone(name), index);
        Some(index)
    }

    /// The routes with their public names, in their order.
    pub(super) fn into_routes(self) -> Vec<(Arc<str>, &'p RoutePlan)> {
        self.routes
    }
}

fn may_use(key: &KeyPlan, route: &Arc<str>) -> bool {
    match &key.routes {
        AllowedRoutes::All => true,
        AllowedRoutes::Only(routes) => routes.contains(route),
    }
}
