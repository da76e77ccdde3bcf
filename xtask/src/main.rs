//! The project's own chores: `cargo xtask ci|tidy|gen|real|bench`.

mod bench;
mod ci;
mod generated;
mod process;
mod real;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
The project's own chores.

Usage: cargo xtask <command> [--help]

Commands:
  ci      everything that must hold before a change goes in, step by step
  tidy    the house rules alone (crate laws, sizes, names, documents): seconds
  gen     write the generated files; `gen --check` only compares
  real    run the gateway in front of real engines with real clients
  bench   the gateway beside nginx and other peers: what requests and streams cost
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => print_help(HELP),
        ["ci", rest @ ..] => ci::command(&root(), rest),
        ["tidy", rest @ ..] => tidy::command(&root(), rest),
        ["gen", rest @ ..] => generated::command(&root(), rest),
        ["real", rest @ ..] => real::command(&root(), rest),
        ["bench", rest @ ..] => bench::command(&root(), rest),
        [other, ..] => Err(anyhow::anyhow!("unknown command `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a help text; never fails.
fn print_help(text: &str) -> anyhow::Result<()> {
    print!("{text}");
    Ok(())
}

/// Refuses words that a command does not know, so that a mistyped flag is never ignored.
fn refuse_unknown(words: &[&str], help: &str) -> anyhow::Result<()> {
    match words.first() {
        Some(word) => anyhow::bail!("unknown argument `{word}`\n\n{help}"),
        None => Ok(()),
    }
}

/// The repository's root: the folder above this crate.
fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own).to_path_buf()
}
