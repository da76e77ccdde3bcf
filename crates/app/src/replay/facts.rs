//! Under what conditions runs were made: without them their numbers say nothing.

use serde::Serialize;

/// The conditions of one replay.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Facts {
    /// The trace's file, without its folder.
    pub(crate) trace: String,
    /// What kind of trace it is.
    pub(crate) form: &'static str,
    /// Requests played.
    pub(crate) requests: usize,
    /// The configuration's file, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) config: Option<String>,
    /// Simulated replicas, of all pools together.
    pub(crate) replicas: usize,
    /// What each can do, by name.
    pub(crate) profile: String,
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

impl Facts {
    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let Self {
            trace,
            form,
            requests,
            config,
            replicas,
            profile,
            speed,
            requests_per_second,
            load,
            seed,
            hardship,
        } = self;
        let load =
            load.map_or(String::new(), |load| format!(", {:.0} % of round robin's capacity", load * 100.0));
        let config = config.as_ref().map_or(String::new(), |config| format!(", as {config} says"));
        let hardship = hardship.as_ref().map_or(String::new(), |hardship| format!(", {hardship}"));
        format!(
            "{trace} ({form}): {requests} requests at {requests_per_second:.2}/s ({speed:.2} times as recorded{load}), \
             {replicas} replicas of profile {profile}{config}{hardship}, seed {seed}"
        )
    }
}
