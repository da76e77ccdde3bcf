//! `sluicegate sim`: simulated replicas until a signal ends them.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use sluicegate_lab::decision::DecisionSim;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::fault::FaultSpec;
use sluicegate_lab::sim::{Sim, SimConfig};

use super::profile_file::ProfileFile;
use super::{Failure, Signals, tell};

/// How long clients have to take the ends of their answers.
const LAST_CALL: Duration = Duration::from_secs(5);

/// Options of `sim`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct SimArgs {
    /// Address of the first replica; the others take the following ports
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8000", value_parser = crate::config::address)]
    listen: SocketAddr,
    /// Number of replicas
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    replicas: u16,
    /// Name of the served model
    #[arg(long, default_value = "sim")]
    model: String,
    /// Speed of each replica: 8b (an 8B model on a 48 GB GPU), h100 (on an 80 GB one), fast (no thinking time), or a
    /// file from `sluicegate calibrate`
    #[arg(long, value_name = "NAME|FILE", default_value = "8b")]
    profile: String,
    /// Something that is wrong from the start, as REPLICA:KIND[:VALUE..]; may be repeated. See below
    #[arg(long = "fault", value_name = "FAULT", value_parser = StartFault::parse)]
    faults: Vec<StartFault>,
    /// Address of a decision service besides, whose judge follows a rule of thumb; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", value_parser = crate::config::address)]
    decision: Option<SocketAddr>,
    /// Decides the lengths and words of answers
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

const HELP: &str = "\
Example: two replicas, and a gateway in front of them
  sluicegate sim --listen 127.0.0.1:8000 --replicas 2 --model qwen3
  sluicegate serve --replica http://127.0.0.1:8000 --replica http://127.0.0.1:8001

Each replica answers GET /health, /ping, /version, /load, /v1/models and /metrics, and POST
/v1/chat/completions, /v1/completions, /v1/messages, /v1/responses (also GET /v1/responses/ID),
/v1/embeddings, /tokenize and /detokenize. SIGTERM ends it as it ends vLLM: running answers get the
finish reason 'abort'.

With --decision there is a decision service as well: POST /v1/systemone, GET /v1/models and GET
/health. It takes any token, judges how hard a conversation's last turn looks, and prefers the
smallest of the models in question that is large enough, by what their names and descriptions say:
  sluicegate sim --listen 127.0.0.1:8000 --model tiny-4b --decision 127.0.0.1:8100

Faults. REPLICA is an index from 0, or all. Times are seconds, or end in ms.
  status:503        requests get this status (400 to 599)
  reset             requests are read, then the connection is reset
  hang              requests are read and held without a word
  cut:5             streams break off after 5 tokens, whole answers in their middle
  error-event:0:503 200, so many tokens, an error event, [DONE]: vLLM's refusal inside a stream
  refuse            new connections are refused, open ones go on
  slow:4            steps take 4 times as long
  frozen            requests are taken and no token is made; /health says 200
  slow-health:3     /health takes 3 s
  flap:10:5         alive for 10 s, gone for 5 s, by turns; comes back with an empty cache
  engine-dead       the engine process has died: error events, 500, and 503 from /health
  sigterm           running answers end with 'abort', the port is closed
  dead              killed: connections are cut and refused; comes back with an empty cache
  loading           started anew and still loading: requests and /health get 503
The first five befall requests one by one: ':share=0.3' is for 30 % of them, ':next=2' for the next
two. ':seconds=20' ends any fault by itself.
  sluicegate sim --replicas 3 --fault 0:status:503:share=0.2 --fault 2:flap:30:10

While it runs, any replica switches the faults of all, and says when they are in force:
  curl 127.0.0.1:8000/sim/fault                                            what is wrong now
  curl 127.0.0.1:8000/sim/fault -d '{\"kind\": \"cut\", \"after\": 5, \"next\": 2}'
  curl 127.0.0.1:8000/sim/fault -d '{\"kind\": \"refuse\", \"replica\": 1}'    or \"all\"
  curl -X DELETE '127.0.0.1:8000/sim/fault?replica=1&kind=refuse'";

