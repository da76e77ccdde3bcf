//! `sluicegate replay`: recorded traffic through simulated replicas, under one policy after the other.

use std::borrow::Cow;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fleet::{Decider, Job, Settings};
use sluicegate_lab::replay::{Apart, Hardship, Policy, at_speed, capacity, settings};
use sluicegate_proxy::plan::Plan;

use super::{Failure, print, tell};
use crate::config::{Config, Overrides};
use crate::replay::{self, Contestant, Facts, PolicyRun, Recorded};
use crate::usage_sums::plain;

/// Options of `replay`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct ReplayArgs {
    /// A Mooncake trace (JSON lines), an Azure LLM trace (CSV), or a usage log; gzip where it ends in .gz
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Simulated replicas
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1024))]
    replicas: u16,
    /// A policy, or `all`; may be repeated
    #[arg(long = "policy", value_name = "POLICY", default_values = ["round-robin", "least-connections", "adaptive"])]
    policies: Vec<String>,
    /// Scale arrivals to this part of what round robin can just keep up with: 0.7 is 70 % of its capacity
    #[arg(long, value_name = "PART", value_parser = positive)]
    load: Option<f64>,
    /// Let requests arrive so many times as fast as recorded
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = positive, conflicts_with = "load")]
    speed: f64,
    /// Read only so many requests
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// What each replica can do
    #[arg(long, default_value = "h100", value_parser = Profile::NAMES)]
    profile: String,
    /// Slots that policies with slots take for known [default: what the engine runs at once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,
    #[command(flatten)]
    hardship: HardshipArgs,
    /// Decides what is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let this configuration decide, with its pools, replicas, slots and settings, in the place of policies
    #[arg(long, value_name = "FILE", conflicts_with_all = ["policies", "replicas", "slots", "load"])]
    config: Option<PathBuf>,
    /// Write one JSON object in the place of the table
    #[arg(long)]
    json: bool,
    /// Write the table and plots as one HTML page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Policies that run at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
}

/// What makes choosing harder.
#[derive(Debug, Args)]
#[command(next_help_heading = "What makes it harder")]
struct HardshipArgs {
    /// Gateways that share nothing; each request comes through one of them by chance
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "config")]
    gateways: u16,
    /// Part of the requests that others send to the replicas in turn, past the gateway
    #[arg(long, value_name = "PART", default_value_t = 0.0, value_parser = part, conflicts_with = "config")]
    foreign: f64,
    /// How far off prompt sizes are estimated: standard deviation of their logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, value_parser = part, conflicts_with = "config")]
    size_noise: f64,
    /// What engines say of the size of their caches, in true sizes
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = positive, conflicts_with = "config")]
    cache_told: f64,
    /// So many of the replicas are slow
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "config")]
    slow_replicas: u16,
    /// How many times as long a slow replica takes
    #[arg(long, value_name = "TIMES", default_value_t = 2.0, value_parser = positive)]
    slowness: f64,
}

impl HardshipArgs {
    fn hardship(&self) -> Hardship {
        Hardship {
            gateways: self.gateways.into(),
            foreign: self.foreign,
            size_noise: self.size_noise,
            cache_told: self.cache_told,
        }
    }

    /// What of it is not the default, in words.
    fn in_words(&self) -> Option<String> {
        let mut words = Vec::new();
        if self.gateways > 1 {
            words.push(format!("{} gateways", self.gateways));
        }
        if self.foreign > 0.0 {
            words.push(format!("{:.0} % of the requests from elsewhere", self.foreign * 100.0));
        }
        if self.size_noise > 0.0 {
            words.push(format!("sizes off by {}", self.size_noise));
        }
        if self.cache_told != 1.0 {
            words.push(format!("caches told to be {} times as large", self.cache_told));
        }
        if self.slow_replicas > 0 {
            words.push(format!("{} replicas {} times as slow", self.slow_replicas, self.slowness));
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

const HELP: &str = "\
The same requests go through the same simulated fleet under each policy, in virtual time: an hour
takes seconds. Nothing is sent anywhere, and the same command prints the same numbers.

Policies, ours:    adaptive, adaptive-weight, adaptive-slots, adaptive-weight-slots,
                   adaptive-no-pins, consistent, consistent-engine, predictive, predictive-slots
         others:   round-robin, random, least-connections, power-of-two, session-hash,
                   bounded-hash, cache-aware, scorers, scorers-fresh, overlap, product,
                   least-prefill
         the bar:  oracle, which sees into every replica's cache and queue

Columns: TTFT is from arrival to first byte, E2E to the last byte, both in seconds; hit % is the
part of prompt tokens that came from a replica's cache; imbalance is the most minus the fewest open
requests of the replicas; queued is the mean wait for a slot; failed are requests without a whole
answer.

Examples:
  sluicegate replay usage.jsonl --replicas 8 --policy adaptive --policy round-robin
  sluicegate replay usage.jsonl --replicas 6 --policy all --html replay.html
  sluicegate replay trace.jsonl.gz --replicas 8 --policy all --load 0.7 --json
  sluicegate replay usage.jsonl --config changed.toml

With --config each pool of the file is a row: the requests whose routes lead there, its replicas
simulated, with the file's mode, slots, queue, retries, limits and settings.";

pub(super) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let policies = policies(&args.policies)?;
    let plan = match &args.config {
        Some(path) => {
            Some(Config::load(Some(path), &Overrides::default()).map_err(Failure::Configuration)?.plan)
        }
        None => None,
    };
    let profile = Profile::named(&args.profile).unwrap_or_default();
    let limit = args.limit.unwrap_or(usize::MAX);
    let trace = replay::read(&args.trace, limit, profile.block_tokens).map_err(Failure::Usage)?;
    if let Some(first) = trace.bad.first() {
        // The message may quote the line, which may be anything.
        let first = plain(first);
        tell(format_args!("note: {} lines are no requests; the first: {first}\n", trace.bad.len()));
    }
    let equal = settings(usize::from(args.replicas), profile);
    let jobs = trace.jobs();
    let speed = match args.load {
        None => args.speed,
        Some(load) => load * capacity(&equal, &jobs).speed,
    };
    let HardshipArgs { slow_replicas, slowness, .. } = args.hardship;
    let settings = Settings { slow_replicas: slow_replicas.into(), slowness, ..equal };
    let jobs = at_speed(&jobs, speed);
    let contestants = match &plan {
        Some(plan) => configured(args, plan, &settings.profile, &trace.requests)?,
        None => policies.into_iter().map(|policy| contestant(args, policy, &settings, &jobs)).collect(),
    };
    let facts = facts(args, trace.form, speed, &jobs, &contestants);
    let runs = replay::run_all(contestants, args.threads);
    show(args, &facts, &runs)
}

fn show(args: &ReplayArgs, facts: &Facts, runs: &[PolicyRun]) -> Result<(), Failure> {
    if let Some(path) = &args.html {
        let page = replay::html(facts, runs).map_err(Failure::running)?;
        let written = std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()));
        written.map_err(Failure::running)?;
    }
    if args.json {
        return print(&replay::json(facts, runs).map_err(Failure::running)?);
    }
    print(&format!("{}\n\n{}", plain(&facts.line()), replay::table(runs)))
}

