//! `sluicegate load`: measured load on a gateway or an engine.

pub(super) mod asked;
mod show;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use sluicegate_lab::client::Endpoint;
use sluicegate_lab::load::{Goodput, Lengths, Load, LoadConfig, Report, first_model, probe};

use super::{Failure, Signals, print, tell, times};
use crate::bounded_file;

/// How often the bar moves.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Options of `load`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct LoadArgs {
    /// The gateway or engine, as in http://127.0.0.1:8080
    url: String,
    /// Environment variable that holds the API key, as env:NAME
    #[arg(long, value_name = "env:NAME", value_parser = asked::key_variable)]
    key: Option<String>,
    /// Model to ask for [default: the first that /v1/models names]
    #[arg(long)]
    model: Option<String>,
    /// Which completions to ask for
    #[arg(long, value_enum, default_value_t = Kind::Chat)]
    kind: Kind,
    #[command(flatten)]
    pace: PaceArgs,
    #[command(flatten)]
    shape: ShapeArgs,
    /// Limits of a good request, as ttft:500ms,itl:50ms,e2e:10s (any of them)
    #[arg(long, value_name = "LIMITS")]
    goodput: Option<Goodput>,
    /// Give a request up after this time
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = times::parse)]
    timeout: Duration,
    /// Decides lengths, words and arrivals: the same seed sends the same
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write one JSON object instead of the table
    #[arg(long)]
    json: bool,
}

/// When requests are sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pace")]
struct PaceArgs {
    /// Open loop: so many sessions per second arrive, whatever the server does
    #[arg(long, value_name = "PER_SECOND", value_parser = asked::positive)]
    rate: Option<f64>,
    /// How they arrive: poisson, constant, or gamma (with --burstiness)
    #[arg(long, value_enum, requires = "rate", default_value_t = Arrival::Poisson)]
    arrival: Arrival,
    /// Shape of gamma intervals: below 1 in bursts, 1 is poisson, above it more even
    #[arg(long, value_name = "SHAPE", requires = "rate", value_parser = asked::positive)]
    burstiness: Option<f64>,
    /// Closed loop: so many sessions at any time [default: 8]. With --rate: at most so many; more wait, and that counts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    concurrency: Option<u32>,
    /// End after this many requests [default: 100, or none with --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    requests: Option<u64>,
    /// Send nothing later than this, as 30s or 5m; what runs then is waited for
    #[arg(long, value_name = "TIME", value_parser = times::parse)]
    duration: Option<Duration>,
}

/// What is sent.
#[derive(Debug, Args)]
#[command(next_help_heading = "Shape")]
struct ShapeArgs {
    /// Tokens of each prompt: 512, 100-900, or lognormal:MEDIAN:SIGMA[:MOST]
    #[arg(long, value_name = "LENGTH", default_value = "256")]
    prompt_tokens: Lengths,
    /// Tokens of each answer, at most: the same forms
    #[arg(long, value_name = "LENGTH", default_value = "64")]
    output_tokens: Lengths,
    /// Lengths from a file of JSON lines with input_length and output_length, in its order
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Ask for answers of exactly that length (vLLM, SGLang)
    #[arg(long)]
    ignore_eos: bool,
    /// Turns of each session: the same forms; every turn sends the whole conversation again
    #[arg(long, value_name = "LENGTH", default_value = "1")]
    turns: Lengths,
    /// Mean pause before the next turn of a session
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = times::parse)]
    think: Duration,
    /// Sessions begin with one of so many shared prefixes
    #[arg(long, value_name = "N", default_value_t = 0, requires = "prefix_tokens")]
    prefixes: u32,
    /// Tokens of a shared prefix
    #[arg(long, value_name = "TOKENS", default_value_t = 0, requires = "prefixes")]
    prefix_tokens: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// /v1/chat/completions
    Chat,
    /// /v1/completions
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Arrival {
    Poisson,
    Constant,
    Gamma,
}

const HELP: &str = "\
Two requests of one token come first: they show that the server answers, and how long our words are
for its tokenizer. Prompts are words without meaning, of about the tokens asked for. Sessions send
their name as x-session-id.

