//! The only reader of the clock.

use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

use sluicegate_core::Time;

static ORIGIN: OnceLock<Instant> = OnceLock::new();

/// The moment now, since the process first asked.
pub(crate) fn now() -> Time {
    let nanos = ORIGIN.get_or_init(Instant::now).elapsed().as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Wall clock time, for usage lines only.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// `at` as the timer wheel of tokio understands it.
pub(crate) fn tokio_instant(at: Time) -> tokio::time::Instant {
    let origin = *ORIGIN.get_or_init(Instant::now);
    tokio::time::Instant::from_std(origin + at.since(Time::ZERO))
}
