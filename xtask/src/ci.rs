//! `cargo xtask ci`: what must hold before a change goes in. One build profile, cheapest step first.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};

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
  name-server  discovery by DNS against a real name server, nsd
                                                        mend with: apt-get install nsd
  generated  docs/configuration.md and the schema are what the code says
                                                        mend with: cargo xtask gen

A failing seed prints the line that replays it; CONTRIBUTING.md says how to use it.
Needs nothing but the Rust toolchain named in rust-toolchain.toml (and a C linker). A step that also needs a program
which is not installed is not run: the last line says so, and does not count it as passed.
";

struct Step {
    name: &'static str,
    /// Without this program it is not run. Its Debian package has the same name.
    needs: Option<&'static str>,
    action: fn(&Path) -> Result<()>,
}

const STEPS: &[Step] = &[
    Step { name: "format", needs: None, action: format },
    Step { name: "tidy", needs: None, action: tidy::check },
    Step { name: "clippy", needs: None, action: clippy },
    Step { name: "docs", needs: None, action: docs },
    Step { name: "tests", needs: None, action: tests },
    Step { name: "name-server", needs: Some("nsd"), action: name_server },
    Step { name: "generated", needs: None, action: generated::check },
];

const NAME_SERVER: [&str; 4] = ["-p", "sluicegate", "--test", "name_server"];

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
    let (mut summary, mut not_run) = (Vec::new(), Vec::new());
    for (done, step) in steps.iter().enumerate() {
        println!("\n== {} ({}/{})", step.name, done + 1, steps.len());
        if let Some(program) = step.needs.filter(|program| !installed(program)) {
            let missing = format!("{} (no {program}: apt-get install {program})", step.name);
            println!("!! NOT RUN {missing}");
            not_run.push(missing);
            continue;
        }
        let started = Instant::now();
        let outcome = (step.action)(root);
        let took = seconds(started.elapsed());
        if let Err(error) = outcome {
            let passed = done - not_run.len();
            println!("\nFAILED {} after {took} s; {passed} of {} steps passed", step.name, steps.len());
            println!("again, this step alone: cargo xtask ci --only {}", step.name);
            return Err(error);
        }
        println!("-- {} ok, {took} s", step.name);
        summary.push(format!("{} {took}", step.name));
    }
    if summary.is_empty() {
        bail!("nothing was run: {}", not_run.join(", "));
    }
    println!("\n{}", verdict(&summary, &not_run, begun.elapsed()));
    Ok(())
}

/// The last line: what passed, and what nobody knows of.
fn verdict(passed: &[String], not_run: &[String], took: Duration) -> String {
    let passed = format!("PASSED in {} s: {}", seconds(took), passed.join(", "));
    match not_run {
        [] => passed,
        _ => format!("{passed}\nNOT RUN, {} of the steps: {}", not_run.len(), not_run.join(", ")),
    }
}

/// Whether the program can be found, also where only the administrator's path leads.
fn installed(program: &str) -> bool {
    search_path().iter().any(|folder| folder.join(program).is_file())
}

fn search_path() -> Vec<PathBuf> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&usual).chain(["/usr/sbin", "/sbin"].map(PathBuf::from)).collect()
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
    let every = ["--workspace", "--all-targets"].as_slice();
    // What `cargo test` leaves out is not among all targets.
    for targets in [every, &NAME_SERVER] {
        let mut command = cargo(root);
        command.arg("clippy").args(targets).args(["--locked", "--", "-D", "warnings"]);
        run(command)?;
    }
    Ok(())
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

fn name_server(root: &Path) -> Result<()> {
    let mut command = cargo(root);
    command.args(["test", "--locked"]).args(NAME_SERVER);
    command.env("PATH", std::env::join_paths(search_path())?);
    run(command)
}

#[cfg(test)]
mod tests {
    use super::{HELP, STEPS, command, installed, position, verdict};
    use std::time::Duration;

    #[test]
    fn a_step_whose_program_is_missing_is_named_and_not_among_the_passed() {
        assert!(installed("sh") && !installed("no-such-program-anywhere"));
        let passed = ["tests 1.0".to_owned()];
        assert_eq!(verdict(&passed, &[], Duration::from_secs(1)), "PASSED in 1.0 s: tests 1.0");
        let line = verdict(&passed, &["name-server (no nsd)".to_owned()], Duration::from_secs(1));
        assert!(line.ends_with("NOT RUN, 1 of the steps: name-server (no nsd)"), "{line}");
    }

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
