//! The only reader of the wall clock: vLLM stamps its answers with it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970; 0 for a clock set before.
pub(super) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
