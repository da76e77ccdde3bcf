//! Events a test waits for: doors and counts, and the guard that turns a wait for ever into a failure.

use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long the kit waits for an event that must come. It is no pace: it only ends a test that would hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Awaits `future`, and panics with the caller's place where it takes longer than `limit`.
#[track_caller]
pub fn within<F: Future>(limit: Duration, future: F) -> impl Future<Output = F::Output> {
    let at = Location::caller();
    async move {
        match tokio::time::timeout(limit, future).await {
            Ok(value) => value,
            Err(_) => panic!("the event awaited at {at} did not come within {limit:?}"),
        }
    }
}

/// [`within`] the kit's usual [`PATIENCE`].
#[track_caller]
pub fn patiently<F: Future>(future: F) -> impl Future<Output = F::Output> {
    within(PATIENCE, future)
}

/// Waits until `condition` holds, for facts that have no event of their own (gauges of the gateway under test).
#[track_caller]
pub fn until(mut condition: impl FnMut() -> bool) -> impl Future<Output = ()> {
    patiently(async move {
        let mut looks = tokio::time::interval(Duration::from_millis(1));
        while !condition() {
            looks.tick().await;
        }
    })
}

/// A door at which a script waits until the test opens it. Clones are the same door; it never closes again.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed door.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets everyone through, now and later.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// True once opened.
    #[must_use]
    pub fn is_open(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the door is open.
    #[track_caller]
    pub fn passed(&self) -> impl Future<Output = ()> + use<> {
        let gate = self.clone();
        patiently(async move { gate.opened().await })
    }

    /// Like [`Gate::passed`], for scripts: waits as long as it takes.
    pub(crate) async fn opened(&self) {
        let mut state = self.0.subscribe();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = state.wait_for(|open| *open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A number that scripts change and tests wait for. Clones are the same number.
#[derive(Clone, Debug)]
pub struct Count(Arc<watch::Sender<u64>>);

impl Count {
    /// Zero.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(0)))
    }

    /// One more.
    pub fn add(&self) {
        self.0.send_modify(|n| *n += 1);
    }

    /// One less; stays at zero.
    pub fn take(&self) {
        self.0.send_modify(|n| *n = n.saturating_sub(1));
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until the number is at least `goal`.
    #[track_caller]
    pub fn reached(&self, goal: u64) -> impl Future<Output = ()> + use<> {
        self.becomes(move |n| n >= goal)
    }

    /// Waits until the number fits.
    #[track_caller]
    pub fn becomes<F: Fn(u64) -> bool>(&self, fits: F) -> impl Future<Output = ()> + use<F> {
        let count = self.clone();
        patiently(async move {
            let mut state = count.0.subscribe();
            // The sender lives in `count`, so the wait cannot fail.
            let _ = state.wait_for(|n| fits(*n)).await;
        })
    }
}

impl Default for Count {
    fn default() -> Self {
        Self::new()
    }
}

/// Bytes that a script sends while the test is still making them up. Clones are the same feed; every request that plays
/// it gets all of it.
#[derive(Clone, Debug)]
pub struct Feed(Arc<watch::Sender<Fed>>);

#[derive(Debug, Default)]
struct Fed {
    pieces: Vec<Arc<[u8]>>,
    ended: bool,
}

impl Feed {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    /// One more write.
    pub fn push(&self, bytes: impl AsRef<[u8]>) {
        self.0.send_modify(|fed| fed.pieces.push(bytes.as_ref().into()));
    }

    /// Nothing more will come: the script goes on with its next step.
    pub fn end(&self) {
        self.0.send_modify(|fed| fed.ended = true);
    }

    /// The piece with this number once it is there; None once the feed has ended before it.
    pub(crate) async fn piece(&self, number: usize) -> Option<Arc<[u8]>> {
        let mut state = self.0.subscribe();
        let fed = state.wait_for(|fed| fed.ended || fed.pieces.len() > number).await.ok()?;
        fed.pieces.get(number).cloned()
    }
}

impl Default for Feed {
    fn default() -> Self {
        Self::new()
    }
}
