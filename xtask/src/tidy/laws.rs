//! Which crate may depend on which, from `cargo metadata`.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;

use super::finding::Finding;
use super::source::Repository;
use crate::process::{cargo, output};

/// Our crates besides `xtask`: a new one needs a reason good enough to change this number.
const MOST_CRATES: usize = 7;

struct Law {
    name: &'static str,
    /// Ours that it may use in its product (normal and build dependencies).
    may_use: &'static [&'static str],
}

const LAWS: &[Law] = &[
    Law { name: "sluicegate-core", may_use: &[] },
    Law { name: "sluicegate-wire", may_use: &[] },
    Law { name: "sluicegate-proxy", may_use: &["sluicegate-core", "sluicegate-wire"] },
    Law { name: "sluicegate-lab", may_use: &["sluicegate-core", "sluicegate-wire"] },
    Law {
        name: "sluicegate",
        may_use: &["sluicegate-core", "sluicegate-wire", "sluicegate-proxy", "sluicegate-lab"],
    },
    Law {
        name: "sluicegate-testkit",
        may_use: &["sluicegate-core", "sluicegate-wire", "sluicegate-proxy", "sluicegate-lab", "sluicegate"],
    },
    Law { name: "xtask", may_use: &[] },
];

/// Crates that decide from their arguments alone.
const PURE: &[&str] = &["sluicegate-core", "sluicegate-wire"];

/// What a pure crate must not reach, however indirectly: runtimes, sockets, chance.
const IMPURE: &[&str] =
    &["tokio", "mio", "socket2", "async-std", "smol", "hyper", "rand", "rand_core", "getrandom", "fastrand"];

/// Reads the metadata and applies every law.
pub(super) fn check(repository: &Repository) -> Vec<Finding> {
    let mut command = cargo(&repository.root);
    command.args(["metadata", "--format-version", "1", "--locked"]);
    let metadata = output(command)
        .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).map_err(anyhow::Error::from))
        .map(|value| Metadata::of(&value, &repository.root.to_string_lossy()));
    match metadata {
        Ok(metadata) => judge(&metadata),
        Err(error) => {
            let mend = "make the manifests load; commit Cargo.lock when dependencies change";
            vec![Finding::error("Cargo.toml", 1, format!("no metadata: {error:#}"), mend)]
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Product,
    Development,
}

/// Packages by name; only what the laws ask about.
#[derive(Default)]
struct Metadata {
    /// Our own: name and manifest path from the root.
    ours: Vec<(String, String)>,
    /// Resolved edges of every package, ours and foreign.
    edges: HashMap<String, Vec<(String, Kind)>>,
}

impl Metadata {
    fn of(value: &Value, root: &str) -> Self {
        let mut names: HashMap<&str, &str> = HashMap::new();
        let mut metadata = Self::default();
        let members: BTreeSet<&str> = texts(&value["workspace_members"]).collect();
        for package in list(&value["packages"]) {
            let (id, name) = (text(&package["id"]), text(&package["name"]));
            names.insert(id, name);
            if members.contains(id) {
                let manifest = text(&package["manifest_path"]).replace('\\', "/");
                let short = manifest.strip_prefix(root).map(|rest| rest.trim_start_matches('/').to_owned());
                metadata.ours.push((name.to_owned(), short.unwrap_or(manifest)));
            }
        }
        for node in list(&value["resolve"]["nodes"]) {
            let name = names.get(text(&node["id"])).copied().unwrap_or_default();
            let edges = metadata.edges.entry(name.to_owned()).or_default();
            for dependency in list(&node["deps"]) {
                let to = names.get(text(&dependency["pkg"])).copied().unwrap_or_default();
                let product = list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"] != "dev");
                edges.push((to.to_owned(), if product { Kind::Product } else { Kind::Development }));
            }
        }
        metadata.ours.sort();
        metadata
    }

    fn uses(&self, name: &str) -> impl Iterator<Item = &(String, Kind)> {
        self.edges.get(name).into_iter().flatten()
    }

    /// The way from a crate to a forbidden one through product dependencies, if there is one.
    fn way_to_impure(&self, from: &str) -> Option<Vec<String>> {
        let mut seen = BTreeSet::from([from.to_owned()]);
        let mut ways = vec![vec![from.to_owned()]];
        while let Some(way) = ways.pop() {
            let end = way.last().cloned().unwrap_or_default();
            for (next, _) in self.uses(&end).filter(|(_, kind)| *kind == Kind::Product) {
                let mut longer = way.clone();
                longer.push(next.clone());
                if IMPURE.contains(&next.as_str()) {
                    return Some(longer);
                }
                if seen.insert(next.clone()) {
                    ways.push(longer);
                }
            }
        }
        None
    }
}

fn judge(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    let products = metadata.ours.iter().filter(|(name, _)| name != "xtask").count();
    if products > MOST_CRATES {
        let what = format!("{products} crates, at most {MOST_CRATES}");
        findings.push(Finding::error(
            "Cargo.toml",
            1,
            what,
            "put the new code into the crate whose job it is",
        ));
    }
    for (name, manifest) in &metadata.ours {
        let Some(law) = LAWS.iter().find(|law| law.name == name) else {
            let mend = "add its law to xtask/src/tidy/laws.rs, with ARCHITECTURE.md";
            findings.push(Finding::error(manifest, 1, format!("no law for crate {name}"), mend));
            continue;
        };
        for (used, kind) in metadata.uses(name) {
            let ours = metadata.ours.iter().any(|(other, _)| other == used);
            if ours && *kind == Kind::Product && !law.may_use.contains(&used.as_str()) {
                let what = format!("{name} depends on {used}; it may use {:?}", law.may_use);
                let mend = "turn the dependency round, or make it a dev-dependency";
                findings.push(Finding::error(manifest, 1, what, mend));
            }
        }
        if PURE.contains(&name.as_str())
            && let Some(way) = metadata.way_to_impure(name)
        {
            let what = format!("{name} must stay pure but reaches {}", way.join(" -> "));
            findings.push(Finding::error(manifest, 1, what, "drop it; take what it gives as an argument"));
        }
    }
    findings
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> impl Iterator<Item = &str> {
    list(value).iter().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests;
