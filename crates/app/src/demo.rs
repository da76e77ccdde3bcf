//! `sluicegate demo`: gateway, simulated replicas and traffic in one process, with a live table; or two models behind one
//! name, and which of them each question goes to.

mod display;
mod routes;
mod stats;
mod table;

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use sluicegate_core::{Health, PoolSnapshot};
use sluicegate_lab::decision::DecisionSim;
use sluicegate_lab::sim::{Sim, SimConfig, SimReplica};
use sluicegate_lab::traffic::{Traffic, TrafficConfig};
use sluicegate_proxy::usage::UsageSink;

use crate::app::{App, StartError};
use crate::cli::{DemoArgs, Failure, Signals, print, write_out};
use crate::config::{Config, Loaded, Overrides};
use display::Display;
use stats::Stats;
use table::{Now, ReplicaRow};

const REPLICAS: usize = 4;
const MODEL: &str = "demo-8b";
/// How often the start looks whether the first scrapes are in.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// For what still runs when the demo ends.
const LAST_CALL: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::running(error.into()))?;
    let stats = Arc::new(Stats::default());
    let unserved = runtime.block_on(demonstrate(args, &stats))?;
    print(&stats.summary())?;
    // What a client saw fail and what the gateway booked as failed should be the same; either is a failure.
    match unserved.max(stats.totals().failed) {
        0 => Ok(()),
        failed => Err(Failure::running(anyhow::anyhow!("{failed} requests failed"))),
    }
}

/// Runs until the time is over or a signal comes. Returns the requests that failed as the traffic saw it.
async fn demonstrate(args: &DemoArgs, stats: &Arc<Stats>) -> Result<u64, Failure> {
    let started = start(args, stats).await?;
    let mut signals = Signals::new().map_err(|error| Failure::running(error.into()))?;
    let mut traffic = None;
    tokio::select! {
        () = signals.next() => {}
        () = over(args.seconds) => {}
        stopped = keep_going(args, &started, stats, &mut traffic) => stopped?,
    }
    stats.ending();
    let unserved = match traffic {
        // What is broken off here ends as 'client gone', which is no failure and is counted apart.
        Some(traffic) => traffic.stop().await.failed(),
        None => 0,
    };
    let Started { app, stage, .. } = started;
    let finished = tokio::task::spawn_blocking(move || app.finish(LAST_CALL)).await;
    stage.shutdown().await;
    finished.context("the gateway's end failed").map_err(Failure::running)?;
    Ok(unserved)
}

async fn over(seconds: Option<u64>) {
    match seconds {
        Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
        None => std::future::pending().await,
    }
}

/// Says what there is, waits for the first scrapes, starts the traffic and shows what happens. Ends by an error, or
/// when nobody reads what is shown.
async fn keep_going(
    args: &DemoArgs,
    started: &Started,
    stats: &Stats,
    traffic: &mut Option<Traffic>,
) -> Result<(), Failure> {
    if write_out(&introduction(args, &started.app)).is_err() {
        return Ok(());
    }
    ready(&started.app).await;
    if args.routes {
        return if args.no_traffic { std::future::pending().await } else { routes::ask(&started.app).await };
    }
    *traffic = start_traffic(args, &started.app)?;
    show(&mut Display::new(), started, stats).await;
    Ok(())
}

/// Everything that runs but the traffic.
struct Started {
    stage: Stage,
    app: App,
    at: Instant,
}

/// What the gateway stands in front of.
struct Stage {
    sims: Vec<Sim>,
    /// Decides between their models.
    judge: Option<DecisionSim>,
}

impl Stage {
    fn replicas(&self) -> impl Iterator<Item = &SimReplica> {
        self.sims.iter().flat_map(Sim::replicas)
    }

    async fn shutdown(self) {
        for sim in self.sims {
            sim.shutdown().await;
        }
    }
}

async fn start(args: &DemoArgs, stats: &Arc<Stats>) -> Result<Started, Failure> {
    distinct_ports(args)?;
    let stage = if args.routes { routes::stage() } else { one_model() };
    let stage = stage.context("no simulated replicas").map_err(Failure::running)?;
    let loaded = configuration(args, &stage)?;
    let sink: Arc<dyn UsageSink> = stats.clone();
    // Starting blocks for a moment, and the replicas are to answer meanwhile.
    let started = tokio::task::spawn_blocking(move || App::start(loaded, vec![sink])).await;
    let app = started.context("the start failed").map_err(Failure::running)?;
    let app = app.map_err(|error| Failure::running(with_a_way_out(error)))?;
    Ok(Started { stage, app, at: Instant::now() })
}

fn one_model() -> io::Result<Stage> {
    let config = SimConfig { replicas: REPLICAS, model: MODEL.into(), ..SimConfig::default() };
    Ok(Stage { sims: vec![Sim::start(config)?], judge: None })
}

