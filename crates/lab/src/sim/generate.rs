//! From a request that will be served to the engine's request and the answer to it.

use super::SimConfig;
use super::answer::{Shape, Usage};
use super::ask::Ask;
use super::body::{Answer, EventStream};
use super::problem::Problem;
use super::realtime::{Realtime, Ticket};
use super::tokens::{Tally, word};
use super::wall_clock::unix_seconds;
use crate::engine::{FinishReason, Output, Request, SubmitError};
use crate::rng::SeededRng;
use std::sync::Arc;

/// vLLM's release and a hash of its configuration; ours is constant.
pub(super) const SYSTEM_FINGERPRINT: &str = "vllm-0.32.0-51c0de00";

/// An answer on its way: the engine's tokens, and what to make of them.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) ticket: Ticket,
    pub(super) shape: Shape,
    pub(super) stream_usage: StreamUsage,
    seed: u64,
    prompt_tokens: u32,
    /// Prompt tokens in whole blocks.
    whole_block_tokens: u32,
}

/// What `stream_options` asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamUsage {
    pub(super) at_end: bool,
    pub(super) on_every_event: bool,
}

impl Generation {
    /// The text of a token.
    pub(super) fn word(&self, output: &Output) -> &'static str {
        word(self.seed, output.generated.saturating_sub(1))
    }

    /// The totals as of that token.
    pub(super) fn usage(&self, output: &Output) -> Usage {
        Usage {
            prompt: self.prompt_tokens,
            completion: output.generated,
            cached: output.cached_tokens,
            created: self.whole_block_tokens.saturating_sub(output.cached_tokens),
        }
    }
}

/// Submits the request and answers it: at once with a stream, or when the answer is whole.
pub(super) async fn generate(
    config: &SimConfig,
    realtime: &Arc<Realtime>,
    ask: Ask,
    request_id: Option<&str>,
) -> Result<Answer, Problem> {
    let stream = ask.stream;
    match begin(config, realtime, ask, request_id) {
        Ok(generation) if stream => Ok(Answer::Events(EventStream::new(generation))),
        Ok(generation) => whole(generation).await,
        Err(Problem::Busy) if stream => Ok(Answer::Events(EventStream::refused(&Problem::Busy))),
        Err(problem) => Err(problem),
    }
}

fn begin(
    config: &SimConfig,
    realtime: &Arc<Realtime>,
    ask: Ask,
    request_id: Option<&str>,
) -> Result<Generation, Problem> {
    let prompt_tokens = ask.prompt.count();
    let seed = ask.prompt.fingerprint() ^ config.seed;
    let (output_tokens, finish) = outcome(config, &ask, seed);
    let block_hashes = hashes(ask.prompt, seed, output_tokens);
    let request = Request { prompt_tokens, output_tokens, finish, block_hashes };
    let ticket = realtime.submit(request, ask.max_tokens).map_err(|refusal| match refusal {
        SubmitError::QueueFull => Problem::Busy,
        SubmitError::TooLarge { .. } | SubmitError::DuplicateId => Problem::Internal(refusal.to_string()),
    })?;
    let name = request_id.map_or_else(|| realtime.name(), str::to_owned);
    let block_tokens = config.profile.block_tokens.max(1);
    Ok(Generation {
        ticket,
        shape: Shape::new(ask.dialect, &name, unix_seconds() as u64, &config.model),
        stream_usage: StreamUsage { at_end: ask.include_usage, on_every_event: ask.continuous_usage },
        seed,
        prompt_tokens,
        whole_block_tokens: prompt_tokens - prompt_tokens % block_tokens,
    })
}

/// How many tokens the model would say, and which comes first: its own end or the limit.
fn outcome(config: &SimConfig, ask: &Ask, seed: u64) -> (u32, FinishReason) {
    if ask.ignore_eos {
        return (ask.max_tokens, FinishReason::Length);
    }
    let (least, most) = (f64::from(config.output_tokens.0.max(1)), f64::from(config.output_tokens.1.max(1)));
    let natural = (least * (most / least).powf(SeededRng::new(seed).unit())).round() as u32;
    if natural < ask.max_tokens {
        (natural.max(1), FinishReason::Stop)
    } else {
        (ask.max_tokens, FinishReason::Length)
    }
}

/// Block hashes of the prompt and of the answer that will follow it.
fn hashes(mut tally: Tally, seed: u64, output_tokens: u32) -> Vec<u64> {
    for index in 0..output_tokens {
        super::tokens::pieces(word(seed, index)).for_each(|token| tally.push(token));
    }
    tally.into_hashes()
}

async fn whole(mut generation: Generation) -> Result<Answer, Problem> {
    let mut text = String::new();
    while let Some(output) = generation.ticket.next().await {
        text.push_str(generation.word(&output));
        if let Some(finish) = output.finish {
            let usage = generation.usage(&output);
            return Ok(Answer::json(generation.shape.whole(&text, finish, usage)));
        }
    }
    Err(Problem::Internal("the engine stopped".to_owned()))
}
