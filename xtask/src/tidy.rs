//! `cargo xtask tidy`: the house rules that a compiler does not check.
//! Each rule is one file below; each finding says where, what, and how to mend it.

mod cases;
mod documents;
mod finding;
mod hygiene;
mod invariants;
mod laws;
mod names;
mod rims;
mod sizes;
mod source;

use std::path::Path;

use anyhow::{Result, bail};

use crate::{print_help, refuse_unknown};
use finding::{Finding, Severity};
use source::Repository;

const HELP: &str = "\
The house rules, from Cargo metadata and the source itself.

Usage: cargo xtask tidy

  laws        which crate may depend on which; core and wire stay free of runtimes and chance
  sizes       files, functions, traits and inline tests stay small
  names       no module called utils, common, manager, helper or types
  hygiene     no sleeps in tests, nothing ignored, no todo!, unimplemented! or dbg!
  rims        clock, tasks, threads, exit and environment only where xtask/src/tidy/rims.rs lists it
  invariants  each invariant in ARCHITECTURE.md names a test or lint that exists
  cases       each field case has a test named after it; each example is loaded by a test;
              each fuzz target has a corpus that a test replays
  documents   links resolve; no path of somebody's machine

Exceptions are lists in those files, each entry with its reason.
";

type Rule = fn(&Repository) -> Vec<Finding>;

const RULES: &[(&str, Rule)] = &[
    ("laws", laws::check),
    ("sizes", sizes::check),
    ("names", names::check),
    ("hygiene", hygiene::check),
    ("rims", rims::check),
    ("invariants", invariants::check),
    ("cases", cases::check),
    ("documents", documents::check),
];

/// Checks everything; there is nothing to choose.
pub(crate) fn command(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        [] => check(root),
        ["--help" | "-h"] => print_help(HELP),
        _ => refuse_unknown(words, HELP),
    }
}

/// Runs every rule and prints every finding. Errors: at least one finding that is not a warning.
pub(crate) fn check(root: &Path) -> Result<()> {
    let repository = Repository::read(root)?;
    let mut findings: Vec<(&str, Finding)> = Vec::new();
    findings.extend(repository.unreadable.iter().cloned().map(|finding| ("source", finding)));
    for (name, rule) in RULES {
        findings.extend(rule(&repository).into_iter().map(|finding| (*name, finding)));
    }
    for (name, finding) in &findings {
        println!("{}", finding.shown(name));
    }
    let errors = findings.iter().filter(|(_, finding)| finding.severity == Severity::Error).count();
    let warnings = findings.len() - errors;
    println!("tidy: {} Rust files, {errors} errors, {warnings} warnings", repository.rust.len());
    if errors > 0 {
        bail!("{errors} house rules are broken");
    }
    Ok(())
}
