//! The loads that show what an engine takes.

use super::fit::{Decode, Observations, Prefill};
use crate::client::{BadTarget, Outcome};
use crate::load::{Lengths, Load, LoadConfig, Pace, Report};

/// How much to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Base URL, key, model, words and patience; the rest of it is not used.
    pub load: LoadConfig,
    /// Lengths of single prompts, in tokens, ascending.
    pub prompts: Vec<u32>,
    /// Sizes of batches, ascending.
    pub batches: Vec<u32>,
    /// Tokens of each answer of a batch.
    pub answer: u32,
    /// How often each is measured.
    pub rounds: u32,
}

/// Single prompts are short work, and what they take is small against what disturbs: so many times the rounds.
const SINGLES: u32 = 4;

/// What is being measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A single prompt of about so many tokens.
    Prefill(u32),
    /// A batch of that size behind prompts of about so many tokens.
    Decode(u32, u32),
    /// A prompt of about so many tokens that the engine has seen.
    Cached(u32),
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// For the fit.
    pub observations: Observations,
    /// The longest prompt when nothing of it was known.
    pub cold: Prefill,
    /// A prompt of that length when the cache had nearly all of it.
    pub warm: Prefill,
    /// The part of that prompt's tokens that the engine reported as cached; 0 where it reports none.
    pub cached_share: f64,
}

/// Why there is nothing to fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// See [`BadTarget`].
    #[error(transparent)]
    Target(#[from] BadTarget),
    /// Requests failed.
    #[error("{stage:?}: {count} requests ended with: {outcome}")]
    Failed {
        /// What was measured.
        stage: Stage,
        /// The most frequent failure.
        outcome: Outcome,
        /// How often.
        count: u64,
    },
}

impl Plan {
    fn singles(&self) -> u32 {
        self.rounds.saturating_mul(SINGLES).max(2)
    }
}

/// Measures everything, `on_stage` told of each part before it begins.
///
/// # Errors
/// See [`MeasureError`].
pub async fn measure(plan: &Plan, mut on_stage: impl FnMut(Stage)) -> Result<Found, MeasureError> {
    let mut seed = plan.load.seed;
    let mut observations = Observations::default();
    for &tokens in &plan.prompts {
        let stage = Stage::Prefill(tokens);
        on_stage(stage);
        seed += 1;
        let report = run(plan, stage, 1, seed).await?;
        // Alone on the engine: whatever disturbs makes it longer, nothing makes it shorter.
        observations.prefill.push(Prefill { tokens: mean_prompt(&report), took: report.e2e.min });
    }
    let (short, long) = ends(&plan.prompts);
    for tokens in [short, long] {
        for &batch in &plan.batches {
            let stage = Stage::Decode(batch, tokens);
            on_stage(stage);
            seed += 2;
            let first = run(plan, stage, 1, seed - 1).await?;
            let report = run(plan, stage, plan.answer, seed).await?;
            // Not from the distances between tokens: a busy server sends several in one piece, up to whole answers.
            let after_first = report.e2e.p50.saturating_sub(first.e2e.p50);
            let took = after_first / plan.answer.saturating_sub(1).max(1);
            let context = mean_prompt(&report) + f64::from(plan.answer) / 2.0;
            observations.decode.push(Decode { batch: f64::from(batch), context, took });
        }
    }
    let stage = Stage::Cached(long);
    on_stage(stage);
    let report = run(plan, stage, 1, seed + 1).await?;
    let cold = observations.prefill.last().copied().unwrap_or(Prefill { tokens: 0.0, took: report.e2e.max });
    // The first of them fills the cache.
    let warm = Prefill { tokens: mean_prompt(&report), took: report.e2e.min };
    let rounds = f64::from(plan.rounds.max(2));
    let cached_share =
        report.cached_tokens as f64 / report.prompt_tokens.max(1) as f64 * rounds / (rounds - 1.0);
    Ok(Found { observations, cold, warm, cached_share: cached_share.min(1.0) })
}

/// `answer`: tokens of each.
async fn run(plan: &Plan, stage: Stage, answer: u32, seed: u64) -> Result<Report, MeasureError> {
    let one = Lengths::Fixed(1);
    let base = LoadConfig {
        requests: Some(u64::from(plan.singles())),
        pace: Pace::Closed { concurrency: 1 },
        duration: None,
        turns: one,
        prefixes: 0,
        output: Lengths::Fixed(answer),
        trace: Vec::new(),
        ignore_eos: true,
        seed,
        ..plan.load.clone()
    };
    let config = match stage {
        Stage::Prefill(tokens) => LoadConfig { prompt: Lengths::Fixed(tokens), ..base },
        Stage::Decode(batch, tokens) => LoadConfig {
            pace: Pace::Closed { concurrency: batch as usize },
            requests: Some(u64::from(batch) * u64::from(plan.rounds.max(2))),
            prompt: Lengths::Fixed(tokens),
            ..base
        },
        Stage::Cached(tokens) => LoadConfig { prefixes: 1, prefix_tokens: tokens, prompt: one, ..base },
    };
    let mut load = Load::start(config)?;
    load.finished().await;
    let report = load.report().await;
    let worst =
        report.ended.iter().filter(|(outcome, _)| **outcome != Outcome::Ok).max_by_key(|(_, count)| **count);
    match worst {
        Some((outcome, count)) => Err(MeasureError::Failed { stage, outcome: *outcome, count: *count }),
        None => Ok(report),
    }
}

fn mean_prompt(report: &Report) -> f64 {
    report.prompt_tokens as f64 / report.ok().max(1) as f64
}

fn ends(prompts: &[u32]) -> (u32, u32) {
    (prompts.first().copied().unwrap_or(32), prompts.last().copied().unwrap_or(1024))
}
