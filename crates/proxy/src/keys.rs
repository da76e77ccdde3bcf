//! API keys: who asks, and what they may still use up.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use httparse::Header;
use sha2::{Digest, Sha256};
use sluicegate_core::{Ask, KeyIndex, KeyLedger, KeyUsage, LimitRefusal, Reservation, Spent};
use subtle::ConstantTimeEq;
use xxhash_rust::xxh3::xxh3_64;

use crate::buffers::Share;
use crate::clock;
use crate::plan::{AllowedRoutes, KeyHash, KeyPlan, KeysPlan};
use crate::rate_fields::RateFields;
use crate::refusal::Refusal;

/// Every key of the configuration, or none where the gateway is open.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// By SHA-256: who knows a key's hash does not know the key, so that a lookup's timing gives nothing away.
    by_hash: HashMap<KeyHash, Arc<Key>>,
    all: Vec<Arc<Key>>,
    open: bool,
}

/// One key and what it has used.
pub struct Key {
    pub(crate) plan: KeyPlan,
    pub(crate) index: KeyIndex,
    /// Keys of one project share warm prefixes; others never meet.
    pub(crate) salt: u64,
    /// Memory of its large request bodies.
    pub(crate) bodies: Arc<Share>,
    ledger: Mutex<KeyLedger>,
}

/// Its salt is made of the hash where it has no project, and shows as little.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("plan", &self.plan).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

/// The key's number; all who ask an open gateway have one.
pub(crate) fn index_of(key: Option<&Key>) -> KeyIndex {
    key.map_or(KeyIndex(0), |key| key.index)
}

impl Keys {
    pub(crate) fn new(plan: &KeysPlan) -> Self {
        let KeysPlan::Named(plans) = plan else { return Self { open: true, ..Self::default() } };
        let all: Vec<_> =
            plans.iter().zip(0..).map(|(plan, index)| Arc::new(Key::new(plan, index))).collect();
        let by_hash = all.iter().map(|key| (key.plan.hash, Arc::clone(key))).collect();
        Self { by_hash, all, open: false }
    }

    pub(crate) fn all(&self) -> &[Arc<Key>] {
        &self.all
    }

    /// Who asks. None: the gateway is open, and whatever key was sent means nothing here.
    pub(crate) fn authenticate(&self, headers: &[Header<'_>]) -> Result<Option<Arc<Key>>, Refusal> {
        if self.open {
            return Ok(None);
        }
        let given = presented(headers)?.ok_or(Refusal::NoKey)?;
        let hash = KeyHash(Sha256::digest(given).into());
        match self.by_hash.get(&hash) {
            Some(key) if bool::from(key.plan.hash.0.ct_eq(&hash.0)) => Ok(Some(Arc::clone(key))),
            _ => Err(Refusal::BadKey),
        }
    }
}

impl Key {
    fn new(plan: &KeyPlan, index: u32) -> Self {
        Self {
            index: KeyIndex(index),
            salt: plan.project.as_ref().map_or_else(|| xxh3_64(&plan.hash.0), |p| xxh3_64(p.as_bytes())),
            bodies: Arc::default(),
            ledger: Mutex::new(KeyLedger::new(plan.limits.clone())),
            plan: plan.clone(),
        }
    }

    /// Name in usage lines and metrics.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.plan.name
    }

    /// As configured.
    #[must_use]
    pub fn plan(&self) -> &KeyPlan {
        &self.plan
    }

    /// What it has used so far, running requests included.
    #[must_use]
    pub fn usage(&self) -> KeyUsage {
        self.lock().usage(clock::now(), clock::calendar())
    }

    pub(crate) fn may_use(&self, route: &str) -> bool {
        match &self.plan.routes {
            AllowedRoutes::All => true,
            AllowedRoutes::Only(routes) => routes.iter().any(|r| **r == *route),
        }
    }

    /// All of the key's limits as one step.
    pub(crate) fn reserve(self: &Arc<Self>, ask: Ask) -> Result<KeyHold, LimitRefusal> {
        let reservation = self.lock().reserve(clock::now(), clock::calendar(), ask)?;
        Ok(KeyHold { key: Arc::clone(self), reservation: Some(reservation) })
    }

    /// Whether its limits refuse every request now, whatever it asks for.
    pub(crate) fn used_up(&self) -> Result<(), LimitRefusal> {
        self.lock().used_up(clock::now(), clock::calendar())
    }

    /// Counts a request that was refused before its limits were asked.
    pub(crate) fn count_refused(&self) -> Result<(), LimitRefusal> {
        self.lock().count_refused(clock::now(), clock::calendar())
    }

