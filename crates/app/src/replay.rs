//! Recorded traffic through simulated replicas: what `sluicegate replay` reads, runs and shows.

mod azure;
mod configured;
mod facts;
mod figures;
mod html;
mod json;
mod mooncake;
mod profiles;
mod runs;
mod table;
#[cfg(test)]
mod tests;
mod trace;
mod usage_lines;

pub(crate) use configured::{Manner, Report, configured};
pub(crate) use configured::{
    html as configurations_html, json as configurations_json, table as configurations_table,
};
pub(crate) use facts::{Facts, FleetFacts};
pub(crate) use figures::Figures;
pub(crate) use html::render as html;
pub(crate) use json::render as json;
pub(crate) use profiles::Profiles;
pub(crate) use runs::{Contestant, PolicyRun, run_all};
pub(crate) use table::render as table;
pub(crate) use trace::{Trace, read};
