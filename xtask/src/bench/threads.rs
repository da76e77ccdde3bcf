//! What a second data-plane thread brings: nearly twice as many requests. Only the gateway. Where there are cores for
//! the loads as well it is seen; else a request's CPU with one thread and with two tells, since threads that get into
//! each other's way spend more of it.

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

/// What two loads got and what it cost the gateway.
struct Taken {
    requests_per_second: f64,
    /// Microseconds of CPU of all the gateway's threads.
    cpu_per_request: f64,
}

/// One thread beside two. The error is a sentence for the reader.
pub(super) fn run(bench: &Bench, quick: bool) -> Result<Value, String> {
    let own_cores = bench.machine.cores >= CORES;
    let loads = if own_cores { ["2", "3"] } else { ["0", "1"] };
    let seconds = if quick { 1.0 } else { 2.5 };
    let both = take(bench, 1, loads, seconds).and_then(|one| Ok((one, take(bench, 2, loads, seconds)?)));
    let (one, two) = both.map_err(|error| format!("{error:#}"))?;
    let told = if own_cores {
        let times = two.requests_per_second / one.requests_per_second;
        format!("{times:.2} times as many requests a second as one")
    } else {
        let cost = two.cpu_per_request / one.cpu_per_request;
        format!(
            "a request costs {cost:.2} times the CPU that it costs with one, so two cores carry {:.2} times as many; \
             reckoned, since loads that do not share the gateway's cores need {CORES} and this machine has {}",
            2.0 / cost,
            bench.machine.cores
        )
    };
    Ok(json!({ "one": one.to_json(), "two": two.to_json(), "told": told }))
}

impl Taken {
    fn to_json(&self) -> Value {
        json!({ "requests_per_second": self.requests_per_second, "cpu_us_per_request": self.cpu_per_request })
    }
}

/// Two loads, each on a core with a replica of its own.
fn take(bench: &Bench, threads: u32, cores: [&str; 2], seconds: f64) -> Result<Taken> {
    let (_first, one) = bench.replica(cores[0], 1.0, 0.0)?;
    let (_second, two) = bench.replica(cores[1], 1.0, 0.0)?;
    let (candidate, port) = gateway(bench, threads, [one, two])?;
    let words =
        ["--connections", "64", "--body", "1024", "--seconds", &seconds.to_string()].map(String::from);
    let load = |core| bench.load(core, port, candidate.pid(), &words, seconds);
    let mut second = load(cores[1]);
    let second = second.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (a, b) = (report(load(cores[0]))?, read_report(&second.wait_with_output()?)?);
    let number = |report: &Value, name: &str| report[name].as_f64().unwrap_or(0.0);
    let rates = [&a, &b].map(|report| number(report, "requests_per_second"));
    let requests_per_second = rates[0] + rates[1];
    // Each load sees the CPU that the gateway spends on both.
    let shares = [&a, &b].map(|report| number(report, "cpu_share"));
    let cpu_per_request = 1e6 * (shares[0] + shares[1]) / 2.0 / requests_per_second;
    Ok(Taken { requests_per_second, cpu_per_request })
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
