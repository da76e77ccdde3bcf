//! `cargo xtask bench`: the gateway beside its peers, each alone on a core, in one run.

mod arguments;
mod candidate;
mod install;
mod machine;
mod markdown;
mod measure;
mod peers;
mod plot;
mod publish;
mod results;
mod soak;
mod table;
mod threads;
mod workloads;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::print_help;
use crate::process::{cargo, run};
use arguments::Arguments;
use machine::Machine;
use measure::Bench;
use peers::Peer;
use results::Results;

const HELP: &str = "\
The gateway beside its peers: what a request, a streamed chunk and an open stream cost, as ratios to bare nginx.

Usage: cargo xtask bench [--peers LIST] [--tests LIST] [--rounds N] [--quick] [--install]
                         [--markdown FILE] [--json FILE] [--plot FILE.svg] [--write] [--gateway PATH]
       cargo xtask bench --soak 30m [--gateway PATH]

  --peers LIST     of nginx,nginx-lua,haproxy,envoy,vllm-router,sglang-router,litellm (default: all of them).
                   The gateway itself is always there, as `sluicegate` (bench/tenancy.toml: everything on);
                   `sluicegate-plain` adds it without keys, slots and queue (bench/one-core.toml).
                   A peer that is not installed is named in the output.
  --tests LIST     of c1,small,big,stream,open,many,threads (default: all of them)
                     c1       one request at a time: latency
                     small    1 KB requests, 64 connections: CPU
                     big      100 KB requests, 32 connections: CPU
                     stream   2,000 streams of 25 tokens/s: CPU of a chunk at 50,000/s
                     open     2,000 streams of 50 tokens/s with 100 KB prompts: memory, stream time
                     many     10,000 open streams with 100 KB prompts: memory, stream time
                     threads  two data-plane threads beside one (needs four cores; only the gateway)
  --rounds N       interleaved rounds (default 3); figures are medians, with minimum and maximum
  --quick          one short round: to see that all works, not to quote
  --install        installs missing peers: by apt-get (as root), and by pip into a folder of their own
  --markdown FILE  the table; without it the table is printed
  --json FILE      everything that was measured, and with what
  --plot FILE.svg  the ratios as a picture
  --write          puts the table between its markers in docs/performance.md and README.md
  --gateway PATH   a built gateway; without it `cargo build --release` makes one
  --soak TIME      the gateway alone under mixed load for so long (30m, 2h): memory over time and its slope

The candidate runs on core 0, load and replica on core 1, as real-time processes where that is allowed (root), so that
other work on the machine does not count. SLUICEGATE_BENCH names the folder for peers installed by pip
(default ~/.cache/sluicegate-bench). Linux only: CPU is read from the scheduler's own accounting.
";

/// Builds what is measured and what measures, runs, and tells.
pub(crate) fn command(root: &Path, words: &[&str]) -> Result<()> {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        return print_help(HELP);
    }
    let arguments = Arguments::parse(words).with_context(|| "see cargo xtask bench --help")?;
    let machine = Machine::look()?;
    for remark in machine.remarks() {
        println!("note: {remark}");
    }
    let gateway = match &arguments.gateway {
        Some(path) => fs::canonicalize(path).with_context(|| format!("no gateway at {}", path.display()))?,
        None => build_gateway(root)?,
    };
    let instrument = build_instrument(root)?;
    let bench = Bench::new(root, &machine, gateway, instrument)?;
    let outcome = match arguments.soak {
        Some(seconds) => soak::run(&bench, seconds, arguments.json.as_deref()),
        None => side_by_side(&bench, &arguments),
    };
    bench.clean();
    outcome
}

fn side_by_side(bench: &Bench, arguments: &Arguments) -> Result<()> {
    let failures = if arguments.install { install::all(&arguments.peers) } else { Vec::new() };
    let mut results = Results::new(bench.machine, arguments.command_line());
    results.remarks.extend(failures);
    let mut present: Vec<&Peer> = Vec::new();
    for peer in &arguments.peers {
        match bench.version_of(peer) {
            Ok(version) => {
                println!("{}: {version}", peer.name);
                results.versions.push((peer.name.to_owned(), version));
                present.push(peer);
            }
            Err(why) => {
                println!("{}: MISSING, {why:#}", peer.name);
                results.missing.push((peer.name.to_owned(), format!("{why:#}")));
            }
        }
    }
    measure::rounds(bench, arguments, &present, &mut results);
    if arguments.threads {
        results.threads = Some(threads::run(bench, arguments.quick));
    }
    tell(bench.root, arguments, &results)
}

fn tell(root: &Path, arguments: &Arguments, results: &Results) -> Result<()> {
    let text = markdown::page(results);
    match &arguments.markdown {
        Some(file) => fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?,
        None => println!("\n{text}"),
    }
    if let Some(file) = &arguments.json {
        let json = serde_json::to_string_pretty(&results.to_json())?;
        fs::write(file, json + "\n").with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(file) = &arguments.plot {
        fs::write(file, plot::svg(results)).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.write {
        publish::write(root, results)?;
    }
    Ok(())
}

fn build_gateway(root: &Path) -> Result<PathBuf> {
    let mut build = cargo(root);
    build.args(["build", "--release", "--locked", "-p", "sluicegate"]);
    run(build)?;
    Ok(target(root).join("release/sluicegate"))
}

/// Its target folder is apart, so that the two builds do not throw out each other's libraries.
fn build_instrument(root: &Path) -> Result<PathBuf> {
    let mut build = cargo(root);
    let target = target(root).join("instrument");
    build.args(["build", "--release", "--locked", "--manifest-path", "bench/instrument/Cargo.toml"]);
    build.env("CARGO_TARGET_DIR", &target);
    run(build)?;
    Ok(target.join("release/instrument"))
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |folder| root.join(folder))
}
