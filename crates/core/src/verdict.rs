//! What the data plane reports about a replica.

use crate::load::EngineLoad;

/// What an attempt's end says about the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A whole good answer.
    Success,
    /// Says nothing: a 4xx, a 429, the client left, a timeout after bytes had come.
    Neutral,
    /// A 503: busy before it is faulty.
    Busy,
    /// An upstream failure of the replica.
    Failure(Failure),
    /// Connection refused: the process is gone.
    Refused,
    /// Any other failure to connect, connect timeout included: an immediate extra scrape.
    ConnectFailed,
    /// Ended by the silence or total limit without a single byte: evidence of a stall.
    SilentTimeout,
    /// Released now, booked later (or never) through [`Pool::book`](crate::Pool::book): the replay's verdict decides.
    /// Starts an extra scrape like a reset, which it may be.
    Deferred,
}

/// How a replica failed a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It answered 500, 502 or 504.
    Status(u16),
    /// It closed an established connection before the answer's end: an immediate extra scrape.
    Reset,
    /// It sent an error event with such a code.
    ErrorEvent(u16),
}

/// The outcome of one scrape: `/health`, then the metrics path.
#[derive(Clone, Debug, PartialEq)]
pub enum Scrape {
    /// `/health` was 2xx.
    Healthy {
        /// `None` where the metrics path is missing, refused or has no known series.
        load: Option<EngineLoad>,
    },
    /// The engine says that it is still loading its model: not dead, not ready.
    Loading,
    /// Connection refused.
    Refused,
    /// No answer in time.
    TimedOut,
    /// Any other failure: `/health` not 2xx, a reset, a bad answer.
    Failed,
}
