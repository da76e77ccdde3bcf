//! Where a route's requests go: its targets, the mode that they and the policies add up to, its fallback.

use std::sync::Arc;

use sluicegate_core::{Policies, Policy, Shares};
use sluicegate_proxy::plan::{FallbackPlan, RouteMode, TargetPlan};

use super::affinity;
use super::hold;
use super::routes::Pools;
use crate::config::choices::Mode;
use crate::config::diagnostics::{Origin, Problems};
use crate::config::names::Name;
use crate::config::raw::{Fallback, Pool, Route, Target};
use crate::config::read::{Required, Set};
use crate::config::values::Text as _;

/// What was understood of a route's targets.
pub(super) struct Chosen {
    pub(super) mode: RouteMode,
    pub(super) targets: Vec<TargetPlan>,
    pub(super) fallback: Option<FallbackPlan>,
}

/// None where `problems` has been told why not.
pub(super) fn chosen(
    route: &Set<Route>,
    pools: &Pools<'_>,
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) -> Option<Chosen> {
    let targets = &route.value.targets;
    if targets.value.is_empty() && targets.sound {
        problems
            .add(if targets.given() { &targets.origin } else { &route.origin }, "the route has no target")
            .hint("add [[routes.targets]] with pool = ... below it");
    }
    let plans: Vec<Option<TargetPlan>> =
        targets.value.iter().map(|target| plan(&target.value, pools, problems)).collect();
    for (i, target) in targets.value.iter().enumerate() {
        if let Some(first) = targets.value[..i].iter().find(|other| same(&other.value, &target.value)) {
            problems
                .conflict(&target.origin, "the same target twice", &first.origin, "the first time")
                .hint("leave one of them out; one weight is a target's whole share");
        }
    }
    let first = plans.iter().flatten().next().and_then(|plan| pools.all.get(plan.pool));
    let mode = mode(route, &affinity::mode_by_itself(first), problems);
    let fallback = route.value.fallback.value.as_ref().map(|own| fallback(own, route, pools, problems));
    let plans: Option<Vec<TargetPlan>> = plans.into_iter().collect();
    let (targets, mode) = (plans.filter(|plans| !plans.is_empty())?, mode?);
    let fallback = match fallback {
        Some(fallback) => Some(fallback?),
        None => None,
    };
    let used: Vec<&Set<Pool>> = targets.iter().filter_map(|target| pools.all.get(target.pool)).collect();
    affinity::differ(route, &used, problems, warnings);
    if let RouteMode::Policy(policies) = &mode {
        sessions_that_never_move(route, policies, &used, problems, warnings);
    }
    Some(Chosen { mode, targets, fallback })
}

fn plan(target: &Target, pools: &Pools<'_>, problems: &mut Problems<'_>) -> Option<TargetPlan> {
    let pool = pools.index(&target.pool, problems)?;
    let description = target.description.value.as_ref().map(|words| words.0.clone());
    Some(TargetPlan { pool, upstream_model: model(&target.upstream_model), description })
}

fn model(name: &Set<Option<Name>>) -> Option<Arc<str>> {
    name.value.as_ref().map(|name| name.0.clone())
}

fn same(one: &Target, other: &Target) -> bool {
    leads_to(&one.pool, &one.upstream_model, other)
}

fn leads_to(pool: &Set<Required<Name>>, upstream: &Set<Option<Name>>, target: &Target) -> bool {
    let named = pool.value.0.is_some() && upstream.sound && target.upstream_model.sound;
    named && pool.value.0 == target.pool.value.0 && upstream.value == target.upstream_model.value
}

fn fallback(
    fallback: &Fallback,
    route: &Set<Route>,
    pools: &Pools<'_>,
    problems: &mut Problems<'_>,
) -> Option<FallbackPlan> {
    let also = |target: &&Set<Target>| leads_to(&fallback.pool, &fallback.upstream_model, &target.value);
    if let Some(target) = route.value.targets.value.iter().find(also) {
        let at = &fallback.pool.origin;
        problems
            .conflict(at, "the fallback is a target, too", &target.origin, "the target")
            .hint("a fallback is asked only when no target can serve: name another pool or model");
    }
    let pool = pools.index(&fallback.pool, problems)?;
    let target = TargetPlan { pool, upstream_model: model(&fallback.upstream_model), description: None };
    Some(FallbackPlan { target, on: fallback.on.value.iter().map(|class| class.value).collect() })
}

/// What the mode's name, the weights and the policies add up to, and `by_itself` where there is none of them.
fn mode(route: &Set<Route>, by_itself: &RouteMode, problems: &mut Problems<'_>) -> Option<RouteMode> {
    let before = problems.count();
    let Route { mode, targets, policies, .. } = &route.value;
    let weighted = targets.value.iter().find(|target| target.value.weight.given());
    let shape = Shape { route, weight: weighted.map(|target| &target.value.weight.origin) };
    if let (Some(weight), true) = (shape.weight, policies.given()) {
        let what = format!("{}: weights and policies together", shape.name());
        problems
            .conflict(&policies.origin, what, weight, "the first weight")
            .hint("shares are kept, or scores are: leave one of them out");
        return None;
    }
    let word = if mode.given() {
        mode.value
    } else if weighted.is_some() {
        Mode::Weighted
    } else if policies.given() {
        Mode::Policy
    } else if matches!(by_itself, RouteMode::Predictive { .. }) {
        Mode::Predictive
    } else {
        Mode::Adaptive
    };
    let hold = hold::hold(&route.value, word, problems);
    let made = match word {
        Mode::Weighted => shape.shares(problems).map(RouteMode::Weighted),
        Mode::Policy => shape.policies(problems).map(RouteMode::Policy),
        Mode::Adaptive => shape.neither(word, problems).then_some(RouteMode::Adaptive),
        Mode::RoundRobin => shape.neither(word, problems).then_some(RouteMode::RoundRobin),
        Mode::Predictive => shape.neither(word, problems).then_some(RouteMode::Predictive { hold }),
    };
    made.filter(|_| problems.count() == before)
}