/// A fault to begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
struct StartFault {
    /// `None`: all of them.
    replica: Option<usize>,
    spec: FaultSpec,
}

impl StartFault {
    fn parse(text: &str) -> Result<Self, String> {
        let Some((replica, fault)) = text.split_once(':') else {
            return Err("expected REPLICA:KIND, as in 0:status:503 or all:slow:4".into());
        };
        let replica = match replica {
            "all" => None,
            index => Some(index.parse().map_err(|_| {
                format!("{index:?} is no replica: expected an index from 0, or all, as in 0:{text}")
            })?),
        };
        Ok(Self {
            replica,
            spec: FaultSpec::parse(fault).and_then(FaultSpec::over_http).map_err(|bad| bad.to_string())?,
        })
    }
}

pub(super) fn run(args: &SimArgs) -> Result<(), Failure> {
    let replicas = usize::from(args.replicas);
    for fault in &args.faults {
        if let Some(index) = fault.replica.filter(|index| *index >= replicas) {
            let error = anyhow::anyhow!("--fault {index}:..: there are {replicas} replicas, counted from 0");
            return Err(Failure::Usage(error));
        }
    }
    let (profile, max_model_len) = profile(&args.profile).map_err(Failure::Usage)?;
    let config = SimConfig {
        listen: args.listen,
        replicas,
        model: args.model.clone(),
        profile,
        max_model_len,
        seed: args.seed,
        ..SimConfig::default()
    };
    simulate(config, args).map_err(Failure::running)
}

/// The profile of that name or in that file, and the context it serves.
fn profile(asked: &str) -> anyhow::Result<(Profile, u32)> {
    let default = SimConfig::default().max_model_len;
    if let Some(profile) = Profile::named(asked) {
        return Ok((profile, default));
    }
    let file = ProfileFile::read(Path::new(asked))
        .with_context(|| format!("--profile {asked}: expected {} or a file", Profile::NAMES.join(", ")))?;
    let profile = file.profile();
    let room = profile.kv_blocks.saturating_mul(profile.block_tokens);
    Ok((profile, file.max_model_len.unwrap_or(default.min(room))))
}

fn simulate(config: SimConfig, SimArgs { faults, decision, .. }: &SimArgs) -> anyhow::Result<()> {
    let (listen, model) = (config.listen, config.model.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new().context("signals cannot be received")?;
        let sim = Sim::start(config).with_context(|| format!("cannot listen on {listen}"))?;
        for (index, replica) in sim.replicas().iter().enumerate() {
            for fault in faults.iter().filter(|fault| fault.replica.is_none_or(|asked| asked == index)) {
                replica.set_fault(fault.spec).await;
            }
        }
        let judge = decision
            .map(|wanted| DecisionSim::start(wanted).with_context(|| format!("cannot listen on {wanted}")));
        let judge = judge.transpose()?;
        for address in sim.addrs() {
            tell(format_args!("simulated replica of {model} on http://{address}\n"));
        }
        if let Some(judge) = &judge {
            tell(format_args!("simulated decision service on http://{}\n", judge.addr()));
        }
        signals.next().await;
        tokio::select! {
            () = sim.terminate() => {}
            () = tokio::time::sleep(LAST_CALL) => {}
            () = signals.next() => {}
        }
        anyhow::Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_lab::fault::Fault;

    #[test]
    fn a_fault_names_its_replica_or_all() {
        let parse = |text| StartFault::parse(text).map(|fault| (fault.replica, fault.spec.fault));
        assert_eq!(parse("1:slow:4"), Ok((Some(1), Fault::Slow { factor: 4.0 })));
        assert_eq!(parse("all:status:503"), Ok((None, Fault::Status(503))));
        for (text, says) in [
            ("slow", "expected REPLICA:KIND"),
            ("slow:4", "as in 0:slow:4"),
            ("0:slow", "it is written slow:FACTOR"),
            ("0:unreachable", "a fault of scenario files"),
        ] {
            let refusal = parse(text).unwrap_err();
            assert!(refusal.contains(says), "{text}: {refusal}");
        }
    }
}
