//! `sluicegate calibrate`: the simulated engine fitted to a real one.

mod show;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use sluicegate_lab::calibrate::{Plan, Stage, fit, measure};
use sluicegate_lab::client::Endpoint;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::load::{LoadConfig, first_model, probe};

use super::load::asked;
use super::profile_file::ProfileFile;
use super::{Failure, print, tell};
use show::Fitted;

/// Tokens of the longest prompt where nothing is said.
const LONGEST: u32 = 8192;
/// What an engine takes where it does not say.
const CONTEXT: u32 = 8192;
/// Time for one request.
const PATIENCE: Duration = Duration::from_secs(600);

/// Options of `calibrate`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct CalibrateArgs {
    /// The engine, as in http://127.0.0.1:8000; nobody else may use it meanwhile
    url: String,
    /// Environment variable that holds the API key, as env:NAME
    #[arg(long, value_name = "env:NAME", value_parser = asked::key_variable)]
    key: Option<String>,
    /// Model to ask for [default: the first that /v1/models names]
    #[arg(long)]
    model: Option<String>,
    /// Write the profile into this file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print what was measured and the profile as one JSON object, in the place of the profile
    #[arg(long)]
    json: bool,
    /// Longest prompt to try, in tokens [default: two thirds of the context, at most 8192]
    #[arg(long, value_name = "TOKENS", value_parser = clap::value_parser!(u32).range(64..))]
    longest: Option<u32>,
    /// Sizes of batches to try; those above --max-num-seqs are left out
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32")]
    batches: Vec<u32>,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// The engine's own setting, which cannot be seen from outside
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    max_num_seqs: u32,
    /// The engine's own setting, which cannot be seen from outside
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = clap::value_parser!(u32).range(1..))]
    max_num_batched_tokens: u32,
}

const HELP: &str = "\
Measures single prompts of growing length, batches of growing size behind short and long prompts,
and one prompt that the prefix cache knows; then fits the five costs of a step. The size of the KV
cache comes from the engine's /metrics. The result says how far it is off from what was measured.

Examples:
  sluicegate calibrate http://10.0.0.11:8000 --max-num-seqs 128 --out a100.toml
  sluicegate sim --profile a100.toml --replicas 4
  sluicegate replay usage.jsonl --profile a100.toml --replicas 4

Exit codes: 0 success, 1 the engine could not be measured, 2 error in the command line.";

pub(super) fn run(args: &CalibrateArgs) -> Result<(), Failure> {
    let key = asked::key(args.key.as_deref()).map_err(Failure::Usage)?;
    let endpoint = Endpoint::new(&args.url, key.as_deref()).map_err(|error| Failure::Usage(error.into()))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::running(error.into()))?;
    let fitted = runtime.block_on(calibrate(args, key, &endpoint)).map_err(Failure::running)?;
    if let Some(path) = &args.out {
        let written = std::fs::write(path, fitted.toml().map_err(Failure::running)?);
        written.with_context(|| format!("cannot write {}", path.display())).map_err(Failure::running)?;
    }
    match (args.json, &args.out) {
        (true, _) => print(&fitted.json().map_err(Failure::running)?),
        (false, None) => print(&fitted.toml().map_err(Failure::running)?),
        (false, Some(_)) => Ok(()),
    }
}

async fn calibrate(args: &CalibrateArgs, key: Option<String>, endpoint: &Endpoint) -> anyhow::Result<Fitted> {
    let model = first_model(endpoint).await.with_context(|| format!("{} cannot be asked", args.url))?;
    let context = model.max_model_len.unwrap_or(CONTEXT);
    let name = args.model.clone().unwrap_or(model.name);
    let mut load = load(args, key, name);
    load.tokens_per_word = probe(endpoint, &load).await?;
    let plan = plan(args, context, load);
    let bar = bar(&plan);
    let found = measure(&plan, |stage| {
        bar.inc(1);
        bar.set_message(told(stage));
    })
    .await;
    bar.finish_and_clear();
    let found = found?;
    let mut profile = Profile {
        max_num_seqs: args.max_num_seqs,
        max_num_batched_tokens: args.max_num_batched_tokens,
        ..Profile::default()
    };
    let page =
        endpoint.get("/metrics").await.ok().map(|page| String::from_utf8_lossy(&page.body).into_owned());
    match page.as_deref().and_then(kv_cache) {
        Some((block_tokens, kv_blocks)) => {
            (profile.block_tokens, profile.kv_blocks) = (block_tokens, kv_blocks)
        }
        None => {
            tell("note: /metrics does not tell the size of the KV cache; that of a 48 GB GPU is written\n")
        }
    }
    let fit = fit(&found.observations, &profile);
    profile.cost = fit.cost.clone();
    let profile = ProfileFile::of(&profile, Some(context));
    Ok(Fitted { model: plan.load.model, found, fit, profile })
}

fn load(args: &CalibrateArgs, key: Option<String>, model: String) -> LoadConfig {
    LoadConfig { key, timeout: PATIENCE, ..LoadConfig::one_by_one(args.url.clone(), model) }
}

fn plan(args: &CalibrateArgs, context: u32, load: LoadConfig) -> Plan {
    let longest = args.longest.unwrap_or_else(|| LONGEST.min(context / 3 * 2)).min(context / 3 * 2).max(64);
    let mut prompts = vec![32, longest / 8, longest / 4, longest / 2, longest / 4 * 3, longest];
    prompts.sort_unstable();
    prompts.dedup();
    let batches: Vec<u32> =
        args.batches.iter().copied().filter(|batch| (1..=args.max_num_seqs).contains(batch)).collect();
    let answer = 64.min((context - longest) / 2).max(8);
    Plan { load, prompts, batches, answer, rounds: args.rounds }
}

fn bar(plan: &Plan) -> ProgressBar {
    const FORM: &str = "{wide_bar} {percent:>3} %  {msg}";
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let stages = plan.prompts.len() + 2 * plan.batches.len() + 1;
    let style = ProgressStyle::with_template(FORM).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(u64::try_from(stages).unwrap_or(u64::MAX)).with_style(style)
}

fn told(stage: Stage) -> String {
    match stage {
        Stage::Prefill(tokens) => format!("a prompt of {tokens} tokens"),
        Stage::Decode(batch, tokens) => format!("a batch of {batch} behind {tokens} tokens"),
        Stage::Cached(tokens) => format!("a known prompt of {tokens} tokens"),
    }
}

/// Tokens of a block and number of blocks, as vLLM's page has them.
fn kv_cache(page: &str) -> Option<(u32, u32)> {
    let line = page.lines().find(|line| line.starts_with("vllm:cache_config_info{"))?;
    let label = |name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\""))?;
        rest.split('"').next()?.parse().ok().filter(|value| *value > 0)
    };
    Some((label(",block_size").or_else(|| label("{block_size"))?, label("num_gpu_blocks")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_the_cache_is_read_from_the_engines_page() {
        let page = "# HELP x y\nvllm:cache_config_info{block_size=\"128\",cache_dtype=\"auto\",engine=\"0\",num_gpu_blocks=\"2730\",other_block_size=\"7\"} 1.0\n";
        assert_eq!(kv_cache(page), Some((128, 2730)));
        assert_eq!(kv_cache("vllm:cache_config_info{a=\"1\",block_size=\"None\"} 1.0"), None);
        assert_eq!(kv_cache(""), None);
    }
}
