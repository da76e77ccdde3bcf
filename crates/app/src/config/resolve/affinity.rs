//! What the affinity of pools means to the routes that lead to them.

use sluicegate_core::AffinityMode;
use sluicegate_proxy::plan::{RouteMode, RoutePlan, RoutesPlan};

use super::routes::each;
use crate::config::diagnostics::{Origin, Problems};
use crate::config::raw::{Affinity, Pool, Route};
use crate::config::read::Set;

/// The mode of a route that has neither a mode, nor weights or policies. `first`: the pool of its first target.
///
/// Who computes owners instead of remembering them, or wants none, has said how replicas are to be chosen; predicted
/// costs would pass over that.
pub(super) fn mode_by_itself(first: Option<&Set<Pool>>) -> RouteMode {
    match first.map(|pool| pool.value.affinity.value.mode.value) {
        Some(AffinityMode::Consistent | AffinityMode::Off) => RouteMode::Adaptive,
        Some(AffinityMode::Pins) | None => RouteMode::Predictive { hold: None },
    }
}

/// Which affinity counts where the pools' differ.
pub(super) fn differ(
    route: &Set<Route>,
    used: &[&Set<Pool>],
    problems: &Problems<'_>,
    warnings: &mut Vec<String>,
) {
    let affinity = |pool: &&Set<Pool>| {
        let own = &pool.value.affinity.value;
        (own.mode.value, own.prefix_chars.value)
    };
    let Some(first) = used.first() else { return };
    if used.iter().any(|pool| affinity(pool) != affinity(first)) && affinity(first).0 != AffinityMode::Off {
        let name = first.value.name.value.0.as_ref().map_or("", |name| &*name.0);
        let what = format!("the targets' pools differ in affinity, that of \"{name}\" counts for this route");
        warnings.push(problems.line(&route.value.targets.origin, &what));
    }
}

/// Warns of keys that no request is chosen for by. The pools and routes are in order.
pub(super) fn warn_of_idle_keys(
    pools: &[Set<Pool>],
    routes: &RoutesPlan,
    problems: &Problems<'_>,
    warnings: &mut Vec<String>,
) {
    for (index, pool) in pools.iter().enumerate() {
        let mut leading = each(routes).iter().filter(|route| leads_to(route, index)).peekable();
        if leading.peek().is_none() || leading.any(|route| takes_five_steps(route, index)) {
            continue;
        }
        let affinity = &pool.value.affinity.value;
        for (name, at) in idle_keys(affinity) {
            let what =
                format!("{name} does nothing: no route to the pool is in mode \"adaptive\" or \"weighted\"");
            warnings.push(problems.line(at, &what));
        }
    }
}

fn leads_to(route: &RoutePlan, pool: usize) -> bool {
    let fallback = route.fallback.iter().map(|fallback| &fallback.target);
    route.targets.iter().chain(fallback).any(|target| target.pool == pool)
}

/// A fallback is chosen for by load and pins in every mode.
fn takes_five_steps(route: &RoutePlan, pool: usize) -> bool {
    let as_fallback = route.fallback.as_ref().is_some_and(|fallback| fallback.target.pool == pool);
    let as_target = route.targets.iter().any(|target| target.pool == pool);
    as_fallback || as_target && matches!(route.mode, RouteMode::Adaptive | RouteMode::Weighted(_))
}

/// Those that were given and that the five steps alone go by, by name.
fn idle_keys(affinity: &Affinity) -> impl Iterator<Item = (&'static str, &Origin)> {
    let Affinity { mode, prefix_ttl, prefix_slack, rebind_after_spills, force_rebind_gap, .. } = affinity;
    let consistent = mode.value == AffinityMode::Consistent;
    let keys = [
        ("affinity.mode = \"consistent\"", &mode.origin, consistent),
        ("affinity.prefix_ttl", &prefix_ttl.origin, true),
        ("affinity.prefix_slack", &prefix_slack.origin, true),
        ("affinity.rebind_after_spills", &rebind_after_spills.origin, true),
        ("affinity.force_rebind_gap", &force_rebind_gap.origin, true),
    ];
    keys.into_iter()
        .filter(|(_, at, counts)| *counts && **at != Origin::Default)
        .map(|(name, at, _)| (name, at))
}
