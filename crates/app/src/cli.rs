//! The command line: what there is, and which command does it.

mod calibrate;
mod check;
mod end;
mod ending;
mod explain;
mod flags;
mod key;
mod load;
mod logging;
mod open_files;
mod profile_file;
mod replay;
mod serve;
mod signals;
mod sim;
mod times;
mod usage;
mod verify;

use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::{DocsFormat, config_docs};
use crate::demo;

pub(crate) use end::Failure;
use flags::GatewayFlags;
pub(crate) use signals::Signals;

/// A gateway and load balancer for LLM inference servers.
#[derive(Debug, Parser)]
#[command(name = "sluicegate", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  sluicegate demo                                      see it work; no GPU needed
  sluicegate serve --replica http://10.0.0.11:8000 --replica http://10.0.0.12:8000
  sluicegate serve --config sluicegate.toml
  sluicegate check sluicegate.toml
  sluicegate explain --model qwen3 --session s-17 --text 'Hello'
  sluicegate usage usage.jsonl --by route --by day
  sluicegate load http://127.0.0.1:8080 --rate 20 --duration 5m
  sluicegate replay usage.jsonl --replicas 8 --policy predictive --policy round-robin
  sluicegate verify --only G7 --mode predictive

Logs go to standard error (RUST_LOG=debug shows more), usage lines to standard output.
Exit codes: 0 success, 1 failure while running, 2 error in the configuration or the command line.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway
    Serve(ServeArgs),
    /// Read a configuration file and show what was understood, or every error in it
    Check(CheckArgs),
    /// Ask a running gateway where a request would go, and why
    Explain(ExplainArgs),
    /// Sum usage logs, and hold the sums against the engines' own counters
    Usage(Box<usage::UsageArgs>),
    /// Play recorded traffic through simulated replicas, under one policy after the other
    Replay(Box<replay::ReplayArgs>),
    /// Put the promises to the test: what was measured, what is allowed, pass or fail
    Verify(verify::VerifyArgs),
    /// Make an API key, or the hash of one
    Key(key::KeyArgs),
    /// Run simulated vLLM replicas
    Sim(sim::SimArgs),
    /// Send measured load to a gateway or an engine
    Load(Box<load::LoadArgs>),
    /// Fit the simulated engine to a real one
    Calibrate(calibrate::CalibrateArgs),
    /// Run a gateway, four simulated replicas and traffic in one process, with a live table
    Demo(DemoArgs),
    /// Write the configuration's reference or schema
    #[command(hide = true)]
    ConfigDocs(ConfigDocsArgs),
}

/// Options of `serve`. Flags stand above the file.
#[derive(Debug, Args)]
#[command(after_help = "\
Without a file, the models are asked from the replicas:
  sluicegate serve --replica http://10.0.0.11:8000 --replica http://10.0.0.12:8000

SIGTERM or SIGINT (Ctrl-C): takes no new connections, finishes running requests
for at most drain_timeout (5 minutes by default), then exits. A second signal
ends them at once.")]
pub(crate) struct ServeArgs {
    /// Configuration file; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: GatewayFlags,
}

/// Options of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
The flags are those of `serve`: a file that needs some there needs the same ones here.
  sluicegate check sluicegate.toml
  sluicegate check listen-only.toml --replica http://10.0.0.11:8000
  sluicegate check - < sluicegate.toml")]
pub(crate) struct CheckArgs {
    /// Configuration file; - reads standard input
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) flags: GatewayFlags,
}

/// Options of `explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is sent to a replica and nothing is reserved. Where every slot is taken the result is whether
the request would wait, and how many are served before it. Limits of keys are not looked at.

Examples:
  sluicegate explain --model qwen3 --text 'Hello'
  sluicegate explain --model qwen3 --key team-a
  sluicegate explain --model qwen3 --session s-17 --text 'Hello'
  sluicegate explain --file body.json
where body.json is the body of a chat completion, or a whole request:
  {\"method\": \"POST\", \"path\": \"/v1/completions\", \"headers\": {\"x-session-id\": \"s-17\"}, \"body\": {...}}
and may say \"key\": \"team-a\" or \"decide\": true as well.")]
pub(crate) struct ExplainArgs {
    /// Admin side of the gateway
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9090")]
    pub(crate) admin: String,
    /// Environment variable that holds the admin token, if the gateway wants one [default: SLUICEGATE_ADMIN_TOKEN]
    #[arg(long, value_name = "NAME")]
    pub(crate) token_env: Option<String>,
    /// Name of the key that sends it, as in the configuration; without it every route may be used
    #[arg(long, value_name = "NAME")]
    pub(crate) key: Option<String>,
    /// File with a chat body or a whole request, as JSON; - reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Model of a made-up chat
    #[arg(long, conflicts_with = "file")]
    pub(crate) model: Option<String>,
    /// Session of the made-up chat, sent as x-session-id
    #[arg(long, requires = "model")]
    pub(crate) session: Option<String>,
    /// Text of the made-up chat's only message
    #[arg(long, default_value = "Hello", requires = "model")]
    pub(crate) text: String,
    /// Ask the route's decision service, as a request would; without it only an answer that is known already counts
    #[arg(long)]
    pub(crate) decide: bool,
}

/// Options of `demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C ends the demo with a summary. The exit code is 0 unless requests failed.")]
pub(crate) struct DemoArgs {
    /// End after this many seconds
    #[arg(long, value_name = "N")]
    pub(crate) seconds: Option<u64>,
    /// Port for clients, on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// Port of the admin side, on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 9090)]
    pub(crate) admin_port: u16,
    /// Two models behind one name: a decision service says which of them each question deserves
    #[arg(long)]
    pub(crate) routes: bool,
    /// Only gateway and replicas: the traffic is yours
    #[arg(long)]
    pub(crate) no_traffic: bool,
    /// Append usage lines to this file; without it they are not written
    #[arg(long, value_name = "FILE")]
    pub(crate) usage: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ConfigDocsArgs {
    form: DocsForm,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DocsForm {
    Markdown,
    Schema,
}

/// Runs the command line's command and tells the process how it ended.
#[must_use]
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Where help or error cannot be printed there is nobody to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    // The demo's table shares the terminal with the log.
    logging::start(if matches!(cli.command, Command::Demo(_) | Command::Verify(_)) {
        "warn"
    } else {
        "info"
    });
    let ended = match cli.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Usage(args) => usage::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Key(args) => key::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Load(args) => load::run(&args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::ConfigDocs(args) => print(&config_docs(match args.form {
            DocsForm::Markdown => DocsFormat::Markdown,
            DocsForm::Schema => DocsFormat::Schema,
        })),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure);
            failure.exit_code()
        }
    }
}

/// Writes to standard output. A reader that has gone away, as `head` does, is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write_out(text) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::running(error.into())),
        _ => Ok(()),
    }
}

/// The same, for who wants to know that nobody reads any more.
pub(crate) fn write_out(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush())
}

/// Writes to standard error; where that cannot be written there is nobody to tell.
pub(crate) fn tell(text: impl std::fmt::Display) {
    let _ = write!(std::io::stderr(), "{text}");
}
