//! What the machine allows, and whether it is quiet.

use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

/// One core for the candidate, one for the load.
const CORES: usize = 2;
/// Open streams of the test with the most.
pub(super) const MANY: u32 = 10_000;
/// Files beside the sockets of open streams: logs, listeners, kept-alive connections, streams that just end.
const SPARE_FILES: u32 = 200;
/// No test needs more.
const ENOUGH_FILES: u32 = 65_536;
/// Load average above which other work is said to be there.
const BUSY: f64 = 0.5;

/// The machine as it is at the start of a run.
pub(super) struct Machine {
    pub(super) cores: usize,
    pub(super) processor: String,
    pub(super) kernel: String,
    /// Real-time processes may be started.
    pub(super) realtime: bool,
    /// Files and sockets that a process may have open.
    pub(super) open_files: u32,
    /// Of the last minute.
    pub(super) load: f64,
}

impl Machine {
    /// Errors: fewer than two cores, or not Linux.
    pub(super) fn look() -> Result<Self> {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cores = info.lines().filter(|line| line.starts_with("processor")).count();
        if cores < CORES {
            bail!("a side-by-side run needs Linux and two cores; found {cores}");
        }
        let line = |name: &str| info.lines().find(|line| line.starts_with(name));
        let processor = line("model name").and_then(|line| line.split_once(": "));
        let first_word = |file: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.split_whitespace().next().unwrap_or_default().to_owned()
        };
        Ok(Self {
            cores,
            processor: processor.map_or("unknown", |(_, name)| name).to_owned(),
            kernel: first_word("/proc/sys/kernel/osrelease"),
            realtime: realtime_is_allowed(),
            open_files: open_files(),
            load: first_word("/proc/loadavg").parse().unwrap_or(0.0),
        })
    }

    /// Open streams that fit: each is two sockets of the candidate.
    pub(super) fn most_streams(&self) -> u32 {
        self.open_files.saturating_sub(SPARE_FILES) / 2
    }

    /// What a reader of the figures should know.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.realtime {
            remarks.push("no real-time class (not root): other work on the machine counts".to_owned());
        }
        if self.load > BUSY {
            let shielded =
                if self.realtime { "; the real-time class shields the measurement from it" } else { "" };
            remarks
                .push(format!("the machine did other work as well, load average {:.1}{shielded}", self.load));
        }
        if self.most_streams() < MANY {
            remarks.push(format!(
                "a process may have {} files open here (`ulimit -Hn`): {} streams instead of {MANY}",
                self.open_files,
                self.most_streams()
            ));
        }
        remarks
    }
}

/// The hard limit: what a process may set for itself.
fn open_files() -> u32 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files"));
    let hard = line.and_then(|line| line.split_whitespace().nth(4));
    hard.and_then(|hard| hard.parse().ok()).unwrap_or(1024).min(ENOUGH_FILES)
}

fn realtime_is_allowed() -> bool {
    let mut probe = Command::new("chrt");
    probe.args(["--rr", "10", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}
