//! Every file in `examples/` and `bench/` that users start from loads through the real loader.

use std::path::{Path, PathBuf};

use sluicegate::config::{Config, Loaded, Overrides};
use sluicegate_proxy::plan::{RouteMode, RoutePlan, RoutesPlan};

use super::environment;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[track_caller]
fn example(name: &str, overrides: &Overrides) -> Loaded {
    let text = std::fs::read_to_string(root().join(name)).unwrap();
    match Config::from_text(name, &text, overrides, &environment) {
        Ok(loaded) => loaded,
        Err(errors) => panic!("{errors}"),
    }
}

#[test]
fn every_example_loads() {
    let mut names: Vec<String> = std::fs::read_dir(root().join("examples"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "agents.toml",
            "decision.toml",
            "discovery.toml",
            "fallback.toml",
            "minimal.toml",
            "policies.toml",
            "predictive.toml",
            "production.toml",
            "shares.toml",
            "team-keys.toml",
            "two-models.toml"
        ]
    );
    for name in names {
        example(&format!("examples/{name}"), &Overrides::default());
    }
}

#[test]
fn the_minimal_example_asks_the_engines_for_their_models() {
    let loaded = example("examples/minimal.toml", &Overrides::default());
    assert!(matches!(loaded.plan.routes, RoutesPlan::AskEngines(_)));
    assert_eq!(loaded.warnings, [""; 0]);
}

#[test]
fn the_two_models_example_has_a_route_for_each() {
    let loaded = example("examples/two-models.toml", &Overrides::default());
    let RoutesPlan::Fixed(routes) = &loaded.plan.routes else { panic!("no routes") };
    let target = |r: &RoutePlan| (r.targets[0].pool, r.targets[0].upstream_model.clone());
    let shown: Vec<_> = routes.iter().map(|r| (&*r.model, target(r))).collect();
    assert_eq!(shown, [("qwen3", (0, Some("Qwen/Qwen3-32B".into()))), ("bge-m3", (1, None))]);
}

/// Route 0 of an example that has nothing to warn of, and what its summary says of routes.
fn route_of(name: &str) -> (RoutePlan, String) {
    let loaded = example(name, &Overrides::default());
    assert_eq!(loaded.warnings, [""; 0], "{name}");
    let RoutesPlan::Fixed(routes) = &loaded.plan.routes else { panic!("{name}: no routes") };
    let summary = loaded.summary();
    let from = summary.find("route ").expect("a route is told of");
    let to = summary.find("keys ").expect("keys are told of");
    (routes[0].clone(), summary[from..to].to_owned())
}

#[test]
fn the_shares_example_splits_by_weight() {
    let (route, told) = route_of("examples/shares.toml");
    assert!(matches!(route.mode, RouteMode::Weighted(_)), "{:?}", route.mode);
    let expected = "\
route    chat, mode weighted, by shares
           90 % -> pool stable, model Qwen/Qwen3-32B
           10 % -> pool canary, model Qwen/Qwen3-32B-Instruct-2507
";
    assert_eq!(told, expected);
}

#[test]
fn the_policies_example_scores_and_lets_sessions_move() {
    let (route, told) = route_of("examples/policies.toml");
    assert_eq!(route.session_keys.len(), 3, "the default of this mode: {:?}", route.session_keys);
    let expected = "\
route    chat, mode policy, by scores: session_affinity 1, least_inflight 2, queue_depth 1
           -> pool large, model Qwen/Qwen3-32B
           -> pool spare, model Qwen/Qwen3-32B
";
    assert_eq!(told, expected);
}

#[test]
fn the_predictive_example_chooses_by_cost_and_has_its_pool_learn() {
    let (route, told) = route_of("examples/predictive.toml");
    assert_eq!(route.mode, RouteMode::Predictive { hold: None });
    let expected = "\
route    chat, mode predictive, by predicted cost
           -> pool engines, model Qwen/Qwen3-32B
";
    assert_eq!(told, expected);
    let learns = |name| {
        let loaded = example(name, &Overrides::default());
        loaded.plan.pools.iter().map(|pool| pool.settings.predict).collect::<Vec<_>>()
    };
    assert_eq!(
        (learns("examples/predictive.toml"), learns("examples/shares.toml")),
        (vec![true], vec![false; 2])
    );
}

