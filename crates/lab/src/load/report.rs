//! What was measured.

use super::goodput::Goodput;
use crate::client::{Outcome, Told};
use crate::latency::{LatencyHistogram, LatencySummary};
use std::collections::BTreeMap;
use std::time::Duration;

/// The times of one request, from its intended start.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// How much later it was sent.
    pub(super) lag: Duration,
    /// To the first event with content.
    pub(super) first: Option<Duration>,
    /// From each event with content to the next.
    pub(super) between: Vec<Duration>,
    /// To the last event with content.
    pub(super) to_last: Duration,
    /// To the end of the answer.
    pub(super) whole: Duration,
}

/// Where a load stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Since the start.
    pub elapsed: Duration,
    /// Requests sent.
    pub sent: u64,
    /// Requests that ended.
    pub ended: u64,
    /// Those of them that failed.
    pub failed: u64,
    /// Tokens of answers that ended, and events of none that runs.
    pub output_tokens: u64,
}

/// What a load came to. Latencies are of requests that ended well, and count from their intended start.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// From the first intended start to the last end.
    pub duration: Duration,
    /// Requests sent.
    pub sent: u64,
    /// Requests by how they ended.
    pub ended: BTreeMap<Outcome, u64>,
    /// Requests that kept every stated limit.
    pub good: u64,
    /// Prompt tokens that answers reported.
    pub prompt_tokens: u64,
    /// Those of them that came from a prefix cache.
    pub cached_tokens: u64,
    /// Tokens of answers: as reported, or else one for each event with content.
    pub output_tokens: u64,
    /// To the first token.
    pub ttft: LatencySummary,
    /// The same from the moment of sending.
    pub ttft_from_send: LatencySummary,
    /// From each token to the next.
    pub itl: LatencySummary,
    /// Each request's mean time per token after the first (TPOT).
    pub tpot: LatencySummary,
    /// To the end of the answer.
    pub e2e: LatencySummary,
    /// How much later than meant requests were sent.
    pub lag: LatencySummary,
}

impl Report {
    /// Requests that ended well.
    #[must_use]
    pub fn ok(&self) -> u64 {
        self.ended.get(&Outcome::Ok).copied().unwrap_or(0)
    }

    /// Requests that ended in any other way, without those broken off by us.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.ended.iter().filter(|(outcome, _)| is_failure(**outcome)).map(|(_, count)| count).sum()
    }
}

fn is_failure(outcome: Outcome) -> bool {
    !matches!(outcome, Outcome::Ok | Outcome::BrokenOff)
}

/// Everything counted so far.
#[derive(Debug, Default)]
pub(super) struct Booked {
    first_start: Option<Duration>,
    last_end: Duration,
    sent: u64,
    ended: BTreeMap<Outcome, u64>,
    good: u64,
    prompt_tokens: u64,
    cached_tokens: u64,
    output_tokens: u64,
    ttft: LatencyHistogram,
    ttft_from_send: LatencyHistogram,
    itl: LatencyHistogram,
    tpot: LatencyHistogram,
    e2e: LatencyHistogram,
    lag: LatencyHistogram,
}

impl Booked {
    pub(super) fn sent(&mut self, intended: Duration) {
        self.sent += 1;
        self.first_start = Some(self.first_start.map_or(intended, |first| first.min(intended)));
    }

