//! One session: its turns, one after the other.

use super::Shared;
use super::exchange::{ask, now};
use super::talk::Talk;
use crate::rng::SeededRng;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Runs the session whose first request is `number`, meant to be sent at `intended`.
pub(super) async fn session(shared: &Shared, number: u64, intended: Instant) {
    let config = &shared.config;
    let mut rng = SeededRng::stream(config.seed, number);
    let mut talk = Talk::new(config, &mut rng);
    let name = format!("load-{}-{number}", config.seed);
    let turns = config.turns.draw(&mut rng);
    let (mut number, mut intended) = (number, intended);
    for turn in 0..turns {
        if turn > 0 {
            // Nobody waits for a turn that will not be sent.
            let Some(due) = now().checked_add(think(&mut rng, config.think)) else { return };
            if shared.is_after_the_end(due) {
                return;
            }
            intended = due;
            tokio::select! {
                () = sleep_until(intended) => {}
                () = shared.all_taken() => return,
            }
            let Some(next) = shared.take() else { return };
            number = next;
        }
        let tokens = tokens(shared, number, &mut rng);
        let body = talk.ask(config, &mut rng, tokens);
        // Without its answer a session cannot go on.
        let Some(answer) = ask(shared, &name, body, intended).await else { return };
        talk.answered(answer);
    }
}

fn tokens(shared: &Shared, number: u64, rng: &mut SeededRng) -> (u32, u32) {
    let trace = &shared.config.trace;
    let at = usize::try_from(number).unwrap_or(0) % trace.len().max(1);
    trace.get(at).copied().unwrap_or_else(|| (shared.config.prompt.draw(rng), shared.config.output.draw(rng)))
}

fn think(rng: &mut SeededRng, mean: Duration) -> Duration {
    if mean.is_zero() {
        return mean;
    }
    Duration::try_from_secs_f64(rng.exponential(mean.as_secs_f64())).unwrap_or(Duration::MAX)
}
