//! Holds the sums of usage lines against the engines' own counters.

mod baseline;
mod engine;
mod report;

pub(crate) use baseline::{Baseline, Since};
pub(crate) use engine::{EngineUrl, Reading};
pub(crate) use report::{Report, Tokens};
