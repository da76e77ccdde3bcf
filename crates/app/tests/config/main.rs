//! The configuration through its public door: what is understood, what is refused, and in which words.

mod contract;
mod decision;
mod diagnostics;
mod discover;
mod examples;
mod hints;
mod hosted;
mod keys;
mod modes;
mod overrides;
mod reference;
mod secrets;
mod tenancy;
mod understood;

use sluicegate::config::{Config, Loaded, Overrides};

/// Variables that the tests' secrets name.
fn environment(name: &str) -> Option<String> {
    match name {
        "ADMIN_TOKEN" | "SLUICEGATE_ADMIN_TOKEN" => Some("admin-secret".into()),
        "VLLM_API_KEY" => Some("engine-secret".into()),
        "PROVIDER_KEY_1" => Some("provider-secret-1".into()),
        "PROVIDER_KEY_2" => Some("provider-secret-2".into()),
        "JEV_TOKEN" => Some("decision-secret".into()),
        "GPUSTACK_KEY" => Some("gpustack-secret".into()),
        "BLANKS" => Some("two words".into()),
        _ => None,
    }
}

fn load(text: &str, overrides: &Overrides) -> Result<Loaded, String> {
    Config::from_text("gate.toml", text, overrides, &environment).map_err(|errors| errors.to_string())
}

/// What a good text means.
#[track_caller]
fn good(text: &str) -> Loaded {
    match load(text, &Overrides::default()) {
        Ok(loaded) => loaded,
        Err(errors) => panic!("{errors}"),
    }
}

/// What is said about a bad text.
#[track_caller]
fn refused(text: &str) -> String {
    match load(text, &Overrides::default()) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(errors) => errors,
    }
}

/// The first lines of the findings, without the file's name: "line:column: what".
#[track_caller]
fn findings(text: &str) -> Vec<String> {
    let lines = refused(text);
    let own = lines.lines().filter_map(|line| line.strip_prefix("gate.toml:"));
    own.map(|line| line.trim_start().to_owned()).collect()
}