#[test]
fn the_fallback_example_has_a_provider_behind_its_engines() {
    let (route, told) = route_of("examples/fallback.toml");
    assert_eq!(route.mode, RouteMode::Predictive { hold: None });
    let expected = "\
route    chat, mode predictive, by predicted cost
           -> pool engines, model Qwen/Qwen3-32B
           else -> pool provider, model gpt-4o-mini, and instead of 5xx
           queue: at most 200 wait, at most 10s
";
    assert_eq!(told, expected);
}

#[test]
fn the_team_keys_example_has_keys_a_queue_and_prices_and_nothing_to_warn_of() {
    let loaded = example("examples/team-keys.toml", &Overrides::default());
    assert_eq!(loaded.warnings, [""; 0]);
    let expected = "\
pool     qwen3-32b: 2 replicas, 32 slots each
           http://10.0.0.11:8000
           http://10.0.0.12:8000
pool     provider: 1 replica, a provider's API
           https://api.openai.com
route    qwen3 (also default), mode predictive, by predicted cost
           -> pool qwen3-32b, model Qwen/Qwen3-32B
           queue: at most 500 wait, at most 30s
           price of a million tokens: prompt 0.2, cached 0.02, completion 0.6
route    gpt-4o-mini, mode predictive, by predicted cost
           -> pool provider
           price of a million tokens: prompt 0.15, cached 0.075, completion 0.6
key      assistant: every route, priority 10, no limits
key      research (project lab): qwen3, gpt-4o-mini
           at most 20 at once, 600 requests a minute, 200000 tokens a minute, 10 of cost a day, 150 of cost a month
key      batch (project lab): qwen3, priority -10
           at most 64 at once, 500000000 tokens a day
";
    let summary = loaded.summary();
    assert!(summary.contains(expected), "{summary}");
}

#[test]
fn the_bench_file_needs_only_a_replica_from_the_command_line() {
    let overrides = Overrides {
        replicas: vec!["http://127.0.0.1:8000".into()],
        listen: Some("127.0.0.1:7070".parse().unwrap()),
        ..Overrides::default()
    };
    let loaded = example("bench/one-core.toml", &overrides);
    assert_eq!((loaded.plan.listen.threads, loaded.plan.listen.address.port()), (1, 7070));
    assert_eq!(&*loaded.plan.pools[0].name, "default");
    assert!(matches!(loaded.plan.routes, RoutesPlan::AskEngines(_)));
    assert!(!loaded.usage.stdout && loaded.usage.file.is_some());
}

/// What stands in the document is what users paste.
#[test]
fn every_snippet_of_the_discovery_document_loads() {
    let text = std::fs::read_to_string(root().join("docs/discovery.md")).unwrap();
    let snippets: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let environment = |name: &str| name.ends_with("_KEY").then(|| "k".to_owned()).or(Some("t".into()));
    let kinds = snippets.iter().map(|snippet| {
        let loaded = Config::from_text("docs/discovery.md", snippet, &Overrides::default(), &environment);
        loaded.unwrap_or_else(|errors| panic!("{errors}")).discover[0].source.kind()
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["file", "dns", "dns", "gpustack", "consul", "nomad"]);
}

#[test]
fn the_decision_example_and_that_of_its_page_ask_a_service_for_the_model() {
    let (route, told) = route_of("examples/decision.toml");
    assert_eq!(route.decision.map(|plan| plan.max_state_bytes), Some(65_536));
    assert!(told.contains("asks https://decisions.internal (jev-latest, 1 token) for the model"), "{told}");
    let page = std::fs::read_to_string(root().join("docs/decision-service.md")).unwrap();
    let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a file");
    let loaded = Config::from_text("decided.toml", block, &Overrides::default(), &environment);
    let loaded = loaded.unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.decisions[0].uri.to_string(), "http://127.0.0.1:8100/v1/systemone");
}
