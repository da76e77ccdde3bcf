//! What a route remembers of its requests: how many were tried again, and which are not to be sent any more.

use super::{Job, Limits, Settings};
use sluicegate_core::{PoisonList, RetryBudget};

/// Suspected requests that are remembered at most.
const POISON_ENTRIES: usize = 1000;

/// One route's limits with its books.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) limits: Limits,
    pub(super) budget: RetryBudget,
    pub(super) poison: PoisonList,
}

impl Guard {
    fn new(limits: Limits) -> Self {
        let (budget, poison) =
            (RetryBudget::new(&limits.retry), PoisonList::new(limits.poison_ttl, POISON_ENTRIES));
        Self { limits, budget, poison }
    }
}

/// One for each route of the settings, and at the end one for all others.
pub(super) fn guards(settings: &Settings) -> Vec<Guard> {
    settings.routes.iter().chain([&settings.limits]).cloned().map(Guard::new).collect()
}

/// The one of the job's route.
pub(super) fn guard_of<'g>(guards: &'g mut [Guard], job: &Job) -> &'g mut Guard {
    let at = (job.route.0 as usize).min(guards.len() - 1);
    &mut guards[at]
}
