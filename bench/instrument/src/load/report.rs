//! The line that a run ends with.

use hdrhistogram::Histogram;
use serde::Serialize;

/// What was seen while the run was measured.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) seconds: f64,
    pub(super) requests: u64,
    /// Events with a token.
    pub(super) tokens: u64,
    /// Over the whole run, warming included.
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// Answers that are whole, but not byte for byte what the replica sent.
    pub(super) changed: u64,
    pub(super) requests_per_second: f64,
    pub(super) tokens_per_second: f64,
    pub(super) cpu_us_per_request: f64,
    pub(super) cpu_us_per_token: f64,
    /// Of one core.
    pub(super) cpu_share: f64,
    pub(super) load_cpu_share: f64,
    pub(super) latency_us: Quantiles,
    pub(super) first_byte_us: Quantiles,
    pub(super) idle_kib: u64,
    pub(super) mean_kib: f64,
    pub(super) max_kib: u64,
    pub(super) kib_per_connection: f64,
    /// Seconds into the measurement, and KiB.
    pub(super) memory: Vec<(f64, u64)>,
}

#[derive(Serialize)]
pub(super) struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    pub(super) fn of(nanoseconds: &Histogram<u64>) -> Self {
        let at = |share| nanoseconds.value_at_quantile(share) as f64 / 1000.0;
        Self { p50: at(0.5), p99: at(0.99), max: nanoseconds.max() as f64 / 1000.0 }
    }
}
