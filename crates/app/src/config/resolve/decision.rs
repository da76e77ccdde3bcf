//! The decision service among a route's policies.

use std::collections::BTreeSet;

use sluicegate_core::Policy;
use sluicegate_proxy::plan::Credential;

use crate::config::DecisionServicePlan;
use crate::config::diagnostics::{Origin, Problems};
use crate::config::raw::{Route, ScoringPolicy};
use crate::config::read::Set;
use crate::config::values::Text as _;
use crate::decisions::PATH;

/// What it can be told of a conversation: less says nothing, and more is a burden for every open question.
const STATE_BYTES: std::ops::RangeInclusive<u32> = 256..=262_144;

/// The service that the route asks, and the bytes that it is told at most. None where there is none, or `problems` has
/// been told why not.
pub(super) fn service(
    route: &Set<Route>,
    problems: &mut Problems<'_>,
    warnings: &mut Vec<String>,
) -> Option<(DecisionServicePlan, usize)> {
    let policies = &route.value.policies.value;
    for policy in policies {
        keys_of_another_kind(&policy.value, problems);
    }
    let asked = policies.iter().find(|own| own.value.kind.value.0 == Some(Policy::DecisionService));
    let Some(asked) = asked else {
        let described = route.value.targets.value.iter().find(|target| target.value.description.given());
        if let Some(target) = described.filter(|_| route.value.policies.sound) {
            let what = "description does nothing, the route asks no decision service";
            warnings.push(problems.line(&target.value.description.origin, what));
        }
        return None;
    };
    let keys = &asked.value;
    state_bytes_in_range(keys, problems);
    let Some(url) = keys.base_url.value.clone() else {
        if keys.base_url.sound {
            problems
                .add(&asked.origin, "a decision service needs base_url")
                .hint("add base_url = \"https://...\", the address before /v1/systemone");
        }
        return None;
    };
    if url.prefix.ends_with("/v1") {
        let what = "base_url ends in /v1, and /v1/systemone is put behind it";
        warnings.push(problems.line(&keys.base_url.origin, what));
    }
    models_to_choose_from(&route.value, &asked.origin, problems, warnings);
    if keys.weight.given() && keys.weight.value == 0.0 {
        warnings.push(
            problems.line(&keys.weight.origin, "the weight is 0, so the decision service is not asked"),
        );
        return None;
    }
    let scheme = if url.tls { "https" } else { "http" };
    let Ok(uri) = format!("{scheme}://{}{}{PATH}", url.authority, url.prefix).parse() else {
        problems
            .add(&keys.base_url.origin, "base_url: its path cannot stand in a request")
            .hint("letters, digits and - . _ ~ /; percent-encode the rest");
        return None;
    };
    let plan = DecisionServicePlan {
        route: route.value.model.value.0.as_ref()?.0.clone(),
        url,
        uri,
        timeout: keys.timeout.value.0,
        cache_ttl: keys.cache_ttl.value.0,
        tokens: keys.tokens.value.iter().map(|token| Credential(token.value.reveal().clone())).collect(),
        model: keys.model.value.0.clone(),
        instructions: keys.instructions.value.0.clone(),
    };
    Some((plan, keys.max_state_bytes.value.get() as usize))
}

fn keys_of_another_kind(policy: &ScoringPolicy, problems: &mut Problems<'_>) {
    let Some(kind) = policy.kind.value.0.filter(|kind| *kind != Policy::DecisionService) else { return };
    let keys: [(&str, bool, &Origin); 7] = [
        ("base_url", policy.base_url.given(), &policy.base_url.origin),
        ("timeout", policy.timeout.given(), &policy.timeout.origin),
        ("cache_ttl", policy.cache_ttl.given(), &policy.cache_ttl.origin),
        ("max_state_bytes", policy.max_state_bytes.given(), &policy.max_state_bytes.origin),
        ("tokens", policy.tokens.given(), &policy.tokens.origin),
        ("model", policy.model.given(), &policy.model.origin),
        ("instructions", policy.instructions.given(), &policy.instructions.origin),
    ];
    for (name, _, at) in keys.into_iter().filter(|(_, given, _)| *given) {
        problems
            .add(at, format!("\"{name}\" means nothing with kind = \"{}\"", kind.text()))
            .hint("leave it out, or write kind = \"decision_service\"");
    }
}

fn state_bytes_in_range(keys: &ScoringPolicy, problems: &mut Problems<'_>) {
    let bytes = &keys.max_state_bytes;
    if bytes.sound && !STATE_BYTES.contains(&bytes.value.get()) {
        problems
            .add(&bytes.origin, format!("max_state_bytes: {} is out of range", bytes.value))
            .hint(format!("from {} to {}", STATE_BYTES.start(), STATE_BYTES.end()));
    }
}

/// It is asked only where there is a choice, and chooses better where it is told what the models are good at.
fn models_to_choose_from(route: &Route, at: &Origin, problems: &Problems<'_>, warnings: &mut Vec<String>) {
    let targets = &route.targets;
    if !targets.sound || targets.value.iter().any(|target| !target.value.upstream_model.sound) {
        return;
    }
    let names = targets.value.iter().map(|target| target.value.upstream_model.value.as_ref());
    let public = route.model.value.0.as_ref();
    let models: BTreeSet<&str> = names.filter_map(|name| name.or(public)).map(|name| &*name.0).collect();
    if models.len() < 2 {
        let what = "the decision service is never asked: all targets have the same model";
        warnings.push(problems.line(at, what));
    } else if let Some(target) = targets.value.iter().find(|target| !target.value.description.given()) {
        let what = "a target without a description: the decision service is told its model's name alone";
        warnings.push(problems.line(&target.origin, what));
    }
}
