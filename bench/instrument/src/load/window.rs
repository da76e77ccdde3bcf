//! What is counted, and when.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::Settings;
use super::connection::Answered;
use super::report::{Quantiles, Report};
use crate::process::{cpu_ns, rss_kib, tree};

/// Latencies are kept to three digits, up to an hour in nanoseconds: bounded memory, however long the run.
const DIGITS: u8 = 3;
const LONGEST: u64 = 3_600_000_000_000;
/// Children come and go; how often they are looked for is not worth more than this.
const SAMPLES: usize = 100_000;

enum Phase {
    Warming { until: Instant },
    Measuring { since: Instant, until: Instant, cpu: u64, own_cpu: u64 },
}

/// The counts of a run.
pub(super) struct Window {
    candidate: Vec<u32>,
    phase: Phase,
    length: Duration,
    sample: Duration,
    next_sample: Instant,
    idle_kib: u64,
    /// Seconds into the measurement, and KiB.
    memory: Vec<(f64, u64)>,
    took: Histogram<u64>,
    first: Histogram<u64>,
    requests: u64,
    tokens: u64,
    changed: u64,
    pub(super) errors: u64,
    first_error: Option<String>,
}

impl Window {
    /// Errors: none that the constants allow.
    pub(super) fn new(pid: Option<u32>, now: Instant, settings: &Settings) -> anyhow::Result<Self> {
        let candidate = pid.map(tree).unwrap_or_default();
        let latencies = Histogram::new_with_bounds(1, LONGEST, DIGITS)?;
        Ok(Self {
            idle_kib: rss_kib(&candidate),
            candidate,
            phase: Phase::Warming { until: now + Duration::from_secs_f64(settings.warm) },
            length: Duration::from_secs_f64(settings.seconds),
            sample: Duration::from_secs_f64(settings.sample),
            next_sample: now,
            memory: Vec::new(),
            first: latencies.clone(),
            took: latencies,
            requests: 0,
            tokens: 0,
            changed: 0,
            errors: 0,
            first_error: None,
        })
    }

    /// Moves with the time. Whether the run goes on.
    pub(super) fn pass(&mut self, now: Instant) -> bool {
        match self.phase {
            Phase::Warming { until } if now >= until => self.begin(now),
            Phase::Measuring { until, .. } if now >= until => return false,
            Phase::Measuring { since, .. } if now >= self.next_sample && self.memory.len() < SAMPLES => {
                self.next_sample = now + self.sample;
                self.memory.push((now.duration_since(since).as_secs_f64(), rss_kib(&self.candidate)));
            }
            _ => {}
        }
        true
    }

    fn begin(&mut self, now: Instant) {
        self.took.reset();
        self.first.reset();
        (self.requests, self.tokens) = (0, 0);
        let (cpu, own_cpu) = (cpu_ns(&self.candidate), cpu_ns(&[std::process::id()]));
        self.phase = Phase::Measuring { since: now, until: now + self.length, cpu, own_cpu };
        self.next_sample = now;
    }

    pub(super) fn tokens(&mut self, tokens: u32) {
        self.tokens += u64::from(tokens);
    }

    pub(super) fn answered(&mut self, answered: &Answered) {
        self.requests += 1;
        self.changed += u64::from(!answered.verbatim);
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.took.saturating_record(nanoseconds(answered.took));
        self.first.saturating_record(nanoseconds(answered.first));
    }

    pub(super) fn failed(&mut self, error: &anyhow::Error) {
        self.errors += 1;
        self.first_error.get_or_insert_with(|| format!("{error:#}"));
    }

    pub(super) fn first_error(&self) -> &str {
        self.first_error.as_deref().unwrap_or("none")
    }

    pub(super) fn report(&self, settings: &Settings) -> Report {
        let (seconds, cpu, own) = match self.phase {
            Phase::Measuring { since, cpu, own_cpu, .. } => (
                since.elapsed().as_secs_f64(),
                cpu_ns(&self.candidate).saturating_sub(cpu) as f64,
                cpu_ns(&[std::process::id()]).saturating_sub(own_cpu) as f64,
            ),
            Phase::Warming { .. } => (f64::INFINITY, 0.0, 0.0),
        };
        let each = |count: u64| if count > 0 { cpu / 1000.0 / count as f64 } else { 0.0 };
        let sum: u64 = self.memory.iter().map(|(_, kib)| kib).sum();
        let mean = if self.memory.is_empty() { 0.0 } else { sum as f64 / self.memory.len() as f64 };
        let growth = mean - self.idle_kib as f64;
        Report {
            seconds,
            requests: self.requests,
            tokens: self.tokens,
            errors: self.errors,
            first_error: self.first_error.clone(),
            changed: self.changed,
            requests_per_second: self.requests as f64 / seconds,
            tokens_per_second: self.tokens as f64 / seconds,
            cpu_us_per_request: each(self.requests),
            cpu_us_per_token: each(self.tokens),
            cpu_share: cpu / 1e9 / seconds,
            load_cpu_share: own / 1e9 / seconds,
            latency_us: Quantiles::of(&self.took),
            first_byte_us: Quantiles::of(&self.first),
            idle_kib: self.idle_kib,
            mean_kib: mean,
            max_kib: self.memory.iter().map(|(_, kib)| *kib).max().unwrap_or(0),
            kib_per_connection: growth / settings.connections.max(1) as f64,
            memory: self.memory.clone(),
        }
    }
}
