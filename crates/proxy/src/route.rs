//! Routes as the data plane looks them up: one immutable table, swapped whole.

mod learned;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluicegate_core::{KeyIndex, ModelId, PoisonList, RetryBudget, RouteIndex};
use sluicegate_wire::{Endpoint, Peek};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::clock;
use crate::plan::{RouteMode, RoutePlan, SessionSource};
use crate::pool::Pool;
use crate::targets::Targets;

use learned::Learned;

/// Bytes of prompt text per token before anything was learned, in thousandths.
const BYTES_PER_TOKEN: u32 = 4_000;
/// A learned ratio outside of this is a reporting fault, not a tokenizer.
const BYTES_PER_TOKEN_RANGE: std::ops::RangeInclusive<u64> = 500..=16_000;
/// Generated tokens per second of one answer before any was seen, in thousandths.
const TOKENS_PER_SECOND: u32 = 50_000;
/// What is faster or slower than this is taken for this.
const TOKENS_PER_SECOND_RANGE: std::ops::RangeInclusive<u64> = 1_000..=100_000_000;
/// Shorter answers say more of their prompts than of how fast tokens are generated.
const RATE_LEARNED_FROM: u64 = 32;
/// Prompt tokens an image or audio part is counted as.
const TOKENS_PER_MEDIA_PART: u64 = 1_000;

/// What a prompt is made of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Prompt {
    pub(crate) text_bytes: u64,
    /// Of which some are there for the second time: how often they are computed depends on the engine.
    pub(crate) repeats: bool,
    pub(crate) token_ids: u64,
    /// Images and the like.
    pub(crate) media_parts: u32,
}

impl Prompt {
    pub(crate) fn of(peek: &Peek) -> Self {
        let text_bytes = peek.text_bytes.saturating_add(peek.other_bytes).saturating_add(peek.repeated_bytes);
        Self {
            text_bytes,
            repeats: peek.repeated_bytes > 0,
            token_ids: peek.token_ids,
            media_parts: peek.media_parts,
        }
    }

    /// The bytes of one that is text and nothing else.
    pub(crate) fn text_alone(self) -> Option<u64> {
        (self.token_ids == 0 && self.media_parts == 0 && !self.repeats).then_some(self.text_bytes)
    }
}

/// The table of public model names.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    by_name: BTreeMap<Arc<str>, Arc<Route>>,
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
    pub(crate) targets: Targets,
    pub(crate) fallback: Option<Targets>,
    /// Only replicas that serve this model; None: all of the pool.
    pub(crate) model: Option<ModelId>,
    /// Keeps equal session ids and prompts of different routes apart.
    pub(crate) salt: u64,
    /// Keeps equal prompts for different models apart: the engine's name of it counts, as its cache knows no routes.
    pub(crate) cache_salt: u64,
    /// Some pool of its targets learns from prompts, for its own requests or for those of another route.
    learns: bool,
    /// Pins of prefixes mean something to some way of its.
    pub(crate) follows_prefixes: bool,
    pub(crate) index: RouteIndex,
    budget: Mutex<RetryBudget>,
    poison: Mutex<PoisonList>,
    /// Seeds the fingerprints of this process: nobody outside can make two requests look alike.
    seed: RandomState,
    /// Whether anything is in it: an empty list costs no request a hash of its body.
    poisoned: AtomicBool,
    /// Learned from reported usage, thousandths of a byte.
    bytes_per_token: Learned,
    /// Learned from whole answers, from their sending to their end, all choices together; in thousandths.
    tokens_per_second: Learned,
}

/// Which of a route's targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// Those that requests choose among.
    Targets,
    /// The one for when none of them can serve.
    Fallback,
}

