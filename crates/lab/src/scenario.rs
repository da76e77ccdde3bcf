//! A promise put to the test: a fleet, traffic, faults, and the ranges that what is measured must lie in.
//!
//! A scenario is read from TOML ([`read()`]), played in virtual time against the very core that serves ([`play`]), and
//! judged ([`judge`]). With a [`Rule`] switched off the same scenario shows that it would notice.
//!
//! ```
//! use sluicegate_lab::scenario::{Chooser, judge, play, read};
//!
//! let text = r#"
//! id = "X1"
//! promise = "a burst is spread"
//! run_for = "20s"
//! [[requests]]
//! name = "burst"
//! at = "10s"
//! count = 8
//! [[allowed]]
//! measure = "spread_of"
//! of = "burst"
//! max = 1
//! "#;
//! let scenario = read("x1.toml", text).expect("well-formed");
//! let seen = play(&scenario, Chooser::Adaptive, None, 1);
//! assert!(judge(&scenario, Chooser::Adaptive, &seen).iter().all(|finding| finding.passed));
//! ```
mod amount;
mod bounds;
mod chooser;
mod judge;
mod measure;
mod play;
mod read;
mod seen;
mod spec;
mod talk;
mod watch;

pub use amount::{Amount, Span};
pub use chooser::{Chooser, Rule};
pub use judge::{Finding, judge};
pub use measure::Measure;
pub use play::play;
pub use read::{Unreadable, read};
pub use seen::Seen;
pub use spec::{
    Allowed, Elsewhere, FleetSpec, PinKind, Planned, Requests, Scenario, Sessions, Stage, Target,
};

#[cfg(test)]
mod tests;
