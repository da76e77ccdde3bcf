//! The generated reference and schema.

use serde_json::Value as Json;
use sluicegate::config::{DocsFormat, config_docs};

/// Every key name in the contract fixture, found without the loader.
fn contract_keys() -> Vec<&'static str> {
    let lines = include_str!("../fixtures/contract.toml").lines();
    // Keys of sections that a later version brings are described by that version.
    let mut later = false;
    let mut keys = Vec::new();
    for line in lines {
        if line.starts_with('[') {
            later = ["[routes.fallback]", "[[routes.policies]]"].contains(&line);
        } else if let Some((key, _)) = line.split_once(" = ").filter(|_| !later) {
            keys.push(key);
        }
    }
    keys
}

#[test]
fn the_reference_describes_every_key_of_the_contract() {
    let reference = config_docs(DocsFormat::Markdown);
    let keys = contract_keys();
    assert!(keys.len() > 60, "{}", keys.len());
    // Sections that are written in one line.
    let section = |key: &str| reference.contains(&format!(".{key}]`"));
    for key in keys.into_iter().filter(|key| !section(key)) {
        let row = reference.lines().find(|line| line.starts_with(&format!("| `{key}` | ")));
        let cells: Vec<&str> = row.unwrap_or_else(|| panic!("no row for {key}")).split(" | ").collect();
        assert!(cells.len() == 4 && cells.iter().all(|cell| !cell.trim().is_empty()), "{cells:?}");
    }
}

#[test]
fn defaults_in_the_reference_are_the_cores_own() {
    let health = sluicegate_core::HealthSettings::default();
    let expected = format!(
        "| `scrape_interval` | a duration above zero | `\"{}s\"` |",
        health.scrape_interval.as_secs()
    );
    assert!(config_docs(DocsFormat::Markdown).contains(&expected), "{expected}");
}

#[test]
fn the_schema_knows_every_key_and_no_other() {
    let schema: Json = serde_json::from_str(&config_docs(DocsFormat::Schema)).unwrap();
    let health = &schema["properties"]["pools"]["items"]["properties"]["health"];
    assert_eq!(health["additionalProperties"], Json::Bool(false));
    assert_eq!(health["properties"]["cooldown"]["default"], "30s");
    assert_eq!(schema["properties"]["routes"]["items"]["required"], serde_json::json!(["model"]));
    let text = schema.to_string();
    for key in contract_keys() {
        assert!(text.contains(&format!("\"{key}\":{{")), "{key}");
    }
}

#[test]
fn the_files_in_the_repository_are_what_the_code_says() {
    for (format, text) in [
        (DocsFormat::Markdown, include_str!("../../../../docs/configuration.md")),
        (DocsFormat::Schema, include_str!("../../../../docs/sluicegate.schema.json")),
    ] {
        assert!(config_docs(format) == text, "{format:?}: run `cargo xtask gen`");
    }
}
