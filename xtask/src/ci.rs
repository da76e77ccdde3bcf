//! `cargo xtask ci`: what must hold before a change goes in. One build profile, cheapest step first.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::process::{cargo, run};
use crate::{generated, print_help, refuse_unknown, tidy};

const HELP: &str = "\
Everything that must hold before a change goes in. Stops at the first failure.

Usage: cargo xtask ci [--from STEP | --only STEP]

Steps, in order:
  format     cargo fmt --check                          mend with: cargo fmt
  tidy       house rules, from Cargo metadata and source; see cargo xtask tidy --help
  clippy     all targets, warnings denied
  docs       rustdoc of every crate, warnings denied
  tests      cargo test --workspace: units, doc tests, field cases, the seeded simulation of the
             core (256 seeds) and every fuzz corpus replayed as plain tests
  generated  docs/configuration.md and the schema are what the code says
                                                        mend with: cargo xtask gen

A failing seed prints the line that replays it; CONTRIBUTING.md says how to use it.
Needs nothing but the Rust toolchain named in rust-toolchain.toml (and a C linker).
";

struct Step {
    name: &'static str,
    action: fn(&Path) -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "format", action: format },
    Step { name: "tidy", action: tidy::check },
    Step { name: "clippy", action: clippy },
    Step { name: "docs", action: docs },
    Step { name: "tests", action: tests },
    Step { name: "generated", action: generated::check },
];

/// Runs the steps the words ask for: all of them, `--from STEP` on, or `--only STEP`.
pub(crate) fn command(root: &Path, words: &[&str]) -> Result<()> {
    match words {
        [] => run_steps(root, STEPS),
        ["--help" | "-h"] => print_help(HELP),
        ["--from", name] => run_steps(root, &STEPS[position(name)?..]),
        ["--only", name] => run_steps(root, std::slice::from_ref(&STEPS[position(name)?])),
        _ => refuse_unknown(words, HELP),
    }
}

fn position(name: &str) -> Result<usize> {
    STEPS
        .iter()
        .position(|step| step.name == name)
        .ok_or_else(|| anyhow!("no step is called `{name}`: see cargo xtask ci --help"))
}

fn run_steps(root: &Path, steps: &[Step]) -> Result<()> {
    let begun = Instant::now();
    let mut summary = Vec::new();
    for (done, step) in steps.iter().enumerate() {
        println!("\n== {} ({}/{})", step.name, done + 1, steps.len());
        let started = Instant::now();
        let outcome = (step.action)(root);
        let took = seconds(started.elapsed());
        if let Err(error) = outcome {
            println!("\nFAILED {} after {took} s; {done} of {} steps passed", step.name, steps.len());
            println!("again, this step alone: cargo xtask ci --only {}", step.name);
            return Err(error);
        }
        println!("-- {} ok, {took} s", step.name);
        summary.push(format!("{} {took}", step.name));
    }
    println!("\nPASSED in {} s: {}", seconds(begun.elapsed()), summary.join(", "));
    Ok(())
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

fn format(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["fmt", "--all", "--check"]);
    run(command).map_err(|error| error.context("not formatted; mend with `cargo fmt --all`"))
}

fn clippy(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]);
    run(command)
}

fn docs(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings");
    run(command)
}

fn tests(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--locked"]);
    run(command)
}

#[cfg(test)]
mod tests {
    use super::{HELP, STEPS, command, position};

    #[test]
    fn help_names_every_step_in_order() {
        let steps = &HELP[HELP.find("Steps, in order:").expect("a list of steps")..];
        let places: Vec<_> = STEPS.iter().map(|step| steps.find(&format!("\n  {} ", step.name))).collect();
        assert!(places.iter().all(Option::is_some), "a step is missing from the help: {places:?}");
        assert!(places.is_sorted(), "the help lists the steps in another order: {places:?}");
    }

    #[test]
    fn unknown_words_and_steps_are_refused() {
        let here = std::path::Path::new(".");
        assert!(command(here, &["--fast"]).is_err());
        assert!(command(here, &["--only", "everything"]).is_err());
        assert_eq!(position("tidy").expect("a step"), 1);
    }
}
