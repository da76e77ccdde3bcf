//! What the command line asks for.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::peers::{GATEWAY, PEERS, Peer, find};
use super::workloads::{WORKLOADS, Workload};

const THREADS: &str = "threads";

/// A whole run, as asked for.
pub(super) struct Arguments {
    /// The gateway is the last one.
    pub(super) peers: Vec<&'static Peer>,
    pub(super) workloads: Vec<&'static Workload>,
    pub(super) threads: bool,
    pub(super) rounds: usize,
    pub(super) quick: bool,
    pub(super) install: bool,
    pub(super) write: bool,
    pub(super) markdown: Option<PathBuf>,
    pub(super) json: Option<PathBuf>,
    pub(super) plot: Option<PathBuf>,
    pub(super) gateway: Option<PathBuf>,
    /// Seconds.
    pub(super) soak: Option<f64>,
}

impl Arguments {
    /// Errors: a word that is not known, a value that is missing or makes no sense.
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut arguments = Self {
            peers: PEERS.iter().filter(|peer| peer.usual).collect(),
            workloads: WORKLOADS.iter().collect(),
            threads: true,
            rounds: 3,
            quick: false,
            install: false,
            write: false,
            markdown: None,
            json: None,
            plot: None,
            gateway: None,
            soak: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().copied().with_context(|| format!("`{word}` needs a value"));
            match word {
                "--peers" => arguments.peers = peers(value()?)?,
                "--tests" => (arguments.workloads, arguments.threads) = workloads(value()?)?,
                "--rounds" => arguments.rounds = value()?.parse().context("--rounds needs a number")?,
                "--quick" => (arguments.quick, arguments.rounds) = (true, 1),
                "--install" => arguments.install = true,
                "--write" => arguments.write = true,
                "--markdown" => arguments.markdown = Some(value()?.into()),
                "--json" => arguments.json = Some(value()?.into()),
                "--plot" => arguments.plot = Some(value()?.into()),
                "--gateway" => arguments.gateway = Some(value()?.into()),
                "--soak" => arguments.soak = Some(seconds(value()?)?),
                _ => bail!("unknown argument `{word}`"),
            }
        }
        if arguments.write && arguments.quick {
            bail!("a quick run is not to be quoted: --write without --quick");
        }
        Ok(arguments)
    }

    /// The command that repeats the run, files left out.
    pub(super) fn command_line(&self) -> String {
        let names = |names: Vec<&str>| names.join(",");
        let peers =
            names(self.peers.iter().filter(|peer| peer.name != GATEWAY).map(|peer| peer.name).collect());
        let mut tests: Vec<&str> = self.workloads.iter().map(|workload| workload.name).collect();
        tests.extend(self.threads.then_some(THREADS));
        let quick = if self.quick { " --quick" } else { "" };
        format!("cargo xtask bench --peers {peers} --tests {} --rounds {}{quick}", names(tests), self.rounds)
    }
}

fn peers(list: &str) -> Result<Vec<&'static Peer>> {
    let mut peers = Vec::new();
    for name in list.split(',').filter(|name| *name != GATEWAY) {
        peers.push(find(name).with_context(|| format!("no peer is called `{name}`"))?);
    }
    peers.extend(find(GATEWAY));
    Ok(peers)
}

fn workloads(list: &str) -> Result<(Vec<&'static Workload>, bool)> {
    let mut workloads = Vec::new();
    for name in list.split(',').filter(|name| *name != THREADS) {
        let found = WORKLOADS.iter().find(|workload| workload.name == name);
        workloads.push(found.with_context(|| format!("no test is called `{name}`"))?);
    }
    Ok((workloads, list.split(',').any(|name| name == THREADS)))
}

fn seconds(text: &str) -> Result<f64> {
    let units = [("h", 3600.0), ("m", 60.0), ("s", 1.0)];
    let found = units.iter().find_map(|(unit, length)| Some((text.strip_suffix(unit)?, *length)));
    let (digits, length) = found.with_context(|| format!("`{text}` is no time: write 90s, 30m or 2h"))?;
    Ok(digits.parse::<f64>().with_context(|| format!("`{text}` is no time"))? * length)
}

#[cfg(test)]
mod tests {
    use super::{Arguments, seconds};

    #[test]
    fn the_gateway_is_always_measured_and_unknown_words_are_refused() {
        let arguments =
            Arguments::parse(&["--peers", "nginx", "--tests", "c1,threads"]).expect("it is known");
        let names: Vec<_> = arguments.peers.iter().map(|peer| peer.name).collect();
        assert_eq!(names, ["nginx", "sluicegate"]);
        assert!(arguments.threads && arguments.workloads.len() == 1);
        assert_eq!(arguments.command_line(), "cargo xtask bench --peers nginx --tests c1,threads --rounds 3");
        for words in [["--peers", "apache"], ["--tests", "large"], ["--soak", "30"], ["--fast", ""]] {
            assert!(Arguments::parse(&words).is_err(), "{words:?}");
        }
        assert!(Arguments::parse(&["--quick", "--write"]).is_err());
    }

    #[test]
    fn times_have_a_unit() {
        assert_eq!(seconds("30m").expect("a time"), 1800.0);
        assert!(seconds("m").is_err());
    }
}