    /// `at`: since the start of the load.
    pub(super) fn ended(
        &mut self,
        outcome: Outcome,
        told: &Told,
        times: &Times,
        at: Duration,
        goodput: &Goodput,
    ) {
        *self.ended.entry(outcome).or_default() += 1;
        self.last_end = self.last_end.max(at);
        self.prompt_tokens += told.prompt_tokens;
        self.cached_tokens += told.cached_tokens;
        let tokens = if told.completion_tokens > 0 { told.completion_tokens } else { told.events.into() };
        self.output_tokens += tokens;
        self.lag.record(times.lag);
        if outcome != Outcome::Ok {
            return;
        }
        let after_first = u32::try_from(tokens).unwrap_or(u32::MAX).saturating_sub(1);
        let tpot = times.first.map(|first| times.to_last.saturating_sub(first)).filter(|_| after_first > 0);
        let tpot = tpot.map(|time| time / after_first);
        if let Some(first) = times.first {
            self.ttft.record(first);
            self.ttft_from_send.record(first.saturating_sub(times.lag));
        }
        times.between.iter().for_each(|time| self.itl.record(*time));
        if let Some(tpot) = tpot {
            self.tpot.record(tpot);
        }
        self.e2e.record(times.whole);
        self.good += u64::from(goodput.holds(times.first, tpot, times.whole));
    }

    pub(super) fn progress(&self, elapsed: Duration) -> Progress {
        let failures = self.ended.iter().filter(|(outcome, _)| is_failure(**outcome));
        Progress {
            elapsed,
            sent: self.sent,
            ended: self.ended.values().sum(),
            failed: failures.map(|(_, count)| count).sum(),
            output_tokens: self.output_tokens,
        }
    }

    pub(super) fn report(&self) -> Report {
        Report {
            duration: self.last_end.saturating_sub(self.first_start.unwrap_or_default()),
            sent: self.sent,
            ended: self.ended.clone(),
            good: self.good,
            prompt_tokens: self.prompt_tokens,
            cached_tokens: self.cached_tokens,
            output_tokens: self.output_tokens,
            ttft: self.ttft.summary(),
            ttft_from_send: self.ttft_from_send.summary(),
            itl: self.itl.summary(),
            tpot: self.tpot.summary(),
            e2e: self.e2e.summary(),
            lag: self.lag.summary(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn told(tokens: u64) -> Told {
        let mut told = Told::default();
        told.completion_tokens = tokens;
        told
    }

    #[test]
    fn times_count_from_the_intended_start_and_the_token_time_from_the_first_token() {
        let mut booked = Booked::default();
        booked.sent(ms(100));
        // Sent 40 ms late, three tokens 10 ms apart.
        let times = Times {
            lag: ms(40),
            first: Some(ms(50)),
            between: vec![ms(10), ms(10)],
            to_last: ms(70),
            whole: ms(71),
        };
        booked.ended(Outcome::Ok, &told(3), &times, ms(171), &Goodput::default());
        let report = booked.report();
        let of = |summary: LatencySummary| (summary.count, summary.max);
        assert_eq!((of(report.ttft), of(report.ttft_from_send)), ((1, ms(50)), (1, ms(10))));
        assert_eq!((of(report.itl), of(report.tpot)), ((2, ms(10)), (1, ms(10))));
        assert_eq!((of(report.e2e), of(report.lag)), ((1, ms(71)), (1, ms(40))));
        assert_eq!((report.duration, report.ok(), report.good, report.output_tokens), (ms(71), 1, 1, 3));
    }

    #[test]
    fn a_failed_request_is_counted_and_neither_measured_nor_good() {
        let mut booked = Booked::default();
        for outcome in [Outcome::Status(503), Outcome::Cut, Outcome::BrokenOff] {
            booked.sent(ms(0));
            booked.ended(
                outcome,
                &told(0),
                &Times { first: Some(ms(1)), ..Times::default() },
                ms(5),
                &Goodput::default(),
            );
        }
        let report = booked.report();
        assert_eq!((report.sent, report.failed(), report.ok(), report.good), (3, 2, 0, 0));
        assert_eq!((report.ttft.count, report.e2e.count), (0, 0));
    }

    #[test]
    fn without_reported_tokens_events_are_counted() {
        let mut booked = Booked::default();
        let mut told = told(0);
        told.events = 5;
        booked.ended(
            Outcome::Ok,
            &told,
            &Times { first: Some(ms(1)), to_last: ms(9), ..Times::default() },
            ms(9),
            &Goodput::default(),
        );
        assert_eq!((booked.report().output_tokens, booked.report().tpot.max), (5, ms(2)));
    }
}
