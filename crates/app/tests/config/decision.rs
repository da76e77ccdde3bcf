//! The decision service of a route: what is understood, and what is said where it cannot do its part.

use std::time::Duration;

use sluicegate_core::Policy;
use sluicegate_proxy::plan::{DecisionPlan, RouteMode, RoutePlan, RoutesPlan};

use super::{findings, good, refused};

const HEAD: &str = "[[pools]]\nname = \"a\"\nreplicas = [\"http://h:1\"]\n[[routes]]\nmodel = \"m\"\ntargets = [{ pool = \"a\", \
                    upstream_model = \"small\", description = \"Easy\" }, { pool = \"a\", description = \"Hard\" }]\n";

/// A route whose only policy has these keys; it stands on line 7.
fn with(policy: &str) -> String {
    format!("{HEAD}policies = [{{ {policy} }}]\n")
}

const SERVICE: &str = "kind = \"decision_service\", base_url = \"https://d.internal/x/\"";

fn route(text: &str) -> RoutePlan {
    let RoutesPlan::Fixed(mut routes) = good(text).plan.routes else { panic!("routes of the file") };
    routes.remove(0)
}

#[test]
fn what_is_left_out_has_its_default() {
    let text = with(SERVICE);
    let service = good(&text).decisions.remove(0);
    assert_eq!((&*service.route, &*service.url.text), ("m", "https://d.internal/x"));
    assert_eq!(service.uri.to_string(), "https://d.internal/x/v1/systemone");
    let (three, sixty) = (Duration::from_secs(3), Duration::from_secs(60));
    assert_eq!((service.timeout, service.cache_ttl, service.tokens.len()), (three, sixty, 0));
    assert_eq!(&*service.model, "jev-latest");
    assert_eq!(&*service.instructions, "Pick the smallest model that can do it well.");
    let route = route(&text);
    assert_eq!(route.decision, Some(DecisionPlan { service: 0, max_state_bytes: 65_536 }));
    let RouteMode::Policy(policies) = &route.mode else { panic!("mode policy") };
    assert_eq!(policies.weight(Policy::DecisionService), 10.0);
    let described: Vec<_> = route.targets.iter().map(|target| target.description.as_deref()).collect();
    assert_eq!(described, [Some("Easy"), Some("Hard")]);
}

#[test]
fn every_key_is_taken_and_a_secret_is_shown_nowhere() {
    let text = with(&format!(
        "{SERVICE}, weight = 4, timeout = \"1s\", cache_ttl = \"0s\", max_state_bytes = 1000, tokens = [\"env:JEV_TOKEN\"], \
         model = \"jev-2\", instructions = \"Choose.\""
    ));
    let loaded = good(&text);
    let service = &loaded.decisions[0];
    assert_eq!((service.timeout, service.cache_ttl), (Duration::from_secs(1), Duration::ZERO));
    assert_eq!((&*service.model, &*service.instructions), ("jev-2", "Choose."));
    assert_eq!(&*service.tokens[0].0, "decision-secret");
    assert_eq!(route(&text).decision.map(|plan| plan.max_state_bytes), Some(1000));
    let summary = loaded.summary();
    let line = "           asks https://d.internal/x (jev-2, 1 token) for the model, at most 1s, answers kept for 0s\n";
    assert!(summary.contains(line), "{summary}");
    for shown in [summary, format!("{loaded:?}")] {
        assert!(!shown.contains("decision-secret"), "{shown}");
    }
}

#[test]
fn what_cannot_be_is_told_with_a_way_out() {
    for (policy, what, hint) in [
        (
            "kind = \"decision_service\"",
            "a decision service needs base_url",
            "add base_url = \"https://...\", the address before /v1/systemone",
        ),
        (
            "kind = \"least_inflight\", base_url = \"http://d\"",
            "\"base_url\" means nothing with kind = \"least_inflight\"",
            "leave it out, or write kind = \"decision_service\"",
        ),
        (
            "kind = \"decision_service\", base_url = \"http://d\", max_state_bytes = 255",
            "max_state_bytes: 255 is out of range",
            "from 256 to 262144",
        ),
        (
            "kind = \"decision_service\", base_url = \"http://d\", instructions = \" \"",
            "instructions: the text is empty",
            "write a text of 1 to 4096 bytes",
        ),
        (
            "kind = \"decision_service\", base_url = \"http://d/<x>\"",
            "base_url: its path cannot stand in a request",
            "letters, digits and - . _ ~ /; percent-encode the rest",
        ),
        (
            "kind = \"decision_service\", base_url = \"http://d\", tokens = [\"sk-123\"]",
            "tokens: a secret does not stand in the file itself",
            "name its place instead: \"env:NAME\" or \"file:PATH\"",
        ),
    ] {
        let found = findings(&with(policy));
        assert_eq!(found.len(), 1, "{policy}: {found:?}");
        assert!(found[0].starts_with("7:") && found[0].ends_with(what), "{policy}: {found:?}");
        let whole = refused(&with(policy));
        assert!(whole.contains(&format!("  hint: {hint}\n")), "{policy}: {whole}");
    }
}

#[test]
fn what_does_nothing_is_warned_of() {
    let warns = |text: &str, what: &str| good(text).warnings.iter().any(|warning| warning.ends_with(what));
    let asks = with(SERVICE);
    for (text, what) in [
        (
            asks.replace("upstream_model = \"small\"", "upstream_model = \"m\""),
            "the decision service is never asked: all targets have the same model",
        ),
        (
            asks.replace(", description = \"Easy\"", ""),
            "a target without a description: the decision service is told its model's name alone",
        ),
        (
            with(&format!("{SERVICE}, weight = 0 }}, {{ kind = \"least_inflight\"")),
            "the weight is 0, so the decision service is not asked",
        ),
        (asks.replace("/x/", "/v1"), "base_url ends in /v1, and /v1/systemone is put behind it"),
        (with("kind = \"least_inflight\""), "description does nothing, the route asks no decision service"),
    ] {
        assert!(warns(&text, what), "{text}: {:?}", good(&text).warnings);
        assert!(!warns(&asks, what), "{what}");
    }
}