    /// What is left of its limits per minute, as its client is told; None where it has none.
    pub(crate) fn rate_fields(&self) -> Option<Arc<RateFields>> {
        let remaining = self.lock().remaining(clock::now());
        RateFields::of(remaining).map(Arc::new)
    }

    fn lock(&self) -> MutexGuard<'_, KeyLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request has reserved of its key's limits: settled with the truth, or given back whole on drop.
#[derive(Debug)]
pub(crate) struct KeyHold {
    key: Arc<Key>,
    reservation: Option<Reservation>,
}

impl KeyHold {
    /// Puts the truth in the place of the estimate, once.
    pub(crate) fn settle(&mut self, spent: Spent) {
        if let Some(reservation) = self.reservation.take() {
            self.key.lock().settle(clock::now(), clock::calendar(), reservation, spent);
        }
    }

    /// Gives everything back, the request of its minute included.
    pub(crate) fn withdraw(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.key.lock().withdraw(clock::now(), clock::calendar(), reservation);
        }
    }
}

impl Drop for KeyHold {
    fn drop(&mut self) {
        self.settle(Spent::default());
    }
}

/// The key as presented: `Authorization: Bearer` (scheme in any case) or `x-api-key`. A head that names two is refused:
/// whatever was in front of the gateway may have read the other one.
fn presented<'h>(headers: &[Header<'h>]) -> Result<Option<&'h [u8]>, Refusal> {
    let bearer = only(headers, "authorization")?.and_then(|value| {
        let (scheme, rest) = value.split_at_checked(6)?;
        let key = rest.trim_ascii_start();
        (scheme.eq_ignore_ascii_case(b"bearer") && key.len() < rest.len() && !key.is_empty()).then_some(key)
    });
    let plain = only(headers, "x-api-key")?.filter(|key| !key.is_empty());
    match (bearer, plain) {
        (Some(one), Some(other)) if one != other => Err(Refusal::TwoKeys),
        _ => Ok(bearer.or(plain)),
    }
}

/// The value of the fields of this name, which must agree.
fn only<'h>(headers: &[Header<'h>], name: &str) -> Result<Option<&'h [u8]>, Refusal> {
    let mut values =
        headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.trim_ascii());
    let first = values.next();
    if values.all(|value| Some(value) == first) { Ok(first) } else { Err(Refusal::TwoKeys) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_every_usual_form() {
        for (name, value, key) in [
            ("authorization", "Bearer k", Some("k")),
            ("AUTHORIZATION", "bearer k", Some("k")),
            ("Authorization", "BEARER  k ", Some("k")),
            ("x-api-key", "k", Some("k")),
            ("X-Api-Key", " k ", Some("k")),
            ("authorization", "Bearerk", None),
            ("authorization", "Bearer ", None),
            ("authorization", "Basic k", None),
            ("authorization", "k", None),
            ("x-api-key", "", None),
        ] {
            let headers = [Header { name, value: value.as_bytes() }];
            assert_eq!(presented(&headers), Ok(key.map(str::as_bytes)), "{name}: {value}");
        }
    }

    fn plan(hash: KeyHash) -> KeyPlan {
        KeyPlan {
            name: "ann".into(),
            hash,
            project: None,
            routes: AllowedRoutes::All,
            priority: 0,
            limits: sluicegate_core::KeyLimits::default(),
        }
    }

    /// As where a request's task is dropped in the middle of something.
    #[test]
    fn a_hold_that_is_dropped_keeps_nothing_but_the_request_of_its_minute() {
        let key = Arc::new(Key::new(&plan(KeyHash([1; 32])), 0));
        let ask = Ask { tokens: 500, cost: sluicegate_core::Micros(70) };
        let reserve = || key.reserve(ask).expect("no limit");
        drop(reserve());
        let mut settled = reserve();
        settled.settle(Spent { tokens: 3, ..Spent::default() });
        drop(settled);
        let mut withdrawn = reserve();
        withdrawn.withdraw();
        drop(withdrawn);
        let usage = key.usage();
        assert_eq!((usage.concurrent, usage.requests_minute, usage.tokens_minute), (0, 2, 3));
        assert_eq!(usage.month, Spent { tokens: 3, ..Spent::default() });
    }

    #[test]
    fn debug_output_shows_no_hash() {
        let hash = KeyHash([0xab; 32]);
        let plan = plan(hash);
        let key = Key::new(&plan, 0);
        let keys = Keys::new(&KeysPlan::Named(vec![plan.clone()]));
        for text in [format!("{plan:?}"), format!("{key:?}"), format!("{keys:#?}"), format!("{hash:?}")] {
            let secrets = ["171", "0xab", "abab", &key.salt.to_string()];
            assert!(!secrets.iter().any(|secret| text.to_lowercase().contains(secret)), "{text}");
        }
    }
}
