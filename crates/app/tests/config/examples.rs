//! Every file in `examples/` and `bench/` that users start from loads through the real loader.

use std::path::{Path, PathBuf};

use sluicegate::config::{Config, Loaded, Overrides};
use sluicegate_proxy::plan::RoutesPlan;

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
    assert_eq!(names, ["agents.toml", "minimal.toml", "production.toml", "two-models.toml"]);
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
    let shown: Vec<_> = routes.iter().map(|r| (&*r.model, r.pool, r.upstream_model.as_deref())).collect();
    assert_eq!(shown, [("qwen3", 0, Some("Qwen/Qwen3-32B")), ("bge-m3", 1, None)]);
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
