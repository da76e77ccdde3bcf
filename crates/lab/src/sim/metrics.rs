//! What `/metrics` tells: the model's counters and what was observed while serving.

mod page;

use super::SimConfig;
use super::histogram::Histogram;
use super::realtime::Realtime;
use crate::engine::{Counters, Output};
use std::collections::BTreeMap;
use std::time::Duration;

/// Seconds, as vLLM buckets them.
const FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
];
const BETWEEN_TOKENS: &[f64] = &[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const PHASES: &[f64] = &[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];
/// Tokens, in vLLM's 1-2-5 series up to the context; ours ends at 200,000 whatever the context is.
const TOKENS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0,
    100_000.0, 200_000.0,
];
const STEP_TOKENS: &[f64] =
    &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// One request while it is answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    prompt_tokens: u32,
    max_tokens: u32,
    first: Duration,
    last: Duration,
}

impl Flight {
    pub(super) fn new(prompt_tokens: u32, max_tokens: u32) -> Self {
        Self { prompt_tokens, max_tokens, first: Duration::ZERO, last: Duration::ZERO }
    }
}

/// Distributions since the replica's start.
#[derive(Clone, Debug)]
pub(super) struct Observations {
    first_token: Histogram,
    between_tokens: Histogram,
    per_output_token: Histogram,
    whole: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompt_tokens: Histogram,
    generation_tokens: Histogram,
    max_tokens: Histogram,
    computed_tokens: Histogram,
    step_tokens: Histogram,
    /// Steps and their tokens that `step_tokens` holds already.
    seen_steps: (u64, u64),
    /// Handler, method and status class.
    responses: BTreeMap<(&'static str, &'static str, u16), u64>,
}

impl Default for Observations {
    fn default() -> Self {
        let histogram = Histogram::new;
        Self {
            first_token: histogram(FIRST_TOKEN),
            between_tokens: histogram(BETWEEN_TOKENS),
            per_output_token: histogram(BETWEEN_TOKENS),
            whole: histogram(PHASES),
            queue: histogram(PHASES),
            inference: histogram(PHASES),
            prefill: histogram(PHASES),
            decode: histogram(PHASES),
            prompt_tokens: histogram(TOKENS),
            generation_tokens: histogram(TOKENS),
            max_tokens: histogram(TOKENS),
            computed_tokens: histogram(TOKENS),
            step_tokens: histogram(STEP_TOKENS),
            seen_steps: (0, 0),
            responses: BTreeMap::new(),
        }
    }
}

impl Observations {
    pub(super) fn token(&mut self, flight: &mut Flight, output: &Output) {
        if output.generated == 1 {
            flight.first = output.at;
            self.first_token.observe_time(output.at.saturating_sub(output.submitted));
        } else {
            self.between_tokens.observe_time(output.at.saturating_sub(flight.last));
        }
        flight.last = output.at;
        if output.finish.is_none() {
            return;
        }
        let decode = output.at.saturating_sub(flight.first);
        if output.generated > 1 {
            self.per_output_token.observe_time(decode / (output.generated - 1));
        }
        self.whole.observe_time(output.at.saturating_sub(output.submitted));
        self.queue.observe_time(output.admitted.saturating_sub(output.submitted));
        self.inference.observe_time(output.at.saturating_sub(output.admitted));
        self.prefill.observe_time(flight.first.saturating_sub(output.admitted));
        self.decode.observe_time(decode);
        self.prompt_tokens.observe(f64::from(flight.prompt_tokens));
        self.generation_tokens.observe(f64::from(output.generated));
        self.max_tokens.observe(f64::from(flight.max_tokens));
        self.computed_tokens.observe(f64::from(flight.prompt_tokens.saturating_sub(output.cached_tokens)));
    }

    /// Steps since the last call; several that were made up for together are counted at their mean size.
    pub(super) fn steps(&mut self, counters: &Counters) {
        let steps = counters.steps.saturating_sub(self.seen_steps.0);
        let tokens = counters.step_tokens.saturating_sub(self.seen_steps.1);
        for _ in 0..steps {
            self.step_tokens.observe(tokens as f64 / steps as f64);
        }
        self.seen_steps = (counters.steps, counters.step_tokens);
    }

    pub(super) fn count_response(&mut self, handler: &'static str, method: &'static str, status: u16) {
        *self.responses.entry((handler, method, status / 100)).or_default() += 1;
    }
}

/// The page as of now. `started`: when the replica came up, in seconds since 1970.
pub(super) fn page(config: &SimConfig, realtime: &Realtime, started: f64) -> String {
    realtime.observe(|counters, observations| page::write(config, counters, observations, started))
}
