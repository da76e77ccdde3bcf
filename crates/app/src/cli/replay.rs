//! `sluicegate replay`: recorded traffic through simulated replicas, under one policy or configuration after the other.

mod configs;
mod hardship;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fleet::{Decider, Job, Settings};
use sluicegate_lab::replay::{Apart, Given, Hardship, Policy, at_speed, capacity, settings};

use super::profile_file::ProfileFile;
use super::{Failure, print, tell, times};
use crate::replay::{self, Contestant, Facts, FleetFacts, PolicyRun, Profiles, Trace};
use crate::usage_sums::plain;
use hardship::HardshipArgs;

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
    #[arg(long = "policy", value_name = "POLICY", default_values = ["round-robin", "least-connections", "adaptive", "predictive"])]
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
    /// What each replica can do: h100, 8b, fast, or a file from `sluicegate calibrate`; POOL=... is for one pool of the
    /// configurations, and may be repeated [default: h100]
    #[arg(long = "profile", value_name = "[POOL=]NAME|FILE")]
    profiles: Vec<String>,
    /// Slots that policies with slots take for known [default: what the engine runs at once]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    slots: Option<u32>,
    /// Prefill queued at every replica from which on `predictive-hold` has requests wait [default: 100ms]
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    hold: Option<Duration>,
    /// Decides what is left to chance
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Let this configuration decide, with its pools, replicas, routes and limits, in the place of policies; may be
    /// repeated: the first one is what the others are held against
    #[arg(long = "config", value_name = "FILE", conflicts_with_all = ["policies", "replicas", "slots", "hold", "load"])]
    configs: Vec<PathBuf>,
    /// The model of requests whose record names none, as Mooncake and Azure traces do not
    #[arg(long, value_name = "NAME", requires = "configs")]
    model: Option<String>,
    /// Write one JSON object in the place of the table
    #[arg(long)]
    json: bool,
    /// Write the table and plots as one HTML page, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Policies or configurations that run at the same time
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    #[command(flatten)]
    hardship: HardshipArgs,
}

const HELP: &str = "\
The same requests go through the same simulated fleet under each policy, in virtual time: an hour
takes seconds. Nothing is sent anywhere, and the same command prints the same numbers.

Policies, ours:    adaptive, adaptive-weight, adaptive-slots, adaptive-weight-slots,
                   adaptive-no-pins, consistent, consistent-engine, predictive, predictive-slots,
                   predictive-hold
         others:   round-robin, random, least-connections, power-of-two, session-hash,
                   bounded-hash, cache-aware, scorers, scorers-fresh, overlap, product,
                   least-prefill
         the bar:  oracle, which sees into every replica's cache and queue

Columns: TTFT is from arrival to first byte, E2E to the last byte, both in seconds; hit % is the
part of prompt tokens that came from a replica's cache; imbalance is the most minus the fewest open
requests of the replicas; queued is the mean wait in the gateway; failed are requests without a whole
answer.

Examples:
  sluicegate replay usage.jsonl --replicas 8 --policy predictive --policy round-robin
  sluicegate replay usage.jsonl --replicas 6 --policy all --html replay.html
  sluicegate replay trace.jsonl.gz --replicas 8 --policy all --load 0.7 --json
  sluicegate replay usage.jsonl --config sluicegate.toml --config changed.toml

With --config each request goes by its model to its route, and from there as `serve` would have it
go: mode, weights, policies, slots, queue, priorities, retries, fallback. The replicas are as many
as the file names. The table has the whole, each route and each pool, and for each configuration
after the first what changed, in per cent. refused are requests that found no place, fallback those
that ended at their route's fallback. What is not played or not known is said by name.";

pub(super) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let profiles = Profiles::of(&args.profiles, profile).map_err(Failure::Usage)?;
    if args.configs.is_empty() { run_policies(args, &profiles) } else { configs::run(args, &profiles) }
}

