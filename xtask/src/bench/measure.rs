//! One measurement after another: each candidate is started fresh for each test, rounds are interleaved.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::arguments::Arguments;
use super::candidate::{Running, free_port, pinned, program, words};
use super::machine::Machine;
use super::peers::{Peer, Source};
use super::results::{Results, Sample};
use super::workloads::Workload;

/// The candidate's core; load and replica share the next one.
const CANDIDATE_CORE: &str = "0";
pub(super) const LOAD_CORE: &str = "1";
/// Seconds that a load may take beyond what it was asked for.
const PATIENCE: f64 = 60.0;
/// Looks at a candidate until it answers, and seconds that each takes at most: the slowest imports for a while.
const LOOKS: u32 = 60;
const LOOK: &str = "2";

/// What measures, and what is measured.
pub(super) struct Bench<'a> {
    pub(super) root: &'a Path,
    pub(super) machine: &'a Machine,
    pub(super) gateway: PathBuf,
    pub(super) instrument: PathBuf,
    /// Scratch files, in memory where there is such a place.
    pub(super) run: PathBuf,
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        root: &'a Path,
        machine: &'a Machine,
        gateway: PathBuf,
        instrument: PathBuf,
    ) -> Result<Self> {
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let run = folder.join(format!("sluicegate-bench-{}", std::process::id()));
        fs::create_dir_all(&run).with_context(|| format!("cannot make {}", run.display()))?;
        // Workers of nginx give up root.
        fs::set_permissions(&run, fs::Permissions::from_mode(0o777))?;
        Ok(Self { root, machine, gateway, instrument, run })
    }

    /// Removes the scratch files; what cannot be removed does no harm.
    pub(super) fn clean(&self) {
        let _removed = fs::remove_dir_all(&self.run);
    }

    /// What a candidate says of its version. Errors: it is not there.
    pub(super) fn version_of(&self, peer: &Peer) -> Result<String> {
        let program = program(self, peer)?;
        if let (Source::Pip { version, .. }, []) = (&peer.source, peer.version) {
            return Ok((*version).to_owned());
        }
        let output = Command::new(program).args(peer.version).output()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let word =
            text.split([' ', '/', '\n']).find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
        Ok(word.context("it does not tell its version")?.to_owned())
    }

    /// A replica on its own core, ready.
    pub(super) fn replica(&self, core: &str, tokens_per_second: f64, longer: f64) -> Result<(Running, u16)> {
        let port = free_port()?;
        let words = [
            self.instrument.display().to_string(),
            "replica".to_owned(),
            "--listen".to_owned(),
            format!("127.0.0.1:{port}"),
            "--tokens-per-second".to_owned(),
            tokens_per_second.to_string(),
        ];
        let mut running = Running::start(self, core, &words, &self.run.join("replica.log"), longer)?;
        self.ready(&mut running, port)?;
        Ok((running, port))
    }

    /// A candidate that answers.
    pub(super) fn candidate(
        &self,
        peer: &Peer,
        cores: &str,
        replica: u16,
        longer: f64,
    ) -> Result<(Running, u16)> {
        let text = match peer.config {
            None => String::new(),
            Some(name) => {
                let file = self.root.join("bench").join(name);
                fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?
            }
        };
        self.candidate_with(peer, &text, cores, replica, longer)
    }

    /// A candidate with another configuration than its usual one.
    pub(super) fn candidate_with(
        &self,
        peer: &Peer,
        config: &str,
        cores: &str,
        replica: u16,
        longer: f64,
    ) -> Result<(Running, u16)> {
        let port = free_port()?;
        let words = words(self, peer, config, port, replica)?;
        let log = self.run.join(format!("{}.log", peer.name));
        let mut running = Running::start(self, cores, &words, &log, longer)?;
        self.ready(&mut running, port).with_context(|| last_lines(&log))?;
        Ok((running, port))
    }

    /// Waits until it answers. Errors: it has ended, or the time is up.
    fn ready(&self, running: &mut Running, port: u16) -> Result<()> {
        let mut last = String::new();
        for _ in 0..LOOKS {
            let mut command = Command::new(&self.instrument);
            command.args(["ready", "--within", LOOK, "--to"]).arg(format!("127.0.0.1:{port}"));
            let output = command.env("RUST_BACKTRACE", "0").output()?;
            running.check()?;
            if output.status.success() {
                return Ok(());
            }
            last = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        }
        bail!("not ready: {last}")
    }

    /// The load as a command on its core.
    pub(super) fn load(&self, core: &str, port: u16, pid: u32, words: &[String], seconds: f64) -> Command {
        let mut command = pinned(self, core, seconds + PATIENCE);
        command.arg(&self.instrument).args(["load", "--to"]).arg(format!("127.0.0.1:{port}"));
        command.arg("--pid").arg(pid.to_string()).args(words);
        command
    }

    fn measure(&self, peer: &Peer, workload: &Workload, quick: bool) -> Result<Value> {
        let (_replica, upstream) = self.replica(LOAD_CORE, workload.tokens_per_second, 0.0)?;
        let (mut candidate, port) = self.candidate(peer, CANDIDATE_CORE, upstream, 0.0)?;
        if workload.tokens > 0 {
            // Idle memory is memory after some work.
            let words = ["--connections", "16", "--warm", "0.1", "--seconds", "0.3"].map(String::from);
            report(self.load(LOAD_CORE, port, candidate.pid(), &words, 1.0))?;
        }
        let words = workload.words(quick, self.machine.most_streams());
        let report = report(self.load(LOAD_CORE, port, candidate.pid(), &words, 60.0))?;
        candidate.check()?;
        Ok(report)
    }
}

/// Runs a load and reads its report.
pub(super) fn report(mut load: Command) -> Result<Value> {
    read_report(&load.output().context("cannot start the load")?)
}

/// The report of a load that has ended. Errors: it failed.
pub(super) fn read_report(output: &Output) -> Result<Value> {
    if !output.status.success() {
        bail!("the load failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    serde_json::from_slice(&output.stdout).context("the load's report is not readable")
}

/// All rounds. A measurement that fails is told and kept as a failure; the others go on.
pub(super) fn rounds(bench: &Bench, arguments: &Arguments, peers: &[&Peer], results: &mut Results) {
    let all = arguments.rounds * arguments.workloads.len() * peers.len();
    let begun = Instant::now();
    for round in 0..arguments.rounds {
        for workload in &arguments.workloads {
            for peer in peers {
                let outcome = bench.measure(peer, workload, arguments.quick);
                let sample = Sample {
                    candidate: peer.name.to_owned(),
                    workload: workload.name.to_owned(),
                    round,
                    outcome: outcome.map_err(|error| format!("{error:#}")),
                };
                let done = results.samples.len() + 1;
                let left = begun.elapsed().as_secs_f64() / done as f64 * (all - done) as f64 / 60.0;
                println!("[{done}/{all}, {left:.0} min left] {}", sample.line());
                results.samples.push(sample);
            }
        }
    }
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).rev().take(2).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
