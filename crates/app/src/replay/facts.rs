//! Under what conditions runs were made: without them their numbers say nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::usage_sums::with_commas;

/// The conditions of one replay.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// The trace's file, without its folder.
    pub(crate) trace: String,
    /// What kind of trace it is.
    pub(crate) form: &'static str,
    /// Requests read.
    pub(crate) requests: usize,
    /// Lines of requests that no engine worked on, by how they ended: how long they were is not recorded.
    pub(crate) without_prompt: BTreeMap<String, usize>,
    /// The simulated replicas, where they are not a configuration's.
    #[serde(flatten)]
    pub(crate) fleet: Option<FleetFacts>,
    /// Times as fast as recorded.
    pub(crate) speed: f64,
    /// Requests per second, mean over the time of arrivals.
    pub(crate) requests_per_second: f64,
    /// The part of round robin's capacity that this is, where it was asked for.
    pub(crate) load: Option<f64>,
    /// What was given to chance.
    pub(crate) seed: u64,
    /// What makes choosing harder, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hardship: Option<String>,
}

/// Replicas that are all alike.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FleetFacts {
    /// How many there are.
    pub(crate) replicas: usize,
    /// What each can do, by name.
    pub(crate) profile: String,
}

impl Facts {
    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self { trace, form, requests, speed, requests_per_second, seed, .. } = self;
        let load = self
            .load
            .map_or(String::new(), |load| format!(", {:.0} % of round robin's capacity", load * 100.0));
        let fleet = self
            .fleet
            .as_ref()
            .map_or(String::new(), |own| format!(" {} replicas of profile {},", own.replicas, own.profile));
        let hardship = self.hardship.as_ref().map_or(String::new(), |hardship| format!(" {hardship},"));
        let without = match self.without_prompt.is_empty() {
            true => String::new(),
            false => format!("; left out, as no engine worked on them: {}", counted(&self.without_prompt)),
        };
        format!(
            "{trace} ({form}): {requests} requests at {requests_per_second:.2}/s ({speed:.2} times as recorded{load}),\
             {fleet}{hardship} seed {seed}{without}"
        )
    }
}

fn counted(by_outcome: &BTreeMap<String, usize>) -> String {
    let one = |(outcome, count): (&String, &usize)| format!("{} {outcome}", with_commas(*count as u64));
    by_outcome.iter().map(one).collect::<Vec<_>>().join(", ")
}
