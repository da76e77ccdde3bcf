//! The decision service of a route as it is asked.

use std::sync::Arc;
use std::time::Duration;

use hyper::Uri;
use sluicegate_proxy::plan::{Credential, ReplicaUrl};

/// A service that says which model a request deserves.
#[derive(Debug, Clone)]
pub struct DecisionServicePlan {
    /// The route that asks it, by its public model name.
    pub route: Arc<str>,
    /// Its base URL.
    pub url: ReplicaUrl,
    /// Where questions go.
    pub uri: Uri,
    /// Longest time of one question.
    pub timeout: Duration,
    /// How long an answer is used again; zero: not at all.
    pub cache_ttl: Duration,
    /// Bearer tokens; none where it asks for none.
    pub tokens: Vec<Credential>,
    /// Its own model.
    pub model: Arc<str>,
    /// What it is to go by.
    pub instructions: Arc<str>,
}
