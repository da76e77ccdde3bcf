//! What a second data-plane thread brings: nearly twice as many requests. Only the gateway, and only where there are
//! cores for two loads as well.

use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::candidate::Running;
use super::measure::{Bench, read_report, report};
use super::peers::{GATEWAY, find};

/// Two for the gateway, two for loads and replicas.
const CORES: usize = 4;
const ONE_THREAD: &str = "threads = 1";

/// Requests a second with one and with two threads. The error is a sentence for the reader.
pub(super) fn run(bench: &Bench, quick: bool) -> Result<Value, String> {
    if bench.machine.cores < CORES {
        return Err(format!("that needs {CORES} cores and this machine has {}", bench.machine.cores));
    }
    let seconds = if quick { 1.0 } else { 2.5 };
    let both = throughput(bench, 1, seconds).and_then(|one| Ok((one, throughput(bench, 2, seconds)?)));
    let (one, two) = both.map_err(|error| format!("{error:#}"))?;
    let told = format!("{:.2} times as many requests a second as one", two / one);
    Ok(json!({ "one": one, "two": two, "told": told }))
}

/// Requests a second that two loads get, each on a core with a replica of its own.
fn throughput(bench: &Bench, threads: u32, seconds: f64) -> Result<f64> {
    let (_first, one) = bench.replica("2", 1.0, 0.0)?;
    let (_second, two) = bench.replica("3", 1.0, 0.0)?;
    let (candidate, port) = gateway(bench, threads, [one, two])?;
    let words =
        ["--connections", "64", "--body", "1024", "--seconds", &seconds.to_string()].map(String::from);
    let load = |core| bench.load(core, port, candidate.pid(), &words, seconds);
    let mut second = load("3");
    let second = second.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (a, b) = (report(load("2")), read_report(&second.wait_with_output()?));
    let rate = |report: Value| report["requests_per_second"].as_f64().unwrap_or(0.0);
    Ok(rate(a?) + rate(b?))
}

/// The gateway with so many threads and two replicas, on as many cores.
fn gateway(bench: &Bench, threads: u32, replicas: [u16; 2]) -> Result<(Running, u16)> {
    let peer = find(GATEWAY).context("the gateway is a candidate")?;
    let file = bench.root.join("bench").join(peer.config.unwrap_or_default());
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let [one, two] = replicas;
    if !text.contains(ONE_THREAD) || !text.contains("\"http://127.0.0.1:8000\"") {
        bail!("{} is not as expected: `{ONE_THREAD}`, one replica", file.display());
    }
    let text = text.replace(ONE_THREAD, &format!("threads = {threads}")).replace(
        "\"http://127.0.0.1:8000\"",
        &format!("\"http://127.0.0.1:{one}\", \"http://127.0.0.1:{two}\""),
    );
    let cores = if threads == 1 { "0" } else { "0,1" };
    bench.candidate_with(peer, &text, cores, one, 0.0)
}
