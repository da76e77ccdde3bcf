//! Measured load over HTTP, as `sluicegate load` sends it.
//!
//! Open loop: sessions arrive by a process of their own, whatever the server does. Closed loop: so many are in flight at any
//! time. Latencies count from the moment a request was *meant* to be sent: a client that is held up (by its own limit of
//! requests in flight, or by a busy machine) must not make the server look faster than its users found it ("coordinated
//! omission", Gil Tene).
//!
//! All runs on the runtime it is started in; one thread drives several thousand streams.

mod arrivals;
mod exchange;
mod goodput;
mod lengths;
mod probe;
mod report;
mod session;
mod talk;

pub use arrivals::Arrivals;
pub use goodput::Goodput;
pub use lengths::{BadSpec, Lengths};
pub use probe::{Model, ProbeError, first_model, probe};
pub use report::{Progress, Report};

use crate::client::{BadTarget, Endpoint};
use crate::rng::SeededRng;
use arrivals::Intervals;
use exchange::now;
use report::Booked;
use session::session;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

/// Arrivals further behind than this are late by the server's doing or the machine's; less is the grain of the timer.
const TIMER_GRAIN: Duration = Duration::from_millis(2);
/// Keeps arrivals apart from what sessions say.
const ARRIVALS: u64 = 0x4152_5249_5645;

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Sessions arrive.
    Open {
        /// Sessions per second, above 0.
        rate: f64,
        /// How they are spread.
        arrivals: Arrivals,
        /// Sessions in flight, at most; further ones wait, and their waiting counts.
        most: usize,
    },
    /// So many sessions are in flight at any time; each that ends is followed by the next.
    Closed {
        /// Their number, at least 1.
        concurrency: usize,
    },
}

/// Which completions are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Text,
}

/// What to send where.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// `http://host:port`
    pub base_url: String,
    /// Sent as `Authorization: Bearer`.
    pub key: Option<String>,
    /// The model asked for.
    pub model: String,
    /// Which path.
    pub kind: Kind,
    /// When.
    pub pace: Pace,
    /// Requests, at most.
    pub requests: Option<u64>,
    /// No request is sent later than this; what runs then is waited for.
    pub duration: Option<Duration>,
    /// Requests of a session, each with the conversation so far.
    pub turns: Lengths,
    /// Pause between an answer and the next turn: exponentially distributed with this mean.
    pub think: Duration,
    /// Distinct prefixes, of which each session begins with one; 0: none.
    pub prefixes: u32,
    /// Tokens of a prefix.
    pub prefix_tokens: u32,
    /// Tokens of what is new in a prompt.
    pub prompt: Lengths,
    /// Tokens of an answer, at most.
    pub output: Lengths,
    /// Prompt and output tokens of request after request, over and over; instead of the distributions where not empty.
    pub trace: Vec<(u32, u32)>,
    /// Asks for answers of exactly their limit (vLLM and others know it).
    pub ignore_eos: bool,
    /// Tokens of one of our words at that server; see [`probe()`].
    pub tokens_per_word: f64,
    /// A request that takes longer is given up.
    pub timeout: Duration,
    /// Which requests are good ones.
    pub goodput: Goodput,
    /// Decides everything that is random.
    pub seed: u64,
}

impl LoadConfig {
    /// One chat request after the other without an end: one token, and one token of answer, neither key nor limits.
    #[must_use]
    pub fn one_by_one(base_url: String, model: String) -> Self {
        Self {
            base_url,
            key: None,
            model,
            kind: Kind::Chat,
            pace: Pace::Closed { concurrency: 1 },
            requests: None,
            duration: None,
            turns: Lengths::Fixed(1),
            think: Duration::ZERO,
            prefixes: 0,
            prefix_tokens: 0,
            prompt: Lengths::Fixed(1),
            output: Lengths::Fixed(1),
            trace: Vec::new(),
            ignore_eos: true,
            tokens_per_word: 1.0,
            timeout: Duration::MAX,
            goodput: Goodput::default(),
            seed: 0,
        }
    }
}

