//! What the demo's requests add up to, taken from usage lines.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_proxy::usage::{Outcome, UsageLine, UsageSink};

/// The percentiles are those of this many streams that ended last.
const KEPT: usize = 2000;

/// Counts the requests of the demo.
#[derive(Debug, Default)]
pub(super) struct Stats {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    requests: u64,
    failed: u64,
    refused: u64,
    gone: u64,
    running_at_end: u64,
    ending: bool,
    retried: u64,
    tokens: u64,
    /// Requests that each model was asked.
    models: BTreeMap<String, u64>,
    ttft: VecDeque<Duration>,
}

/// The sums now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Requests that have ended.
    pub(super) requests: u64,
    /// Those that a replica or the gateway failed.
    pub(super) failed: u64,
    /// Those that were the client's fault.
    pub(super) refused: u64,
    /// Those whose client left.
    pub(super) gone: u64,
    /// Those that the demo's end broke off.
    pub(super) running_at_end: u64,
    /// Those that took more than one attempt.
    pub(super) retried: u64,
    /// Tokens generated for all of them.
    pub(super) tokens: u64,
    /// Median time to the first token.
    pub(super) ttft_p50: Option<Duration>,
    /// 95th percentile of it.
    pub(super) ttft_p95: Option<Duration>,
}

impl Stats {
    pub(super) fn totals(&self) -> Totals {
        let counts = self.lock();
        let mut sorted: Vec<Duration> = counts.ttft.iter().copied().collect();
        sorted.sort_unstable();
        Totals {
            requests: counts.requests,
            failed: counts.failed,
            refused: counts.refused,
            gone: counts.gone,
            running_at_end: counts.running_at_end,
            retried: counts.retried,
            tokens: counts.tokens,
            ttft_p50: percentile(&sorted, 50),
            ttft_p95: percentile(&sorted, 95),
        }
    }

    /// From now on it is the demo that ends requests, and not their clients.
    pub(super) fn ending(&self) {
        self.lock().ending = true;
    }

    pub(super) fn summary(&self) -> String {
        let Totals { requests, failed, refused, gone, running_at_end, retried, tokens, ttft_p50, ttft_p95 } =
            self.totals();
        let ok = requests - failed - refused - gone - running_at_end;
        let models = self.models();
        format!(
            "\
requests {requests}: {ok} ok, {failed} failed, {refused} refused, {gone} left by their client; {retried} retried
running  {running_at_end} at the end, broken off
tokens   {tokens} generated
{models}TTFT     p50 {}, p95 {}
",
            millis(ttft_p50),
            millis(ttft_p95)
        )
    }

    /// How many requests went to which model, where there are several.
    fn models(&self) -> String {
        let counts = self.lock();
        let each: Vec<String> =
            counts.models.iter().map(|(model, requests)| format!("{model} {requests}")).collect();
        if each.len() < 2 { String::new() } else { format!("models   {}\n", each.join(", ")) }
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UsageSink for Stats {
    fn write(&self, line: &UsageLine<'_>) {
        let mut counts = self.lock();
        counts.requests += 1;
        counts.retried += u64::from(line.attempts > 1);
        counts.tokens += line.usage.map_or(0, |usage| usage.completion_tokens);
        match line.outcome {
            Outcome::Ok => {}
            Outcome::ClientGone | Outcome::ClientGoneQueued | Outcome::GatewayStopped if counts.ending => {
                counts.running_at_end += 1
            }
            Outcome::ClientGone | Outcome::ClientGoneQueued => counts.gone += 1,
            Outcome::ClientError
            | Outcome::RejectedAuth
            | Outcome::RejectedLimit
            | Outcome::RejectedQueue
            | Outcome::RejectedPoison => counts.refused += 1,
            Outcome::UpstreamError
            | Outcome::UpstreamAborted
            | Outcome::TimeoutSilence
            | Outcome::TimeoutTotal
            | Outcome::NoReplica
            | Outcome::GatewayStopped => counts.failed += 1,
        }
        if let Some(model) = line.upstream_model {
            *counts.models.entry(model.to_owned()).or_default() += 1;
        }
        if let Some(ttft) = line.ttft {
            counts.ttft.truncate(KEPT - 1);
            counts.ttft.push_front(ttft);
        }
    }
}

/// Whole milliseconds, or a dash.
pub(super) fn millis(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".into(), |duration| format!("{} ms", duration.as_millis()))
}

/// Nearest rank.
fn percentile(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let sorted: Vec<Duration> = (1..=20).map(Duration::from_millis).collect();
        for (values, percent, expected) in [
            (0, 50, None),
            (1, 50, Some(1)),
            (1, 95, Some(1)),
            (20, 50, Some(10)),
            (20, 95, Some(19)),
            (2, 95, Some(2)),
        ] {
            let found = percentile(&sorted[..values], percent);
            assert_eq!(found, expected.map(Duration::from_millis), "{percent} % of {values}");
        }
    }

    #[test]
    fn a_summary_without_requests_is_all_zero() {
        let expected = "\
requests 0: 0 ok, 0 failed, 0 refused, 0 left by their client; 0 retried
running  0 at the end, broken off
tokens   0 generated
TTFT     p50 -, p95 -
";
        assert_eq!(Stats::default().summary(), expected);
    }
}
