//! Routes as the data plane looks them up: one immutable table, swapped whole.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::{KeyIndex, ModelId, PoisonList, RetryBudget, RouteIndex};
use sluicegate_wire::Endpoint;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::clock;
use crate::plan::{RoutePlan, SessionSource};
use crate::pool::Pool;

/// Bytes of prompt text per token before anything was learned, in thousandths.
const BYTES_PER_TOKEN: u32 = 4_000;
/// A learned ratio outside of this is a reporting fault, not a tokenizer.
const BYTES_PER_TOKEN_RANGE: std::ops::RangeInclusive<u64> = 500..=16_000;
/// Prompt tokens an image or audio part is counted as.
const TOKENS_PER_MEDIA_PART: u64 = 1_000;

/// The table of public model names.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    by_name: HashMap<Arc<str>, Arc<Route>>,
    /// Public names without aliases, sorted.
    models: Vec<Arc<str>>,
    /// Takes every other name: some engine would not say which models it serves.
    any: Option<Arc<Route>>,
    /// Every body member that some route reads a session key from.
    session_members: Vec<Box<str>>,
}

/// One public model name and where it leads.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) plan: RoutePlan,
    pub(crate) pool: Arc<Pool>,
    /// Only replicas that serve this model; None: all of the pool.
    pub(crate) model: Option<ModelId>,
    /// Keeps equal session ids and prompts of different routes apart.
    pub(crate) salt: u64,
    pub(crate) index: RouteIndex,
    budget: Mutex<RetryBudget>,
    poison: Mutex<PoisonList>,
    /// Seeds the fingerprints of this process: nobody outside can make two requests look alike.
    seed: RandomState,
    /// Whether anything is in it: an empty list costs no request a hash of its body.
    poisoned: AtomicBool,
    /// Learned from reported usage, thousandths of a byte.
    bytes_per_token: AtomicU32,
}

impl Routes {
    pub(crate) fn new(routes: Vec<Arc<Route>>, any: Option<Arc<Route>>) -> Self {
        let mut table = Self { any, ..Self::default() };
        for route in routes.iter().chain(&table.any) {
            for source in &route.plan.session_keys {
                if let SessionSource::Body(name) = source
                    && !table.session_members.contains(name)
                {
                    table.session_members.push(name.clone());
                }
            }
        }
        for route in routes {
            for alias in &route.plan.aliases {
                table.by_name.insert(alias.clone(), Arc::clone(&route));
            }
            table.models.push(route.plan.model.clone());
            table.by_name.insert(route.plan.model.clone(), route);
        }
        table.models.sort();
        table
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Route>> {
        self.by_name.get(name).or(self.any.as_ref())
    }

    /// No request can be routed yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.models.is_empty() && self.any.is_none()
    }

    pub(crate) fn any(&self) -> Option<&Arc<Route>> {
        self.any.as_ref()
    }

    pub(crate) fn models(&self) -> &[Arc<str>] {
        &self.models
    }

    /// Every route once, those to any name last.
    pub(crate) fn each(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.models.iter().filter_map(|model| self.by_name.get(model)).chain(&self.any)
    }

    pub(crate) fn session_members(&self) -> &[Box<str>] {
        &self.session_members
    }
}

impl Route {
    pub(crate) fn new(
        plan: RoutePlan,
        pool: Arc<Pool>,
        model: Option<ModelId>,
        index: RouteIndex,
    ) -> Arc<Self> {
        Arc::new(Self {
            salt: xxh3_64(plan.model.as_bytes()),
            index,
            budget: Mutex::new(RetryBudget::new(&plan.retry)),
            poison: Mutex::new(PoisonList::new(plan.poison_ttl, plan.poison_entries)),
            seed: RandomState::new(),
            poisoned: AtomicBool::new(false),
            bytes_per_token: AtomicU32::new(BYTES_PER_TOKEN),
            plan,
            pool,
            model,
        })
    }

    pub(crate) fn budget(&self) -> MutexGuard<'_, RetryBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long this key's identical request to the same endpoint is still refused, if it is.
    pub(crate) fn suspects(
        &self,
        key: Option<KeyIndex>,
        endpoint: Endpoint,
        body: &[u8],
    ) -> Option<Duration> {
        if !self.poisoned.load(Ordering::Relaxed) {
            return None;
        }
        // Before the lock: a large body takes a moment.
        let fingerprint = self.fingerprint(key, endpoint, body);
        let now = clock::now();
        let poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        if poison.len(now) == 0 {
            self.poisoned.store(false, Ordering::Relaxed);
            return None;
        }
        poison.is_suspect(now, fingerprint)
    }

    /// Two replicas failed this request alike.
    pub(crate) fn suspect(&self, key: Option<KeyIndex>, endpoint: Endpoint, body: &[u8]) {
        let fingerprint = self.fingerprint(key, endpoint, body);
        let mut poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        poison.suspect(clock::now(), fingerprint);
        self.poisoned.store(true, Ordering::Relaxed);
    }

    /// A suspicion is of one key at one endpoint: whatever a client sends, it has nobody else's requests refused.
    fn fingerprint(&self, key: Option<KeyIndex>, endpoint: Endpoint, body: &[u8]) -> u64 {
        let body = xxh3_64_with_seed(body, self.seed.hash_one(0_u8));
        self.seed.hash_one((key, endpoint, body))
    }

    /// Estimated prompt tokens of `text_bytes` bytes of text and `media_parts` images and the like.
    pub(crate) fn prompt_tokens(&self, text_bytes: u64, media_parts: u32) -> u64 {
        let ratio = u64::from(self.bytes_per_token.load(Ordering::Relaxed)).max(1);
        text_bytes.saturating_mul(1_000) / ratio + u64::from(media_parts) * TOKENS_PER_MEDIA_PART
    }

    /// Learns from what the engine counted for a prompt of text alone: a slow average, as prompts differ.
    pub(crate) fn learn(&self, text_bytes: u64, prompt_tokens: u64) {
        // Short prompts are mostly chat template.
        if prompt_tokens < 100 {
            return;
        }
        let seen = text_bytes.saturating_mul(1_000) / prompt_tokens;
        if BYTES_PER_TOKEN_RANGE.contains(&seen) {
            let old = self.bytes_per_token.load(Ordering::Relaxed);
            let seen = u32::try_from(seen).unwrap_or(old);
            // Two threads may overwrite each other's step: each is a fair sample.
            self.bytes_per_token.store(old - old / 16 + seen / 16, Ordering::Relaxed);
        }
    }
}
