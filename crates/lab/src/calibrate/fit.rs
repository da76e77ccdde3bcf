//! From times to the cost of a step.

use crate::engine::{Profile, StepCost};
use std::time::Duration;

/// Rounds of descent; it settles in some hundred.
const ROUNDS: usize = 20_000;

/// What a single prompt of so many tokens took with an answer of one token, alone on the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefill {
    /// Tokens of the prompt.
    pub tokens: f64,
    /// From sending to the end.
    pub took: Duration,
}

/// What a token took in a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decode {
    /// Requests in the batch.
    pub batch: f64,
    /// Tokens before the one that is made, on the mean.
    pub context: f64,
    /// From token to token of one request.
    pub took: Duration,
}

/// Everything measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observations {
    /// Single prompts.
    pub prefill: Vec<Prefill>,
    /// Batches.
    pub decode: Vec<Decode>,
}

/// The cost that explains the observations best.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// Never negative.
    pub cost: StepCost,
    /// The mean over all observations of how far the cost is off, as a part of what was observed.
    pub error: f64,
}

/// The cost with the least squared relative errors under the condition that no part of it is negative (coordinate descent on
/// the normal equations: Franc, Hlaváč and Navara, "Sequential coordinate-wise algorithm for the non-negative least squares
/// problem", 2005). `profile` says how a long prompt is cut. Without observations it costs nothing.
#[must_use]
pub fn fit(observations: &Observations, profile: &Profile) -> Fit {
    // What took no time was not measured: it would weigh more than all the rest.
    let rows: Vec<_> = rows(observations, profile).into_iter().filter(|(_, took)| *took > 0.0).collect();
    let (mut normal, mut right) = ([[0.0; 5]; 5], [0.0; 5]);
    for (row, took) in &rows {
        // Relative errors: a millisecond matters more in a short time.
        let weight = 1.0 / (took * took).max(1.0);
        for (i, a) in row.iter().enumerate() {
            right[i] += weight * a * took;
            for (j, b) in row.iter().enumerate() {
                normal[i][j] += weight * a * b;
            }
        }
    }
    let solution = descend(&normal, &right);
    let explained = |row: &[f64; 5]| row.iter().zip(&solution).map(|(a, x)| a * x).sum::<f64>();
    let errors = rows.iter().map(|(row, took)| (explained(row) - took).abs() / took.max(1.0));
    let error = errors.sum::<f64>() / rows.len().max(1) as f64;
    let [base, token, position, sequence, context] = solution;
    let cost = StepCost {
        base: Duration::from_nanos(base as u64),
        prefill_ns_per_token: token,
        prefill_ns_per_token_position: position,
        decode_ns_per_sequence: sequence,
        decode_ns_per_context_token: context,
    };
    Fit { cost, error }
}

/// One equation for each observation: how often each part of the cost is in it, and the nanoseconds it took.
fn rows(observations: &Observations, profile: &Profile) -> Vec<([f64; 5], f64)> {
    let nanos = |took: Duration| took.as_nanos() as f64;
    let chunk = f64::from(profile.max_num_batched_tokens.max(1));
    let prefill = observations.prefill.iter().map(|seen| {
        let n = seen.tokens;
        // Chunks end to end have together the positions of the whole.
        ([(n / chunk).ceil(), n, n * n / 2.0, 0.0, 0.0], nanos(seen.took))
    });
    let decode = observations
        .decode
        .iter()
        .map(|seen| ([1.0, 0.0, 0.0, seen.batch, seen.batch * seen.context], nanos(seen.took)));
    prefill.chain(decode).collect()
}

