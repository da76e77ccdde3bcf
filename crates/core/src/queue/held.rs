//! Late binding: who of a key goes first.
//!
//! Among requests of one key that are held back ([`PickRequest::hold`](field@crate::PickRequest::hold)) the shortest prefill
//! goes first, but not for ever: each is due when it has waited [`PATIENCE`] times as long as its prompt is expected to
//! take, and the earliest due goes first. So a request is overtaken only by those of its key that come within that time
//! after it, and whoever waits long is at least long itself. Between keys and classes nothing is different.

use super::{Line, Queue};
use crate::time::Time;
use std::time::Duration;

/// How many times its own prefill a request lets others of its key go before it.
const PATIENCE: f64 = 10.0;
/// The longest patience.
const LONGEST: Duration = Duration::from_secs(600);

/// A request's place among those of its key: the earliest goes first. With no `prefill` (seconds) that is the order of
/// arrival.
pub(super) fn due(now: Time, prefill: f64) -> Time {
    now + Duration::try_from_secs_f64(prefill * PATIENCE).map_or(LONGEST, |patience| patience.min(LONGEST))
}

impl Queue {
    /// Somebody waits whose request may be held back.
    pub(crate) fn holds(&self) -> bool {
        self.lines.values().any(|line| line.held.is_some())
    }

    /// Lines of requests that may be held back.
    pub(crate) fn held(&self) -> impl Iterator<Item = &Line> {
        self.lines.values().filter(|line| line.held.is_some())
    }
}
