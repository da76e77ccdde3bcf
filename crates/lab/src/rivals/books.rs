//! What any gateway can count for itself, and what scrapes tell it.

use super::Pick;
use crate::fleet::{Ask, JobId};
use sluicegate_core::EngineLoad;
use std::collections::HashMap;

/// One account for each replica.
#[derive(Debug)]
pub struct Books {
    accounts: Vec<Account>,
    open: HashMap<JobId, Open>,
}

/// A replica's account.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    /// Own open requests.
    pub inflight: u32,
    /// Prompt tokens of those without a first byte, less what was taken for cached.
    pub prefill_tokens: u64,
    /// Prompt tokens of all of them.
    pub prompt_tokens: u64,
    /// What its engine said at the last scrape.
    pub scraped: Option<EngineLoad>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    replica: usize,
    prompt: u64,
    /// What its prefill still counts.
    prefill: u64,
}

impl Books {
    pub(super) fn new(replicas: usize) -> Self {
        Self { accounts: vec![Account::default(); replicas], open: HashMap::new() }
    }

    /// Replicas that the request has not failed on, by index.
    pub fn open_to(&self, ask: &Ask<'_>) -> impl Iterator<Item = (usize, &Account)> {
        let tried = |index: usize| ask.tried.iter().any(|id| id.0 as usize == index);
        self.accounts.iter().enumerate().filter(move |(index, _)| !tried(*index))
    }

    /// How many replicas there are.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.accounts.len()
    }

    /// Own open requests at all replicas.
    #[must_use]
    pub fn inflight(&self) -> u32 {
        self.accounts.iter().map(|account| account.inflight).sum()
    }

    pub(super) fn sent(&mut self, job: JobId, pick: Pick, prompt: u32) {
        let Some(account) = self.accounts.get_mut(pick.replica) else { return };
        let prefill = u64::from(prompt.saturating_sub(pick.cached));
        let open = Open { replica: pick.replica, prompt: u64::from(prompt), prefill };
        account.inflight += 1;
        account.prefill_tokens += prefill;
        account.prompt_tokens += open.prompt;
        self.open.insert(job, open);
    }

    pub(super) fn answered(&mut self, job: JobId) {
        let Some(open) = self.open.get_mut(&job) else { return };
        self.accounts[open.replica].prefill_tokens -= std::mem::take(&mut open.prefill);
    }

    pub(super) fn ended(&mut self, job: JobId) {
        let Some(open) = self.open.remove(&job) else { return };
        let account = &mut self.accounts[open.replica];
        account.inflight -= 1;
        account.prefill_tokens -= open.prefill;
        account.prompt_tokens -= open.prompt;
    }

    pub(super) fn scraped(&mut self, replica: usize, load: EngineLoad) {
        if let Some(account) = self.accounts.get_mut(replica) {
            account.scraped = Some(load);
        }
    }
}
