//! A decision service for demonstrations and tests: the wire format of the real ones, and a judge that needs no model.

mod judge;
mod server;

pub use judge::{Judgement, judge};
pub use server::DecisionSim;
