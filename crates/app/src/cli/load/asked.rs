//! What the flags ask for.

use anyhow::Context as _;
use serde_json::Value;
use sluicegate_lab::load::{Arrivals, Kind as LabKind, LoadConfig, Pace};

use super::{Arrival, Kind, LoadArgs};

/// Sessions at a time where nothing is said.
const CONCURRENCY: u32 = 8;
/// Requests where nothing is said.
const REQUESTS: u64 = 100;
/// Sessions in flight of an open loop, at most, where nothing is said.
const MOST_IN_FLIGHT: usize = 20_000;

pub(super) fn config(args: &LoadArgs) -> anyhow::Result<LoadConfig> {
    let (pace, shape) = (&args.pace, &args.shape);
    let requests = match (pace.requests, pace.duration) {
        (None, None) => Some(REQUESTS),
        (requests, _) => requests,
    };
    let trace = match &shape.trace {
        Some(path) => trace(&super::read(path)?).with_context(|| format!("{}", path.display()))?,
        None => Vec::new(),
    };
    Ok(LoadConfig {
        base_url: args.url.clone(),
        key: key(args.key.as_deref())?,
        model: args.model.clone().unwrap_or_default(),
        kind: match args.kind {
            Kind::Chat => LabKind::Chat,
            Kind::Text => LabKind::Text,
        },
        pace: pace_of(args)?,
        requests,
        duration: pace.duration,
        turns: shape.turns,
        think: shape.think,
        prefixes: shape.prefixes,
        prefix_tokens: shape.prefix_tokens,
        prompt: shape.prompt_tokens,
        output: shape.output_tokens,
        trace,
        ignore_eos: shape.ignore_eos,
        tokens_per_word: 1.0,
        timeout: args.timeout,
        goodput: args.goodput.unwrap_or_default(),
        seed: args.seed,
    })
}

fn pace_of(args: &LoadArgs) -> anyhow::Result<Pace> {
    let pace = &args.pace;
    let Some(rate) = pace.rate else {
        let concurrency = usize::try_from(pace.concurrency.unwrap_or(CONCURRENCY))?;
        return Ok(Pace::Closed { concurrency });
    };
    let arrivals = match (pace.arrival, pace.burstiness) {
        (Arrival::Poisson, None) => Arrivals::Poisson,
        (Arrival::Constant, None) => Arrivals::Constant,
        (Arrival::Gamma, Some(shape)) => Arrivals::Gamma(shape),
        (Arrival::Gamma, None) => anyhow::bail!("--arrival gamma needs --burstiness SHAPE, as in 0.25"),
        (_, Some(_)) => anyhow::bail!("--burstiness belongs to --arrival gamma"),
    };
    let most = pace.concurrency.map_or(Ok(MOST_IN_FLIGHT), usize::try_from)?;
    Ok(Pace::Open { rate, arrivals, most })
}

/// The name in `env:NAME`.
pub(in super::super) fn key_variable(text: &str) -> Result<String, &'static str> {
    let name = text.strip_prefix("env:").filter(|name| !name.is_empty());
    name.map(str::to_owned).ok_or(
        "expected env:NAME, the environment variable that holds the key: a key on the command line stands in the \
         shell's history",
    )
}

pub(in super::super) fn key(variable: Option<&str>) -> anyhow::Result<Option<String>> {
    let Some(name) = variable else { return Ok(None) };
    std::env::var(name).map(Some).with_context(|| format!("--key env:{name}"))
}

pub(super) fn positive(text: &str) -> Result<f64, &'static str> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or("expected a number above 0")
}

/// Prompt and output tokens of every line.
fn trace(text: &str) -> anyhow::Result<Vec<(u32, u32)>> {
    let mut pairs = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let pair = serde_json::from_str::<Value>(line).ok().and_then(|line| pair(&line));
        let number = index + 1;
        pairs.push(pair.with_context(|| {
            format!("line {number}: expected an object with input_length and output_length, both above 0")
        })?);
    }
    anyhow::ensure!(!pairs.is_empty(), "there is no line in it");
    Ok(pairs)
}

/// As recorded traces and usage lines name them.
fn pair(line: &Value) -> Option<(u32, u32)> {
    let number = |names: [&str; 2]| {
        let value = names.iter().find_map(|name| line.get(name)?.as_u64())?;
        u32::try_from(value).ok().filter(|number| *number > 0)
    };
    Some((number(["input_length", "prompt_tokens"])?, number(["output_length", "completion_tokens"])?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_lengths_in_every_line() {
        let good = "{\"input_length\": 7, \"output_length\": 3, \"timestamp\": 1}\n\n{\"prompt_tokens\":9,\"completion_tokens\":1}\n";
        assert_eq!(trace(good).unwrap(), [(7, 3), (9, 1)]);
        for (text, says) in [
            ("", "no line"),
            ("{\"input_length\": 7}", "line 1: expected an object"),
            ("\n{\"input_length\": 0, \"output_length\": 3}", "line 2"),
        ] {
            assert!(format!("{:#}", trace(text).unwrap_err()).contains(says), "{text}");
        }
    }

    #[test]
    fn a_key_is_named_and_never_written() {
        assert_eq!(key_variable("env:KEY").as_deref(), Ok("KEY"));
        assert!(key_variable("sk-123").is_err() && key_variable("env:").is_err());
    }
}