/// A route's mode, weights and policies.
struct Shape<'r> {
    route: &'r Set<Route>,
    /// The first weight.
    weight: Option<&'r Origin>,
}

impl Shape<'_> {
    fn name(&self) -> String {
        let model = self.route.value.model.value.0.as_ref();
        model.map_or_else(|| "the route".into(), |name| format!("route \"{}\"", name.0))
    }

    fn shares(&self, problems: &mut Problems<'_>) -> Option<Shares> {
        let targets = &self.route.value.targets;
        let Some(first) = self.weight else {
            let mode = &self.route.value.mode.origin;
            problems
                .add(mode, format!("{}: mode \"weighted\", and no target has a weight", self.name()))
                .hint("add weight = ... to each target");
            return None;
        };
        let mut weights = Vec::new();
        for target in &targets.value {
            if !target.value.weight.given() {
                let what = format!("{}: a target without a weight beside ones that have it", self.name());
                problems
                    .conflict(&target.origin, what, first, "the first weight")
                    .hint("give each target a weight; 0 takes no new requests");
            }
            weights.push(target.value.weight.value.unwrap_or(0));
        }
        let readable = targets.value.iter().all(|target| target.value.weight.sound);
        let shares = Shares::new(weights);
        if shares.is_none() && readable {
            problems
                .add(first, format!("{}: every weight is 0, so nothing goes anywhere", self.name()))
                .hint("give at least one target a weight above 0");
        }
        shares
    }

    fn policies(&self, problems: &mut Problems<'_>) -> Option<Policies> {
        let policies = &self.route.value.policies;
        if let Some(weight) = self.weight {
            let what = format!("{}: mode \"policy\" knows no weights of targets", self.name());
            problems
                .conflict(weight, what, &self.route.value.mode.origin, "the mode")
                .hint("leave them out, or write mode = \"weighted\"");
            return None;
        }
        if policies.value.is_empty() && policies.sound {
            let at = if policies.given() { &policies.origin } else { &self.route.value.mode.origin };
            problems
                .add(at, format!("{}: mode \"policy\" needs at least one policy", self.name()))
                .hint("add [[routes.policies]] with kind = \"session_affinity\" or another below it");
            return None;
        }
        let kind = |i: usize| policies.value.get(i).and_then(|own| own.value.kind.value.0);
        for (i, own) in policies.value.iter().enumerate() {
            let first = (0..i).find(|earlier| kind(*earlier).is_some() && kind(*earlier) == kind(i));
            if let Some(first) = first.and_then(|first| policies.value.get(first)) {
                problems
                    .conflict(&own.origin, "the same policy twice", &first.origin, "the first time")
                    .hint("leave one of them out and add their weights up");
            }
        }
        let weight =
            |own: &Set<f64>, kind: Policy| if own.given() { own.value } else { kind.default_weight() };
        let all = policies.value.iter().map(|own| {
            let kind = own.value.kind.value.0?;
            Some((kind, weight(&own.value.weight, kind)))
        });
        let all: Vec<(Policy, f64)> = all.collect::<Option<_>>()?;
        let readable = policies.sound && policies.value.iter().all(|own| own.value.weight.sound);
        if readable && all.iter().all(|(_, weight)| *weight == 0.0) {
            problems
                .add(&policies.origin, format!("{}: every policy has the weight 0", self.name()))
                .hint("give at least one a weight above 0");
        }
        Policies::new(all)
    }

    /// True where there are neither weights nor policies.
    fn neither(&self, word: Mode, problems: &mut Problems<'_>) -> bool {
        let route = &self.route.value;
        let policies = route.policies.given().then_some(&route.policies.origin);
        for (what, at, mode) in [("weights", self.weight, "weighted"), ("policies", policies, "policy")] {
            if let Some(at) = at {
                let what = format!("{}: mode \"{}\" knows no {what}", self.name(), word.text());
                problems
                    .conflict(at, what, &route.mode.origin, "the mode")
                    .hint(format!("leave them out, or write mode = \"{mode}\""));
            }
        }
        self.weight.is_none() && policies.is_none()
    }
}

/// With a session's owner loaded and all others idle, the load's part of a total can grow by less than its weight, and
/// affinity's lead over the second in order is a fixed share of its own.
fn sessions_that_never_move(
    route: &Set<Route>,
    policies: &Policies,
    used: &[&Set<Pool>],
    problems: &Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let ruled = [Policy::SessionAffinity, Policy::LeastInflight, Policy::DecisionService];
    let other = policies.each().any(|(kind, weight)| weight > 0.0 && !ruled.contains(&kind));
    let affinity = policies.weight(Policy::SessionAffinity);
    let n = used.iter().map(|pool| pool.value.replicas.value.len()).sum::<usize>();
    if other || affinity == 0.0 || n < 2 {
        return;
    }
    let ratio = policies.weight(Policy::LeastInflight) / affinity;
    let least = (n as f64 - 1.0) * 0.25 / (1.0 - 0.5_f64.powf(n as f64));
    if ratio <= least {
        let what = format!(
            "a session never leaves its replica, however loaded that is: with {n} replicas least_inflight has to \
             weigh more than {least:.3} times session_affinity, and weighs {ratio:.3} times as much"
        );
        warnings.push(problems.line(&route.value.policies.origin, &what));
    }
}