fn contestant<'a>(args: &ReplayArgs, policy: Policy, settings: &Settings, jobs: &'a [Job]) -> Contestant<'a> {
    let slots = args.slots.unwrap_or(settings.profile.max_num_seqs);
    Contestant {
        name: policy.name().into(),
        settings: settings.clone(),
        decider: decider(args, policy, settings, slots),
        jobs: Cow::Borrowed(jobs),
    }
}

fn decider(args: &ReplayArgs, policy: Policy, settings: &Settings, slots: u32) -> Box<dyn Decider + Send> {
    let mut hardship = args.hardship.hardship();
    if policy == Policy::Oracle {
        // It knows the sizes.
        hardship.size_noise = 0.0;
    }
    if hardship == Hardship::default() {
        return policy.decider(settings, slots, args.seed);
    }
    let one = |seed| policy.decider(settings, slots, seed);
    Box::new(Apart::new(hardship, settings.replicas, args.seed, one))
}

fn configured(
    args: &ReplayArgs,
    plan: &Plan,
    profile: &Profile,
    requests: &[Recorded],
) -> Result<Vec<Contestant<'static>>, Failure> {
    let (contestants, lost) =
        replay::configured(plan, profile, requests, args.speed, args.seed).map_err(Failure::running)?;
    if lost > 0 {
        tell(format_args!(
            "note: {lost} of {} requests are left out: their route is not in the configuration, or its targets are in \
             several pools or hosted\n",
            requests.len()
        ));
    }
    Ok(contestants)
}

fn facts(args: &ReplayArgs, form: &'static str, speed: f64, jobs: &[Job], all: &[Contestant<'_>]) -> Facts {
    let times = || jobs.iter().map(|job| job.arrives);
    let span = times().max().unwrap_or_default().since(times().min().unwrap_or_default());
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let replicas = || all.iter().map(|one| one.settings.replicas);
    Facts {
        trace: name(&args.trace),
        form,
        requests: jobs.len(),
        config: args.config.as_ref().map(name),
        replicas: if args.config.is_some() { replicas().sum() } else { args.replicas.into() },
        profile: args.profile.clone(),
        speed,
        requests_per_second: jobs.len() as f64 / span.as_secs_f64().max(1.0),
        load: args.load,
        seed: args.seed,
        hardship: args.hardship.in_words(),
    }
}

fn policies(names: &[String]) -> Result<Vec<Policy>, Failure> {
    let mut policies = Vec::new();
    for name in names {
        if name == "all" {
            policies.extend(Policy::ALL);
            continue;
        }
        let policy = name.parse::<Policy>().map_err(|unknown| {
            let known = Policy::ALL.map(Policy::name).join(", ");
            Failure::Usage(anyhow::anyhow!("--policy: {unknown}; there are: all, {known}"))
        })?;
        policies.push(policy);
    }
    Ok(policies)
}

fn part(text: &str) -> Result<f64, &'static str> {
    let number: f64 = text.parse().map_err(|_| "expected a number from 0 to 1")?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err("expected a number from 0 to 1") }
}

fn positive(text: &str) -> Result<f64, &'static str> {
    let number: f64 = text.parse().map_err(|_| "expected a number above 0")?;
    if number.is_finite() && number > 0.0 { Ok(number) } else { Err("expected a number above 0") }
}
