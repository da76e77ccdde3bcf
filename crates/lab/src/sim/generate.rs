//! From a request that will be served to the engine's request and the answer to it.

use super::SimConfig;
use super::answer::{Finish, Message, Reply, Shape, StreamUsage, Usage, Voice};
use super::ask::{Ask, Dialect};
use super::body::{Answer, EventStream};
use super::fault::Spoil;
use super::problem::Problem;
use super::realtime::{Ending, Piece, Realtime, Ticket};
use super::stored::{Keep, Stored};
use super::tokens::{Tally, word};
use super::wall_clock::unix_seconds;
use crate::engine::{FinishReason, Output, Request, SubmitError};
use crate::rng::SeededRng;
use std::sync::Arc;

/// vLLM's release and a hash of its configuration; ours is constant.
pub(super) const SYSTEM_FINGERPRINT: &str = "vllm-0.32.0-51c0de00";

/// What requests are served with.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) config: Arc<SimConfig>,
    pub(super) realtime: Arc<Realtime>,
    pub(super) stored: Arc<Stored>,
}

/// An answer on its way: the engine's tokens, and what to make of them.
#[derive(Debug)]
pub(super) struct Generation {
    pub(super) ticket: Ticket,
    pub(super) voice: Voice,
    /// As of the last token.
    pub(super) usage: Usage,
    pub(super) spoil: Option<Spoil>,
    seed: u64,
    /// Prompt tokens in whole blocks.
    whole_block_tokens: u32,
}

impl Generation {
    /// Books a token; its text.
    pub(super) fn book(&mut self, output: &Output) -> &'static str {
        self.usage.completion = output.generated;
        self.usage.cached = output.cached_tokens;
        self.usage.created = self.whole_block_tokens.saturating_sub(output.cached_tokens);
        word(self.seed, output.generated.saturating_sub(1))
    }
}

impl Host {
    /// Submits the request and answers it: at once with a stream, or when the answer is whole.
    pub(super) async fn generate(
        &self,
        ask: Ask,
        request_id: Option<&str>,
        spoil: Option<Spoil>,
    ) -> Result<Answer, Problem> {
        let (stream, dialect) = (ask.stream, ask.dialect);
        if let Some(Spoil { says: Some(problem), after }) = &spoil
            && (!stream || *after == 0)
        {
            return if stream { refused_late(dialect, problem.clone()) } else { Err(problem.clone()) };
        }
        match self.begin(ask, request_id, spoil) {
            Ok(generation) if stream => Ok(Answer::Events(EventStream::new(generation))),
            Ok(generation) => whole(generation).await,
            Err(Problem::Busy) if stream => refused_late(dialect, Problem::Busy),
            Err(problem) => Err(problem),
        }
    }

    fn begin(&self, ask: Ask, request_id: Option<&str>, spoil: Option<Spoil>) -> Result<Generation, Problem> {
        let prompt = ask.prompt.count();
        let seed = ask.prompt.fingerprint() ^ self.config.seed;
        let (output_tokens, finish) = self.outcome(&ask, seed);
        let block_hashes = hashes(ask.prompt.clone(), seed, output_tokens);
        let request = Request { prompt_tokens: prompt, output_tokens, finish, block_hashes };
        let ticket = self.submit(request, ask.max_tokens)?;
        let block_tokens = self.config.profile.block_tokens.max(1);
        Ok(Generation {
            ticket,
            voice: self.voice(ask, request_id),
            usage: Usage { prompt, ..Usage::default() },
            spoil,
            seed,
            whole_block_tokens: prompt - prompt % block_tokens,
        })
    }

    pub(super) fn submit(&self, request: Request, max_tokens: u32) -> Result<Ticket, Problem> {
        self.realtime.submit(request, max_tokens).map_err(|refusal| match refusal {
            SubmitError::QueueFull => Problem::Busy,
            SubmitError::TooLarge { .. } | SubmitError::DuplicateId => Problem::Internal(refusal.to_string()),
        })
    }

    fn voice(&self, ask: Ask, request_id: Option<&str>) -> Voice {
        let (created, model) = (unix_seconds() as u64, self.config.model.as_str());
        let name = request_id.map_or_else(|| self.realtime.name(), str::to_owned);
        match (ask.dialect, ask.response) {
            (Dialect::Messages, _) => Voice::Messages(Message::new(&name, model)),
            (Dialect::Responses, Some(parts)) => {
                // The request's id does not name a response.
                let names = [self.realtime.name(), self.realtime.name()];
                let stored = &self.stored;
                let keep = parts.messages.map(|messages| Keep { stored: Arc::clone(stored), messages });
                let reply = Reply::new(names, created, model, ask.max_tokens, parts.echo, keep);
                Voice::Responses(Box::new(reply))
            }
            (dialect, _) => {
                let asked = StreamUsage { at_end: ask.include_usage, on_every_event: ask.continuous_usage };
                Voice::OpenAi(Shape::new(dialect, &name, created, model), asked)
            }
        }
    }

    /// How many tokens the model would say, and which comes first: its own end or the limit.
    fn outcome(&self, ask: &Ask, seed: u64) -> (u32, FinishReason) {
        if ask.ignore_eos {
            return (ask.max_tokens, FinishReason::Length);
        }
        let (least, most) = self.config.output_tokens;
        let (least, most) = (f64::from(least.max(1)), f64::from(most.max(1)));
        let natural = (least * (most / least).powf(SeededRng::new(seed).unit())).round() as u32;
        if natural < ask.max_tokens {
            (natural.max(1), FinishReason::Stop)
        } else {
            (ask.max_tokens, FinishReason::Length)
        }
    }
}

/// A refusal of a stream, in the harder of its forms where the dialect has it: inside a 200.
fn refused_late(dialect: Dialect, problem: Problem) -> Result<Answer, Problem> {
    match dialect {
        Dialect::Chat | Dialect::Text => Ok(Answer::Events(EventStream::refused(&problem))),
        Dialect::Messages | Dialect::Responses => Err(problem),
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
    let finish = loop {
        match generation.ticket.next().await {
            Some(Piece::Token(output)) => {
                text.push_str(generation.book(&output));
                if let Some(finish) = output.finish {
                    break finish.into();
                }
            }
            Some(Piece::Ended(Ending::Aborted)) => break Finish::Abort,
            Some(Piece::Ended(Ending::Died)) => return Err(Problem::Dead),
            None => return Err(Problem::Internal("the engine stopped".to_owned())),
        }
    };
    let answer = Answer::json(generation.voice.whole(&text, finish, generation.usage));
    Ok(if generation.spoil.is_some() { answer.torn() } else { answer })
}
