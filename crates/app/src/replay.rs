//! Recorded traffic through simulated replicas: what `sluicegate replay` reads, runs and shows.

mod azure;
mod configured;
mod facts;
mod html;
mod json;
mod mooncake;
mod runs;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod usage_lines;

pub(crate) use configured::contestants as configured;
pub(crate) use facts::Facts;
pub(crate) use html::render as html;
pub(crate) use json::render as json;
pub(crate) use runs::{Contestant, PolicyRun, run_all};
pub(crate) use table::render as table;
pub(crate) use trace::{Recorded, read};