fn descend(normal: &[[f64; 5]; 5], right: &[f64; 5]) -> [f64; 5] {
    let mut solution = [0.0_f64; 5];
    for _ in 0..ROUNDS {
        for (i, row) in normal.iter().enumerate() {
            if row[i] > 0.0 {
                let rest: f64 = (0..5).filter(|j| *j != i).map(|j| row[j] * solution[j]).sum();
                solution[i] = ((right[i] - rest) / row[i]).max(0.0);
            }
        }
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Output, Replica, Request, RequestId};

    /// Runs requests that arrive at once on an idle replica; their tokens.
    fn outputs(profile: &Profile, requests: &[(u32, u32)]) -> Vec<Output> {
        let mut replica = Replica::new(profile.clone());
        for (id, (prompt, output)) in (0..).zip(requests) {
            replica.submit(Duration::ZERO, RequestId(id), Request::unique(*prompt, *output)).unwrap();
        }
        while let Some(deadline) = replica.next_deadline() {
            replica.advance(deadline);
        }
        std::iter::from_fn(|| replica.poll_output()).collect()
    }

    fn observe(profile: &Profile) -> Observations {
        let prefill = [16, 100, 500, 1000, 2000, 5000, 9000].map(|tokens| {
            let took = outputs(profile, &[(tokens, 1)])[0].at;
            Prefill { tokens: f64::from(tokens), took }
        });
        let decode = [(1, 50), (4, 50), (16, 50), (64, 50), (1, 2000), (8, 2000), (32, 2000)].map(
            |(batch, prompt)| {
                let outputs = outputs(profile, &vec![(prompt, 400); batch]);
                let last = outputs.last().unwrap();
                // The batch is whole from the moment at which the last of them has its first token.
                let whole = outputs
                    .iter()
                    .filter(|output| output.generated == 1)
                    .map(|output| output.at)
                    .max()
                    .unwrap();
                let steps = outputs.iter().filter(|output| output.id == last.id && output.at > whole).count();
                let took = (last.at - whole) / u32::try_from(steps).unwrap();
                Decode { batch: batch as f64, context: f64::from(prompt) + 200.0, took }
            },
        );
        Observations { prefill: prefill.to_vec(), decode: decode.to_vec() }
    }

    #[test]
    fn the_cost_of_a_known_engine_is_found_again() {
        for profile in [Profile::gpu_8b(), Profile::h100(), Profile::fast()] {
            let found = fit(&observe(&profile), &profile);
            assert!(found.error < 0.02, "{found:?}");
            let near = |found: f64, real: f64| (found / real - 1.0).abs() < 0.1;
            let (cost, real) = (&found.cost, &profile.cost);
            assert!(near(cost.base.as_secs_f64(), real.base.as_secs_f64()), "{cost:?}");
            assert!(near(cost.prefill_ns_per_token, real.prefill_ns_per_token), "{cost:?}");
            assert!(near(cost.prefill_ns_per_token_position, real.prefill_ns_per_token_position), "{cost:?}");
            assert!(near(cost.decode_ns_per_sequence, real.decode_ns_per_sequence), "{cost:?}");
            assert!(near(cost.decode_ns_per_context_token, real.decode_ns_per_context_token), "{cost:?}");
        }
    }

    #[test]
    fn a_difference_that_came_to_nothing_does_not_count() {
        let profile = Profile::gpu_8b();
        let mut observations = observe(&profile);
        let nothing = Decode { batch: 4.0, context: 1000.0, took: Duration::ZERO };
        let without = fit(&observations, &profile);
        observations.decode.push(nothing);
        assert_eq!(fit(&observations, &profile), without);
    }

    #[test]
    fn no_part_is_negative_and_nothing_seen_costs_nothing() {
        let ms = Duration::from_millis;
        // Longer prompts that were faster: noise.
        let prefill = vec![Prefill { tokens: 10.0, took: ms(50) }, Prefill { tokens: 1000.0, took: ms(40) }];
        let cost = fit(&Observations { prefill, decode: Vec::new() }, &Profile::gpu_8b()).cost;
        assert!(cost.prefill_ns_per_token >= 0.0 && cost.prefill_ns_per_token_position >= 0.0);
        assert!((ms(39)..ms(51)).contains(&cost.base), "{cost:?}");
        let nothing = fit(&Observations::default(), &Profile::gpu_8b());
        assert_eq!((nothing.cost.base, nothing.error), (Duration::ZERO, 0.0));
    }
}
