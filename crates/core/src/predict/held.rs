//! What late binding asks: how long a prompt takes, and when a replica has little enough before it.

use super::Predictor;
use super::burden::{Burden, Usual};
use super::fit::Fit;
use super::work::Work;
use crate::pick::Prompt;
use crate::time::Time;
use std::time::Duration;

impl Predictor {
    /// Seconds of prefill where the prompt is known best, at ordinary speed.
    pub(crate) fn expected(&self, prompt: &Prompt<'_>) -> f64 {
        let deepest = self.mirror.deepest(&self.mirror.find(prompt.blocks));
        self.fit.seconds(Work::of(prompt.tokens, deepest.saturating_mul(prompt.block_tokens)))
    }

    /// Seconds of prefill that the replica has before a newcomer: W.
    pub(crate) fn queued(&self, now: Time, replica: usize) -> f64 {
        let burden = self.burdens.get(replica);
        burden.map_or(0.0, |burden| burden.wait(now, &self.fit, self.rates.usual()))
    }

    /// When that will have come down to `hold`, if time alone brings it there; never before `now` and a nanosecond.
    pub(crate) fn comes_down_to(&self, now: Time, replica: usize, hold: Duration) -> Option<Time> {
        let burden = self.burdens.get(replica)?;
        let after = burden.comes_down_to(now, &self.fit, self.rates.usual(), hold.as_secs_f64())?;
        Some(now + Duration::from_secs_f64(after) + Duration::from_nanos(1))
    }
}

impl Burden {
    /// In how many seconds the wait is `goal` seconds or less, if nothing happens until then. Two things come down by
    /// themselves, each by a second a second: what the engine works on, and what others were seen to have waiting.
    fn comes_down_to(&self, now: Time, fit: &Fit, usual: Usual, goal: f64) -> Option<f64> {
        let missing = (self.wait(now, fit, usual) - goal).max(0.0);
        let own = self.begun_left(now, fit);
        let others = self.foreign_left(now, usual);
        let both = own.min(others);
        if missing <= 2.0 * both {
            Some(missing / 2.0)
        } else if missing <= own + others {
            Some(missing - both)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::EngineLoad;

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    /// Nothing but time ends the first one's prefill; of those behind it a first byte is awaited.
    fn prompt(nth: usize, tokens: u32) -> Prompt<'static> {
        Prompt { tokens, whole_answer: nth == 0, ..Prompt::default() }
    }

    #[test]
    fn it_is_told_to_the_nanosecond_when_time_alone_leaves_little_enough_queued() {
        // Prompts sent at 0, requests of others seen waiting at 0, now, the goal; when it is reached.
        type Row = (&'static [u32], u32, f64, f64, Option<f64>);
        let rows: [Row; 9] = [
            (&[], 0, 0.0, 0.1, Some(0.0)),
            (&[10_000], 0, 0.0, 0.1, Some(1.1)),
            (&[10_000], 0, 1.0, 0.1, Some(1.1)),
            (&[10_000], 0, 1.15, 0.1, Some(1.15)),
            // What is behind the first does not come down.
            (&[10_000, 5000], 0, 0.0, 0.6, Some(1.15)),
            (&[10_000, 5000], 0, 0.0, 0.5, None),
            // Others' come down beside our own: 1.2 s and three usual prompts of 1.2 s.
            (&[10_000], 3, 0.0, 4.0, Some(0.4)),
            (&[10_000], 3, 0.0, 0.1, Some(3.5)),
            (&[10_000, 10_000], 1, 0.0, 0.1, None),
        ];
        for (prompts, others, now, goal, expected) in rows {
            let mut predictor = Predictor::new();
            let seat = predictor.add_replica();
            for (nth, tokens) in prompts.iter().enumerate() {
                predictor.sent(at(0.0), seat, &prompt(nth, *tokens), None);
            }
            predictor.scrape_started(seat);
            let waiting = others + prompts.len() as u32;
            predictor.scraped(at(0.0), seat, Some(EngineLoad { waiting, ..EngineLoad::default() }));
            let hold = Duration::from_secs_f64(goal);
            let due = predictor.comes_down_to(at(now), seat, hold);
            let case = format!("{prompts:?}, {others} others, {now}, {goal}: {due:?}");
            assert_eq!(due.is_some(), expected.is_some(), "{case}");
            if let (Some(due), Some(expected)) = (due, expected) {
                assert!(due > at(now) && due.since(at(expected)) < Duration::from_micros(1), "{case}");
                assert!(at(expected).since(due) < Duration::from_micros(1), "{case}");
                assert!(predictor.queued(due, seat) <= goal + 1e-9, "{case}");
            }
        }
    }
}
