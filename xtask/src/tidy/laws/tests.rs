use serde_json::json;

use super::{Kind, Metadata, judge};

fn metadata(ours: &[&str], edges: &[(&str, &str, Kind)]) -> Metadata {
    let ours = ours.iter().map(|name| ((*name).to_owned(), format!("{name}/Cargo.toml"))).collect();
    let mut metadata = Metadata { ours, ..Metadata::default() };
    for (from, to, kind) in edges {
        metadata.edges.entry((*from).to_owned()).or_default().push(((*to).to_owned(), *kind));
    }
    metadata
}

#[test]
fn each_law_is_enforced() {
    use Kind::{Development, Product};
    let ours = ["sluicegate", "sluicegate-core", "sluicegate-proxy", "sluicegate-testkit", "sluicegate-wire"];
    type Case = (&'static str, &'static [(&'static str, &'static str, Kind)], Option<&'static str>);
    let cases: &[Case] = &[
        ("nothing", &[], None),
        ("proxy may use core", &[("sluicegate-proxy", "sluicegate-core", Product)], None),
        (
            "core may not use wire",
            &[("sluicegate-core", "sluicegate-wire", Product)],
            Some("core depends on"),
        ),
        ("a dev-dependency is free", &[("sluicegate-core", "sluicegate-wire", Development)], None),
        (
            "testkit is for tests only",
            &[("sluicegate-proxy", "sluicegate-testkit", Product)],
            Some("proxy depends on"),
        ),
        (
            "chance is found behind another crate",
            &[("sluicegate-wire", "ahash", Product), ("ahash", "getrandom", Product)],
            Some("sluicegate-wire -> ahash -> getrandom"),
        ),
        (
            "what only tests need is free",
            &[("sluicegate-wire", "proptest", Development), ("proptest", "rand", Product)],
            None,
        ),
        ("proxy may reach a runtime", &[("sluicegate-proxy", "tokio", Product)], None),
        ("a ring of dependencies ends", &[("sluicegate-wire", "a", Product), ("a", "a", Product)], None),
    ];
    for (name, edges, expected) in cases {
        let findings = judge(&metadata(&ours, edges));
        match expected {
            None => assert!(findings.is_empty(), "{name}: {findings:?}"),
            Some(part) => {
                assert_eq!(findings.len(), 1, "{name}: {findings:?}");
                assert!(findings[0].what.contains(part), "{name}: {}", findings[0].what);
            }
        }
    }
}

#[test]
fn a_crate_without_a_law_is_refused() {
    let findings = judge(&metadata(&["sluicegate-extra"], &[]));
    assert!(findings[0].what.contains("no law"), "{findings:?}");
}

#[test]
fn an_eighth_crate_is_refused() {
    let names: Vec<String> = (0..8).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(judge(&metadata(&names, &[])).iter().any(|finding| finding.what.contains("8 crates")));
    let with_xtask: Vec<&str> = names[1..].iter().copied().chain(["xtask"]).collect();
    assert!(!judge(&metadata(&with_xtask, &[])).iter().any(|finding| finding.what.contains("at most")));
}

#[test]
fn cargo_metadata_is_understood() {
    let value = json!({
        "workspace_members": ["a 1"],
        "packages": [
            {"id": "a 1", "name": "a", "manifest_path": "/r/crates/a/Cargo.toml"},
            {"id": "b 1", "name": "b", "manifest_path": "/elsewhere/b/Cargo.toml"},
        ],
        "resolve": {"nodes": [
            {"id": "a 1", "deps": [{"pkg": "b 1", "dep_kinds": [{"kind": "dev"}, {"kind": null}]}]},
            {"id": "b 1", "deps": []},
        ]},
    });
    let metadata = Metadata::of(&value, "/r");
    assert_eq!(metadata.ours, [("a".to_owned(), "crates/a/Cargo.toml".to_owned())]);
    assert_eq!(metadata.edges["a"], [("b".to_owned(), Kind::Product)]);
}
