//! Fits a [`Profile`](crate::engine::Profile) to a real engine, from outside: what `sluicegate calibrate` does.
//!
//! Three kinds of load, one after the other, each alone on the engine: single prompts of growing length with an answer of one
//! token (prefill), batches of growing size with short and with long contexts (decode), and one long prompt again and again
//! (prefix cache). What they took gives equations for the five numbers of a [`StepCost`](crate::engine::StepCost),
//! which [`fit()`] solves.

mod fit;
mod measure;

pub use fit::{Decode, Fit, Observations, Prefill, fit};
pub use measure::{Found, MeasureError, Plan, Stage, measure};
