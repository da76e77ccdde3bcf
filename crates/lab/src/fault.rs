//! What can be wrong with a modelled replica: one list of faults for the simulator over HTTP ([`sim`](crate::sim)) and for
//! virtual time ([`fleet`](crate::fleet), scenario files). Names, values and their text are in one place, [`FaultSpec::parse`].

mod read;

pub(crate) use read::is_kind;
pub use read::{BadFault, kinds};

use crate::rng::SeededRng;
use std::time::Duration;

/// One thing that is wrong.
///
/// "Requests" are those that make the engine work: completions of any dialect and embeddings. Health, metrics and the
/// other paths answer as ever unless a fault says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Requests are answered with this status, 400 to 599, and not begun.
    Status(u16),
    /// Requests are read, then their connection is reset.
    Reset,
    /// Requests are read and held without a word. What is held when the fault ends is answered then.
    Hang,
    /// Streams break off after so many tokens, whole answers in their middle.
    Cut {
        /// Tokens before the cut; 0: the head only.
        after: u32,
    },
    /// Streams say 200, so many tokens, an error event, and end as if all were well; whole answers have the status.
    ErrorEvent {
        /// Tokens before the event.
        after: u32,
        /// The event's code, 400 to 599.
        status: u16,
    },
    /// New connections are refused; open ones go on.
    Refuse,
    /// The engine's steps take this many times as long.
    Slow {
        /// Above 0; below 1 it is faster.
        factor: f64,
    },
    /// The engine takes requests and makes no token; `/health` says 200. It goes on where it stopped.
    Frozen,
    /// `/health` answers after this time.
    SlowHealth(Duration),
    /// By turns: serves, then is as [`Fault::Dead`].
    Flap {
        /// How long it serves at a time.
        alive: Duration,
        /// How long it is gone at a time.
        dead: Duration,
    },
    /// As vLLM when its engine process dies: running streams end with an error event, requests and `/health` fail.
    EngineDead,
    /// As vLLM at a SIGTERM: running answers end where they are, with the finish reason `abort`; the port is closed. When
    /// the fault ends it starts with an empty cache.
    Sigterm,
    /// The process is killed: connections are cut and new ones refused. When the fault ends it starts with an empty cache.
    Dead,
    /// It has started anew and reads its model: what was open is cut, requests and `/health` get 503, which says so as
    /// llama-server does.
    Loading,
    /// Nothing reaches it, and connections are neither made nor refused; open streams are silent. In virtual time only: on
    /// the machine of its gateway no process can be like that.
    Unreachable,
}

impl Fault {
    /// Its name in commands, JSON and scenario files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Status(_) => "status",
            Self::Reset => "reset",
            Self::Hang => "hang",
            Self::Cut { .. } => "cut",
            Self::ErrorEvent { .. } => "error-event",
            Self::Refuse => "refuse",
            Self::Slow { .. } => "slow",
            Self::Frozen => "frozen",
            Self::SlowHealth(_) => "slow-health",
            Self::Flap { .. } => "flap",
            Self::EngineDead => "engine-dead",
            Self::Sigterm => "sigterm",
            Self::Dead => "dead",
            Self::Loading => "loading",
            Self::Unreachable => "unreachable",
        }
    }

    /// Whether it befalls requests one by one.
    #[must_use]
    pub fn hits_requests(&self) -> bool {
        matches!(
            self,
            Self::Status(_) | Self::Reset | Self::Hang | Self::Cut { .. } | Self::ErrorEvent { .. }
        )
    }
}

/// A fault, whom it befalls and how long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaultSpec {
    /// What is wrong.
    pub fault: Fault,
    /// The part of requests that it befalls, 0 to 1.
    pub share: f64,
    /// After so many requests it is over; `None`: never.
    pub next: Option<u32>,
    /// After this time it is over; `None`: never.
    pub lasts: Option<Duration>,
}

impl From<Fault> for FaultSpec {
    /// Every request, until it is switched off.
    fn from(fault: Fault) -> Self {
        Self { fault, share: 1.0, next: None, lasts: None }
    }
}

impl FaultSpec {
    /// The same for a part of the requests.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    /// The same for the next `count` requests only.
    #[must_use]
    pub fn next(self, count: u32) -> Self {
        Self { next: Some(count), ..self }
    }

    /// The same for a time.
    #[must_use]
    pub fn lasting(self, time: Duration) -> Self {
        Self { lasts: Some(time), ..self }
    }

    /// Whether the request that comes now is one of those that it befalls. One that does is counted.
    pub(crate) fn strikes(&mut self, chances: &mut SeededRng) -> bool {
        if self.next == Some(0) || !chances.chance(self.share) {
            return false;
        }
        self.next = self.next.map(|left| left - 1);
        true
    }
}

/// Keeps the chances of faults apart from those of answers.
const CHANCES: u64 = 0x4641_554c_5453;

/// What decides which requests a fault of this replica befalls.
pub(crate) fn chances(seed: u64, replica: usize) -> SeededRng {
    SeededRng::stream(seed ^ CHANCES, replica as u64)
}
