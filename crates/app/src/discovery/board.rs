//! What each source has told, and what it says of itself.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use sluicegate_proxy::plan::ReplicaPlan;
use sluicegate_proxy::{MOST_REPLICAS, Pool, Update};

use crate::config::SourcePlan;

/// The way of a source to its pool.
#[derive(Debug, Clone)]
pub(super) struct Feed {
    pool: Arc<Pool>,
    told: Arc<Told>,
}

#[derive(Debug)]
struct Told {
    pool: Arc<str>,
    source: &'static str,
    what: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    replicas: usize,
    updates: u64,
    failures: u64,
    failing: Option<String>,
}

/// Every source of the gateway.
#[derive(Debug, Default)]
pub(crate) struct Board(Vec<Arc<Told>>);

/// One source at one moment.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SourceView {
    /// The pool that it is for.
    pub(crate) pool: String,
    /// Its kind, as in the configuration.
    pub(crate) source: &'static str,
    /// What is looked at.
    pub(crate) what: String,
    /// Replicas in the last list that was taken.
    pub(crate) replicas: usize,
    /// Lists that changed the replicas.
    pub(crate) updates: u64,
    /// Failures, empty lists among them.
    pub(crate) failures: u64,
    /// Why its last list could not be taken; None: it could. The last known replicas stay meanwhile.
    pub(crate) failing: Option<String>,
}

impl Board {
    pub(super) fn new<'f>(feeds: impl Iterator<Item = &'f Feed>) -> Self {
        Self(feeds.map(|feed| Arc::clone(&feed.told)).collect())
    }

    /// Every source now, in the order of the pools.
    pub(crate) fn sources(&self) -> Vec<SourceView> {
        self.0.iter().map(|told| told.view()).collect()
    }
}

impl Told {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn view(&self) -> SourceView {
        let state = self.lock();
        SourceView {
            pool: self.pool.to_string(),
            source: self.source,
            what: self.what.clone(),
            replicas: state.replicas,
            updates: state.updates,
            failures: state.failures,
            failing: state.failing.clone(),
        }
    }
}

impl Feed {
    pub(super) fn new(pool: Arc<Pool>, source: &SourcePlan) -> Self {
        let (name, kind) = (Arc::clone(pool.name()), source.kind());
        let told = Told { pool: name, source: kind, what: source.what(), state: Mutex::default() };
        Self { pool, told: Arc::new(told) }
    }

    /// The source's list now. False: it was not taken, and the last known replicas stay.
    pub(super) fn found(&self, replicas: &[ReplicaPlan]) -> bool {
        let Told { pool, what, .. } = &*self.told;
        match self.pool.set_replicas(replicas) {
            Update::KeptForEmpty => {
                self.failed("the list is empty");
                return false;
            }
            Update::KeptForTooMany => {
                self.failed(&format!("the list has more than {MOST_REPLICAS} replicas"));
                return false;
            }
            Update::Applied { added: 0, removed: 0, .. } => {}
            Update::Applied { added, removed, serving_on } => {
                let total = replicas.len();
                tracing::info!(%pool, source = %what, added, removed, serving_on, total, "replicas changed");
                self.told.lock().updates += 1;
            }
        }
        let mut state = self.told.lock();
        state.replicas = replicas.len();
        if state.failing.take().is_some() {
            tracing::info!(%pool, source = %what, "the source of replicas works again");
        }
        true
    }

    /// The source could not tell: the last known replicas stay. Logged once for each other reason.
    pub(super) fn failed(&self, why: &str) {
        let Told { pool, what, .. } = &*self.told;
        let mut state = self.told.lock();
        state.failures += 1;
        if state.failing.as_deref() != Some(why) {
            let kept = state.replicas;
            tracing::warn!(%pool, source = %what, kept, "the replicas stay as last known: {why}");
            state.failing = Some(why.to_owned());
        }
    }
}