fn configuration(args: &DemoArgs, stage: &Stage) -> Result<Loaded, Failure> {
    let text = if args.routes { routes::configuration(stage) } else { String::new() };
    let replicas = stage.replicas().map(|replica| format!("http://{}", replica.addr()));
    let overrides = Overrides {
        replicas: replicas.filter(|_| !args.routes).collect(),
        listen: Some(SocketAddr::from(([127, 0, 0, 1], args.port))),
        admin: Some(SocketAddr::from(([127, 0, 0, 1], args.admin_port))),
        threads: Some(1),
        ..Overrides::default()
    };
    // It names no secrets.
    let loaded = Config::from_text("demo", &text, &overrides, &|_| None);
    let mut loaded = loaded.map_err(Failure::Configuration)?;
    loaded.usage.stdout = false;
    loaded.usage.file.clone_from(&args.usage);
    Ok(loaded)
}

/// The configuration would say the same of flags that this command does not have.
fn distinct_ports(args: &DemoArgs) -> Result<(), Failure> {
    match args.port == args.admin_port && args.port != 0 {
        true => Err(Failure::Usage(anyhow::anyhow!("--port and --admin-port are both {}", args.port))),
        false => Ok(()),
    }
}

fn with_a_way_out(error: StartError) -> anyhow::Error {
    let hint = match &error {
        StartError::Taken { .. } => "other ports with --port N and --admin-port N",
        StartError::Listen { source, .. } if source.kind() == ErrorKind::AddrInUse => {
            "another port with --port N"
        }
        StartError::Admin { source, .. } if source.kind() == ErrorKind::AddrInUse => {
            "another port with --admin-port N"
        }
        _ => return error.into(),
    };
    let what = anyhow::Error::from(error);
    anyhow::anyhow!("{what:#}\n  choose {hint}; 0 takes a free one")
}

fn introduction(args: &DemoArgs, app: &App) -> String {
    let (address, admin) = (app.address(), app.admin_address());
    let program = program();
    let (what, traffic, model, flag) = match args.routes {
        true => (routes::WHAT, "one question after the other", routes::MODEL, " --decide"),
        false => ("4 simulated replicas", "steady mixed traffic", MODEL, ""),
    };
    let traffic = if args.no_traffic { "no traffic but yours" } else { traffic };
    format!(
        "\
gateway on http://{address} in front of {what}, {traffic}
state   http://{admin}/api/state
metrics http://{admin}/metrics
Ctrl-C ends it.

Try it:
  curl -N http://{address}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{\"model\":\"{model}\",\"stream\":true,\"messages\":[{{\"role\":\"user\",\"content\":\"Hello\"}}]}}'
  {program} explain --admin http://{admin} --model {model} --text Hello{flag}

"
    )
}

/// This program as a shell finds it from any folder.
fn program() -> String {
    let path = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    let path = path.unwrap_or_else(|| "sluicegate".into());
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Waits until the gateway has scraped its replicas, some of every pool, and knows their models.
async fn ready(app: &App) {
    let live = |pool: &PoolSnapshot| pool.replicas.iter().any(|replica| replica.health == Health::Live);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    while !app.inspect().pools().iter().all(|(_, pool)| live(pool)) || app.inspect().routes().is_empty() {
        looks.tick().await;
    }
}

fn start_traffic(args: &DemoArgs, app: &App) -> Result<Option<Traffic>, Failure> {
    if args.no_traffic {
        return Ok(None);
    }
    let base_url = format!("http://{}", app.address());
    let config = TrafficConfig { base_url, model: MODEL.into(), ..TrafficConfig::default() };
    let traffic = Traffic::start(config).context("no traffic").map_err(Failure::running)?;
    Ok(Some(traffic))
}

/// Ends when nobody reads it any more.
async fn show(display: &mut Display, started: &Started, stats: &Stats) {
    let mut turns = tokio::time::interval(display.every());
    let mut before = (Instant::now(), generated(&started.stage));
    loop {
        let now = turns.tick().await.into_std();
        let tokens = generated(&started.stage);
        let rates = rates(&before.1, &tokens, now.saturating_duration_since(before.0));
        let shown = display.show(&Now {
            elapsed: now.saturating_duration_since(started.at),
            replicas: replica_rows(&started.app, &rates),
            totals: stats.totals(),
        });
        if shown.is_err() {
            return;
        }
        before = (now, tokens);
    }
}

/// Tokens that each replica has generated so far.
fn generated(stage: &Stage) -> Vec<u64> {
    stage.replicas().map(|replica| replica.counters().map_or(0, |now| now.generation_tokens)).collect()
}

fn rates(before: &[u64], now: &[u64], time: Duration) -> Vec<f64> {
    let per_second = |tokens: u64| f64::from(u32::try_from(tokens).unwrap_or(u32::MAX)) / time.as_secs_f64();
    let rate = |(before, now): (&u64, &u64)| match time.is_zero() {
        true => 0.0,
        false => per_second(now.saturating_sub(*before)),
    };
    before.iter().zip(now).map(rate).collect()
}

fn replica_rows(app: &App, rates: &[f64]) -> Vec<ReplicaRow> {
    let replicas = app.inspect().pools().into_iter().flat_map(|(_, pool)| pool.replicas);
    replicas.zip(rates).map(|(replica, rate)| ReplicaRow::of(&replica, *rate)).collect()
}