fn run_policies(args: &ReplayArgs, profiles: &Profiles) -> Result<(), Failure> {
    if let Some(pool) = profiles.pools().next() {
        let error = anyhow::anyhow!(
            "--profile {pool}=...: pools are those of a configuration, give one with --config"
        );
        return Err(Failure::Usage(error));
    }
    let policies = policies(&args.policies)?;
    let profile = &profiles.all().profile;
    let trace = read(args, profile.block_tokens)?;
    let equal = settings(usize::from(args.replicas), profile.clone());
    let jobs = trace.jobs();
    let speed = match args.load {
        None => args.speed,
        Some(load) => load * capacity(&equal, &jobs).speed,
    };
    let HardshipArgs { slow_replicas, slowness, .. } = args.hardship;
    let settings = Settings { slow_replicas: slow_replicas.into(), slowness, ..equal };
    trace.fits(speed).map_err(Failure::Usage)?;
    let jobs = at_speed(&jobs, speed);
    let contestants = policies.into_iter().map(|policy| contestant(args, policy, &settings, &jobs)).collect();
    let fleet = FleetFacts { replicas: args.replicas.into(), profile: profiles.all().name.clone() };
    let facts = facts(args, &trace, speed, &jobs, Some(fleet));
    let runs: Vec<_> = replay::run_all(contestants, args.threads).into_iter().map(PolicyRun::of).collect();
    show(args, &|| replay::html(&facts, &runs), &|| replay::json(&facts, &runs), &|| {
        format!("{}\n\n{}", plain(&facts.line()), replay::table(&runs))
    })
}

/// The profile of that name or in that file.
fn profile(asked: &str) -> anyhow::Result<Profile> {
    if let Some(profile) = Profile::named(asked) {
        return Ok(profile);
    }
    let file = ProfileFile::read(Path::new(asked))
        .with_context(|| format!("expected {} or a file", Profile::NAMES.join(", ")))?;
    Ok(file.profile())
}

fn read(args: &ReplayArgs, block_tokens: u32) -> Result<Trace, Failure> {
    let limit = args.limit.unwrap_or(usize::MAX);
    let trace = replay::read(&args.trace, limit, block_tokens).map_err(Failure::Usage)?;
    if let Some(first) = trace.bad.first() {
        // The message may quote the line, which may be anything.
        let first = plain(first);
        tell(format_args!("note: {} lines are no requests; the first: {first}\n", trace.bad.len()));
    }
    Ok(trace)
}

/// Writes what was asked for.
fn show(
    args: &ReplayArgs,
    html: &dyn Fn() -> anyhow::Result<String>,
    json: &dyn Fn() -> anyhow::Result<String>,
    table: &dyn Fn() -> String,
) -> Result<(), Failure> {
    if let Some(path) = &args.html {
        let page = html().map_err(Failure::running)?;
        let written = std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()));
        written.map_err(Failure::running)?;
    }
    if args.json { print(&json().map_err(Failure::running)?) } else { print(&table()) }
}

fn contestant<'a>(args: &ReplayArgs, policy: Policy, settings: &Settings, jobs: &'a [Job]) -> Contestant<'a> {
    let usual = Given::of(&settings.profile);
    let given = Given { slots: args.slots.unwrap_or(usual.slots), hold: args.hold.unwrap_or(usual.hold) };
    Contestant {
        name: policy.name().into(),
        settings: settings.clone(),
        decider: decider(args, policy, settings, given),
        jobs: Cow::Borrowed(jobs),
        pools: std::iter::once(0..settings.replicas).collect(),
    }
}

fn decider(args: &ReplayArgs, policy: Policy, settings: &Settings, given: Given) -> Box<dyn Decider + Send> {
    let mut hardship = args.hardship.hardship();
    if policy == Policy::Oracle {
        // It knows the sizes.
        hardship.size_noise = 0.0;
    }
    if hardship == Hardship::default() {
        return policy.decider(settings, given, args.seed);
    }
    let one = |seed| policy.decider(settings, given, seed);
    Box::new(Apart::new(hardship, settings.replicas, args.seed, one))
}

fn facts(args: &ReplayArgs, trace: &Trace, speed: f64, jobs: &[Job], fleet: Option<FleetFacts>) -> Facts {
    let times = || jobs.iter().map(|job| job.arrives);
    let span = times().max().unwrap_or_default().since(times().min().unwrap_or_default());
    Facts {
        trace: args.trace.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        form: trace.form,
        requests: jobs.len(),
        without_prompt: trace.without_prompt.clone(),
        fleet,
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
