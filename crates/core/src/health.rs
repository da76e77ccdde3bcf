//! The health machine: STARTING, LIVE, PROBING, EJECTED, DRAINING.
//!
//! Health never depends on user traffic for recovery: a user must never pay for a health check. The one exception are
//! hosted replicas, which nobody scrapes.

mod ejection;
mod evidence;
mod record;

pub(crate) use ejection::Doubt;
pub(crate) use record::{HealthRecord, Step};

/// A replica's health, as everybody outside of the machine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Never yet scraped well, or told to be loading: takes nothing.
    Starting,
    /// Takes requests and pins.
    Live,
    /// Back from an ejection or newly discovered: takes few requests and no pins.
    Probing,
    /// Takes nothing, except as a last resort.
    Ejected,
    /// Takes nothing new; running requests finish.
    Draining,
}

impl Health {
    /// The stable name for logs, metrics and the dashboard.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Live => "live",
            Self::Probing => "probing",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
        }
    }
}
