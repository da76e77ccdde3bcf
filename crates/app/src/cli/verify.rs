//! `sluicegate verify`: the promises, put to the test.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;
use sluicegate_lab::scenario::{Chooser, Rule, Scenario};

use super::{Failure, print};
use crate::config::{Config, Overrides};
use crate::verify::{self, Plan, Verdict};

/// Options of `verify`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct VerifyArgs {
    /// Write one JSON object in the place of the table
    #[arg(long)]
    json: bool,
    /// Only these promises, as in G7,G9
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    only: Vec<String>,
    /// Only in this mode [adaptive, predictive, consistent]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<Chooser>,
    /// Decides what is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Scenarios from this folder in the place of those of the binary
    #[arg(long, value_name = "DIR")]
    scenarios: Option<PathBuf>,
    /// Switch one rule off, to see which promises need it
    #[arg(long, value_name = "RULE", value_parser = rule)]
    without: Option<Rule>,
    /// Put those promises to the test that make sense in front of real engines, through a gateway started for it
    #[arg(long, value_name = "URL", num_args = 1.., conflicts_with_all = ["mode", "seed", "scenarios", "without"])]
    live: Vec<String>,
}

const HELP: &str = "\
Each promise is a scenario: simulated replicas, traffic and faults, and the range that what is
measured must lie in. Most run in virtual time, on the code that decides in `serve`; the others go
through a whole gateway in this process, and their rows say so. Nothing is sent anywhere else, and
the same seed measures the same. A promise that nothing runs yet is pending, never passed.

--live starts a gateway in this process before the engines at the URLs, two or more, and sends them
some 150 small requests: G2, G7, G9, G13 and G17. Nothing is killed and nobody flooded; the engines
should have nothing else to do.

Rules for --without:  affinity, load, yielding, weights, cooldown, probing, pin-lifetime, retries,
                      poison-guard, fairness

Examples:
  sluicegate verify                                every promise in every mode
  sluicegate verify --only G7,G9 --mode predictive
  sluicegate verify --only G7 --without affinity   shows that the scenario notices: it fails
  sluicegate verify --scenarios ./my-scenarios     files as docs/verify.md describes them
  sluicegate verify --live http://10.0.0.11:8000 http://10.0.0.12:8000
  sluicegate verify --json | jq '.rows[] | select(.verdict == \"fail\")'

Exit codes: 0 all passed (or pending), 1 a promise failed, 2 error in a scenario or the command line.";

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let scenarios = match &args.scenarios {
        None => verify::builtin().map_err(anyhow::Error::from),
        Some(folder) => verify::from_folder(folder),
    };
    let scenarios = only(scenarios.map_err(Failure::Usage)?, &args.only)?;
    let rows = match args.live.as_slice() {
        [] => {
            let plan = Plan { scenarios: &scenarios, mode: args.mode, off: args.without, seed: args.seed };
            verify::run_all(&plan)
        }
        urls => live(urls, &args.only, &scenarios)?,
    };
    match args.json {
        true => print(&verify::json(&rows, args.seed, args.without))?,
        false => print(&verify::table(&rows))?,
    }
    match rows.iter().filter(|row| row.verdict == Verdict::Fail).count() {
        0 => Ok(()),
        failed => Err(Failure::running(anyhow::anyhow!("{failed} of {} rows failed", rows.len()))),
    }
}

fn live(urls: &[String], only: &[String], known: &[Scenario]) -> Result<Vec<verify::Row>, Failure> {
    let promises = verify::live_promises(only).map_err(Failure::Usage)?;
    if urls.len() < 2 {
        let error = "--live needs two URLs or more: with one replica there is nothing to choose";
        return Err(Failure::Usage(anyhow::anyhow!(error)));
    }
    let any_port = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    let overrides = Overrides {
        replicas: urls.to_vec(),
        listen: any_port,
        admin: any_port,
        usage: Some("off".into()),
        ..Overrides::default()
    };
    let loaded = Config::load(None, &overrides).map_err(Failure::Configuration)?;
    verify::run_live(loaded, &promises, known).map_err(Failure::running)
}

fn only(scenarios: Vec<Scenario>, ids: &[String]) -> Result<Vec<Scenario>, Failure> {
    let is = |scenario: &Scenario, id: &String| scenario.id.eq_ignore_ascii_case(id);
    if let Some(unknown) = ids.iter().find(|id| !scenarios.iter().any(|scenario| is(scenario, id))) {
        let mut known: Vec<&str> = scenarios.iter().map(|scenario| scenario.id.as_str()).collect();
        known.dedup();
        let known = known.join(", ");
        return Err(Failure::Usage(anyhow::anyhow!("--only: no promise is {unknown:?}; there are: {known}")));
    }
    let asked = |scenario: &Scenario| ids.is_empty() || ids.iter().any(|id| is(scenario, id));
    Ok(scenarios.into_iter().filter(asked).collect())
}

fn mode(name: &str) -> Result<Chooser, String> {
    let known = Chooser::ALL.map(Chooser::name).join(", ");
    Chooser::ALL.into_iter().find(|mode| mode.name() == name).ok_or(format!("expected one of: {known}"))
}

fn rule(name: &str) -> Result<Rule, String> {
    let known = Rule::ALL.map(Rule::name).join(", ");
    Rule::ALL.into_iter().find(|rule| rule.name() == name).ok_or(format!("expected one of: {known}"))
}