impl Routes {
    pub(crate) fn new(routes: Vec<Arc<Route>>, any: Option<Arc<Route>>) -> Self {
        let mut table = Self { any, ..Self::default() };
        for route in routes.iter().chain(&table.any) {
            for source in &route.plan.session_keys {
                if let SessionSource::Body(name) | SessionSource::BodyOfTalks(name) = source
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
    /// None where the plan names a pool that is not among `pools`.
    pub(crate) fn new(
        plan: RoutePlan,
        pools: &[Arc<Pool>],
        model: Option<ModelId>,
        index: RouteIndex,
    ) -> Option<Arc<Self>> {
        let fallback = match &plan.fallback {
            Some(fallback) => Some(Targets::fallback(&fallback.target, pools)?),
            None => None,
        };
        let asked_for = plan.targets.first().and_then(|target| target.upstream_model.as_ref());
        let targets = Targets::new(&plan.targets, pools, plan.mode.clone(), fallback.is_some())?;
        let learns = targets.pools().any(|pool| pool.plan().settings.predict);
        Some(Arc::new(Self {
            salt: xxh3_64(plan.model.as_bytes()),
            cache_salt: xxh3_64(asked_for.unwrap_or(&plan.model).as_bytes()),
            learns,
            // A fallback's replica is chosen by load and pins, whatever the route's mode.
            follows_prefixes: fallback.is_some()
                || matches!(plan.mode, RouteMode::Adaptive | RouteMode::Weighted(_)),
            index,
            budget: Mutex::new(RetryBudget::new(&plan.retry)),
            poison: Mutex::new(PoisonList::new(plan.poison_ttl, plan.poison_entries)),
            seed: RandomState::new(),
            poisoned: AtomicBool::new(false),
            bytes_per_token: Learned::new(BYTES_PER_TOKEN),
            tokens_per_second: Learned::new(TOKENS_PER_SECOND),
            targets,
            fallback,
            plan,
            model,
        }))
    }

    /// Whether it matters where else a prompt has begun: with one replica there is nothing to choose.
    pub(crate) fn hashes_prompts(&self) -> bool {
        self.learns && self.targets.pools().map(|pool| pool.known()).sum::<usize>() > 1
    }

    /// Every way its requests can go, the fallback last.
    pub(crate) fn ways(&self) -> impl Iterator<Item = (Way, &Targets)> {
        let fallback = self.fallback.as_ref().map(|targets| (Way::Fallback, targets));
        std::iter::once((Way::Targets, &self.targets)).chain(fallback)
    }

    /// The targets of one way.
    pub(crate) fn way(&self, way: Way) -> &Targets {
        match way {
            Way::Targets => &self.targets,
            Way::Fallback => self.fallback.as_ref().unwrap_or(&self.targets),
        }
    }

    /// Each pool that its requests can go to, once.
    pub(crate) fn pools(&self) -> Vec<&Arc<Pool>> {
        let mut pools: Vec<&Arc<Pool>> = Vec::new();
        for pool in self.ways().flat_map(|(_, targets)| targets.pools()) {
            if !pools.iter().any(|known| Arc::ptr_eq(known, pool)) {
                pools.push(pool);
            }
        }
        pools
    }

    pub(crate) fn budget(&self) -> MutexGuard<'_, RetryBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long this key's identical request to the same endpoint is still kept from `way`, if it is.
    pub(crate) fn suspects(
        &self,
        way: Way,
        key: Option<KeyIndex>,
        endpoint: Endpoint,
        body: &[u8],
    ) -> Option<Duration> {
        if !self.poisoned.load(Ordering::Relaxed) {
            return None;
        }
        // Before the lock: a large body takes a moment.
        let fingerprint = self.fingerprint(way, key, endpoint, body);
        let now = clock::now();
        let poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        if poison.is_empty(now) {
            self.poisoned.store(false, Ordering::Relaxed);
            return None;
        }
        poison.is_suspect(now, fingerprint)
    }

    /// Two replicas failed this request alike; `way`: where it is not sent again.
    pub(crate) fn suspect(&self, way: Way, key: Option<KeyIndex>, endpoint: Endpoint, body: &[u8]) {
        let fingerprint = self.fingerprint(way, key, endpoint, body);
        let mut poison = self.poison.lock().unwrap_or_else(PoisonError::into_inner);
        poison.suspect(clock::now(), fingerprint);
        self.poisoned.store(true, Ordering::Relaxed);
    }

    /// A suspicion is of one key at one endpoint: whatever a client sends, it has nobody else's requests refused.
    fn fingerprint(&self, way: Way, key: Option<KeyIndex>, endpoint: Endpoint, body: &[u8]) -> u64 {
        let body = xxh3_64_with_seed(body, self.seed.hash_one(0_u8));
        self.seed.hash_one((way, key, endpoint, body))
    }

    /// Estimated prompt tokens.
    pub(crate) fn prompt_tokens(&self, prompt: Prompt) -> u64 {
        let text = prompt.text_bytes.saturating_mul(1_000) / self.bytes_per_token.get().max(1);
        text.saturating_add(prompt.token_ids)
            .saturating_add(u64::from(prompt.media_parts) * TOKENS_PER_MEDIA_PART)
    }

    /// Learns from what the engine counted for a prompt of text alone: a slow average, as prompts differ.
    pub(crate) fn learn(&self, text_bytes: u64, prompt_tokens: u64) {
        // Short prompts are mostly chat template.
        if prompt_tokens < 100 {
            return;
        }
        let seen = text_bytes.saturating_mul(1_000) / prompt_tokens;
        if BYTES_PER_TOKEN_RANGE.contains(&seen) {
            self.bytes_per_token.learn(seen);
        }
    }

    /// Learns how fast answers are made from a whole one, which took `time` from its sending to its end.
    pub(crate) fn learn_rate(&self, completion_tokens: u64, time: Duration) {
        if completion_tokens >= RATE_LEARNED_FROM {
            let seen = completion_tokens.saturating_mul(1_000_000_000) / micros(time).max(1);
            let (least, most) = TOKENS_PER_SECOND_RANGE.into_inner();
            self.tokens_per_second.learn(seen.clamp(least, most));
        }
    }

    /// What an answer is taken to have generated in a time in which nothing of it was seen.
    pub(crate) fn generated_in(&self, time: Duration) -> u64 {
        self.tokens_per_second.get().saturating_mul(micros(time)) / 1_000_000_000
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
