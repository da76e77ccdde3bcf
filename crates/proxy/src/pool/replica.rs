//! One replica as the data plane sees it: what the relay path reads and writes without the pool's mutex.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use sluicegate_core::{ReplicaId, Time};
use sluicegate_wire::Endpoint;

use crate::clock;
use crate::plan::{Credential, ReplicaPlan, ReplicaUrl};

/// Stream bytes are noted at most this often per replica: the health rules think in seconds, and a store per chunk
/// from every thread would make its cache line travel.
const LAST_BYTE_STEP_NANOS: u64 = 100_000_000;

static NEXT_SLOT: AtomicUsize = AtomicUsize::new(0);

/// One replica as the data plane sees it.
#[derive(Debug)]
pub(crate) struct Replica {
    pub(crate) id: ReplicaId,
    pub(crate) url: ReplicaUrl,
    /// Header fields of every request to it, besides the pool's.
    pub(crate) headers: Vec<(Arc<str>, Credential)>,
    /// Raised when it is gone for good: its idle connections are of no use any more.
    pub(crate) gone: Arc<AtomicBool>,
    /// Index that is unique in the process: the place of its idle connections on each thread.
    pub(crate) slot: usize,
    /// Where it may be, in the order in which it is tried; empty until its name was looked up for the first time.
    addresses: ArcSwap<Vec<SocketAddr>>,
    /// When stream bytes last came from it, in nanoseconds of [`Time`]; 0 for never.
    last_byte: AtomicU64,
    /// Raised when its requests without a first byte are to be sent elsewhere.
    abort_epoch: AtomicU64,
    /// What the engine last said it serves.
    pub(crate) models: ArcSwap<Vec<ServedModel>>,
    /// Why it cannot be used, as the last scrape saw it.
    pub(crate) trouble: Trouble,
    /// A call that it has answered well: what a canary asks for.
    pub(crate) proven: ArcSwapOption<(Endpoint, Arc<str>)>,
    /// Raised once its log has said that it tells no slots.
    slots_untold: AtomicBool,
    /// Good scrapes in a row since its models were last asked for in vain.
    pub(crate) good_scrapes: AtomicU64,
}

/// A model as its engine tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServedModel {
    pub(crate) name: Arc<str>,
    /// Context length in tokens, where the engine tells it.
    pub(crate) context: Option<u64>,
}

impl Replica {
    pub(super) fn new(id: ReplicaId, plan: &ReplicaPlan) -> Self {
        let ReplicaPlan { url, headers } = plan;
        let literal = url.host.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, url.port));
        Self {
            id,
            url: url.clone(),
            headers: headers.clone(),
            gone: Arc::default(),
            slot: NEXT_SLOT.fetch_add(1, Ordering::Relaxed),
            addresses: ArcSwap::from_pointee(literal.into_iter().collect()),
            last_byte: AtomicU64::new(0),
            abort_epoch: AtomicU64::new(0),
            models: ArcSwap::default(),
            trouble: Trouble::default(),
            proven: ArcSwapOption::empty(),
            slots_untold: AtomicBool::new(false),
            good_scrapes: AtomicU64::new(0),
        }
    }

    pub(crate) fn addresses(&self) -> Arc<Vec<SocketAddr>> {
        self.addresses.load_full()
    }

    /// The name was looked up. The address that is in use stays the first while it is among those found.
    pub(crate) fn set_addresses(&self, mut found: Vec<SocketAddr>) {
        let in_use = self.addresses.load().first().copied();
        if let Some(at) = found.iter().position(|address| Some(*address) == in_use) {
            found.swap(0, at);
        }
        self.addresses.store(Arc::new(found));
    }

    /// It answers at `address`: the others are tried after it.
    pub(crate) fn found_at(&self, address: SocketAddr) {
        let known = self.addresses.load();
        if known.first() != Some(&address) {
            let others = known.iter().copied().filter(|other| *other != address);
            self.addresses.store(Arc::new(std::iter::once(address).chain(others).collect()));
        }
    }

    /// It was asked for its slots. Where it tells none nobody waits for it, which is said once.
    pub(crate) fn note_slots(&self, pool: &str, told: Option<u32>) {
        if !self.slots_untold.swap(told.is_none(), Ordering::Relaxed) && told.is_none() {
            tracing::warn!(
                pool,
                replica = &*self.url.text,
                "the engine tells no slots, so no request waits for it: write a number as the pool's slots"
            );
        }
    }

    /// Its requests without a first byte are to be sent elsewhere.
    pub(super) fn abort_unanswered(&self) {
        self.abort_epoch.fetch_add(1, Ordering::Release);
    }

    /// Notes that stream bytes came at `now`.
    pub(crate) fn note_byte(&self, now: Time) {
        let nanos = now.as_nanos();
        if nanos.saturating_sub(self.last_byte.load(Ordering::Relaxed)) >= LAST_BYTE_STEP_NANOS {
            self.last_byte.store(nanos, Ordering::Relaxed);
        }
    }

    /// Notes a call that was answered well.
    pub(crate) fn note_proven(&self, endpoint: Endpoint, model: &str) {
        if self.proven.load().as_deref().is_none_or(|(e, m)| *e != endpoint || **m != *model) {
            self.proven.store(Some(Arc::new((endpoint, model.into()))));
        }
    }

    pub(crate) fn last_byte(&self) -> Option<Time> {
        Some(self.last_byte.load(Ordering::Relaxed)).filter(|&n| n > 0).map(Time::from_nanos)
    }

    pub(super) fn abort_epoch(&self) -> u64 {
        self.abort_epoch.load(Ordering::Acquire)
    }
}

/// Why a replica cannot be used: kept for whoever asks, and logged when it changes and once a minute.
#[derive(Debug, Default)]
pub(crate) struct Trouble(Mutex<Option<Told>>);

#[derive(Debug)]
struct Told {
    why: Arc<str>,
    logged: Time,
}

/// The same trouble is logged again after this long.
const LOG_AGAIN: Duration = Duration::from_secs(60);

impl Trouble {
    pub(crate) fn get(&self) -> Option<Arc<str>> {
        self.lock().as_ref().map(|told| Arc::clone(&told.why))
    }

    pub(crate) fn tell(&self, replica: &str, why: &str) {
        let now = clock::now();
        let mut told = self.lock();
        if told.as_ref().is_some_and(|t| *t.why == *why && now.since(t.logged) < LOG_AGAIN) {
            return;
        }
        *told = Some(Told { why: why.into(), logged: now });
        tracing::warn!(replica, "replica cannot be used: {why}");
    }

    pub(crate) fn over(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Told>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