/// Running load. Dropping it stops it.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    driver: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    config: LoadConfig,
    endpoint: Endpoint,
    booked: Mutex<Booked>,
    /// Requests begun.
    taken: AtomicU64,
    /// Whether all have begun.
    all_taken: watch::Sender<bool>,
    began: Instant,
}

impl Load {
    /// Starts sending. Must be called inside a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// A base URL or key that nothing can be sent with.
    pub fn start(config: LoadConfig) -> Result<Self, BadTarget> {
        let endpoint = Endpoint::new(&config.base_url, config.key.as_deref())?;
        let (taken, began) = (AtomicU64::new(0), now());
        let (booked, all_taken) = (Mutex::default(), watch::Sender::new(false));
        let shared = Arc::new(Shared { config, endpoint, booked, taken, all_taken, began });
        let (stop, mut stopped) = watch::channel(false);
        let driven = Arc::clone(&shared);
        let driver = tokio::spawn(async move {
            let mut sessions = JoinSet::new();
            tokio::select! {
                // An error says that the load was dropped: stopped just as well.
                _ = stopped.changed() => {}
                () = drive(driven, &mut sessions) => {}
            }
            sessions.shutdown().await;
        });
        Ok(Self { shared, stop, driver })
    }

    /// What has happened so far.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.book().progress(self.shared.began.elapsed())
    }

    /// Waits until everything has been sent and answered.
    pub async fn finished(&mut self) {
        // An error would be the task's panic, which the runtime has reported already.
        let _ended = (&mut self.driver).await;
    }

    /// What was measured; what is still in flight is broken off and counted as such.
    pub async fn report(mut self) -> Report {
        self.stop.send_replace(true);
        if !self.driver.is_finished() {
            self.finished().await;
        }
        self.shared.book().report()
    }
}

impl Shared {
    /// The number of the next request; `None` when there are to be no more.
    fn take(&self) -> Option<u64> {
        let over = self.config.duration.is_some_and(|duration| self.began.elapsed() >= duration);
        let most = self.config.requests.unwrap_or(u64::MAX);
        let next = |taken| (taken < most && !over).then_some(taken + 1);
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok();
        if taken.is_none_or(|taken| taken.saturating_add(1) >= most) {
            self.all_taken.send_replace(true);
        }
        taken
    }

    /// Whether nothing is sent any more at that time.
    fn is_after_the_end(&self, at: Instant) -> bool {
        let after = at.saturating_duration_since(self.began);
        self.config.duration.is_some_and(|duration| after >= duration)
    }

    /// Waits until no request is left to be sent.
    async fn all_taken(&self) {
        // The sender lives as long as we do.
        let mut told = self.all_taken.subscribe();
        let _all = told.wait_for(|all| *all).await;
    }

    fn book(&self) -> MutexGuard<'_, Booked> {
        self.booked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn drive(shared: Arc<Shared>, sessions: &mut JoinSet<()>) {
    match shared.config.pace {
        Pace::Open { rate, arrivals, most } => {
            let rng = SeededRng::new(shared.config.seed ^ ARRIVALS);
            arrive(&shared, sessions, Intervals::new(rate, arrivals, rng), most).await;
        }
        Pace::Closed { concurrency } => {
            for _ in 0..concurrency.max(1) {
                let shared = Arc::clone(&shared);
                sessions.spawn(async move {
                    while let Some(number) = shared.take() {
                        session(&shared, number, now()).await;
                    }
                });
            }
        }
    }
    while sessions.join_next().await.is_some() {}
}

async fn arrive(shared: &Arc<Shared>, sessions: &mut JoinSet<()>, mut intervals: Intervals, most: usize) {
    let permits = Arc::new(Semaphore::new(most.max(1)));
    let mut due = shared.began;
    loop {
        if shared.is_after_the_end(due) {
            return;
        }
        sleep_until(due).await;
        // Never closed: the error cannot be.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let Some(number) = shared.take() else { return };
        let shared = Arc::clone(shared);
        let intended = due;
        sessions.spawn(async move {
            let late = now().saturating_duration_since(intended);
            session(&shared, number, if late < TIMER_GRAIN { intended + late } else { intended }).await;
            drop(permit);
        });
        while sessions.try_join_next().is_some() {}
        due += intervals.next();
    }
}

#[cfg(test)]
mod tests;