Times count from the moment at which a request was meant to be sent: waiting in this program is
part of what a user would have waited. 'sent late' says how much of it there was.
  ttft        to the first token
  itl         from token to token; tokens that come in one piece came at one time
  tpot        a request's mean time per token after the first
  e2e         to the end of the answer

Examples:
  sluicegate load http://127.0.0.1:8080                            8 at a time, 100 requests
  sluicegate load http://127.0.0.1:8080 --rate 20 --duration 5m --prompt-tokens lognormal:800:0.9 \\
    --output-tokens 50-400 --goodput ttft:500ms,itl:50ms
  sluicegate load http://127.0.0.1:8080 --concurrency 200 --requests 5000 --turns 2-12 --think 1s \\
    --prefixes 8 --prefix-tokens 1500
  sluicegate load http://127.0.0.1:8080 --rate 5 --arrival gamma --burstiness 0.25 --json > run.json
  GATE_KEY=sk-... sluicegate load http://10.0.0.5:8080 --key env:GATE_KEY --model qwen3

Exit codes: 0 some request ended well; 1 none did; 2 error in the command line.";

pub(super) fn run(args: &LoadArgs) -> Result<(), Failure> {
    let config = asked::config(args).map_err(Failure::Usage)?;
    super::open_files::raise();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::running(error.into()))?;
    let (config, report) = runtime.block_on(send(args, config))?;
    let text = if args.json { show::json(&config, &report) } else { show::table(&config, &report) };
    print(&text)?;
    match report.ok() {
        0 => Err(Failure::running(anyhow::anyhow!("no request ended well"))),
        _ => Ok(()),
    }
}

async fn send(args: &LoadArgs, mut config: LoadConfig) -> Result<(LoadConfig, Report), Failure> {
    let endpoint = Endpoint::new(&config.base_url, config.key.as_deref());
    let endpoint = endpoint.map_err(|error| Failure::Usage(error.into()))?;
    if args.model.is_none() {
        let model = first_model(&endpoint).await.map_err(|error| unanswered(&config, error))?;
        let (name, of) = (model.name, model.of);
        if of > 1 {
            tell(format_args!("note: {of} models; asking for {name} (--model NAME takes another)\n"));
        }
        config.model = name;
    }
    config.tokens_per_word = probe(&endpoint, &config).await.map_err(|error| unanswered(&config, error))?;
    let mut signals = Signals::new().map_err(|error| Failure::running(error.into()))?;
    let mut load = Load::start(config.clone()).map_err(|error| Failure::Usage(error.into()))?;
    let bar = bar(&config);
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = load.finished() => break,
            () = signals.next() => {
                tell("stopped: what is in flight is broken off\n");
                break;
            }
            _ = looks.tick() => follow(&bar, &load, &config),
        }
    }
    bar.finish_and_clear();
    Ok((config, load.report().await))
}

fn unanswered(config: &LoadConfig, error: impl Into<anyhow::Error>) -> Failure {
    let error: anyhow::Error = error.into();
    Failure::running(error.context(format!("{} cannot be asked", config.base_url)))
}

/// Counts requests where their number is known, else milliseconds.
fn bar(config: &LoadConfig) -> ProgressBar {
    const FORM: &str = "{wide_bar} {percent:>3} %  {msg}  {eta} left";
    let millis = config.duration.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let Some(length) = config.requests.or(millis).filter(|_| std::io::stderr().is_terminal()) else {
        return ProgressBar::hidden();
    };
    let style = ProgressStyle::with_template(FORM).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

fn follow(bar: &ProgressBar, load: &Load, config: &LoadConfig) {
    let now = load.progress();
    let elapsed = u64::try_from(now.elapsed.as_millis()).unwrap_or(u64::MAX);
    bar.set_position(if config.requests.is_some() { now.ended } else { elapsed });
    let running = now.sent.saturating_sub(now.ended);
    bar.set_message(format!(
        "{} ended, {} failed, {running} running, {} tokens",
        now.ended, now.failed, now.output_tokens
    ));
}

fn read(path: &std::path::Path) -> anyhow::Result<String> {
    bounded_file::read_text(path, bounded_file::RECORDED)
        .with_context(|| format!("cannot read {}", path.display()))
}
