//! How a request ended, as its client sees it.

use std::fmt;

/// A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// A whole stream with a finish reason and `[DONE]`.
    Ok,
    /// An answer with another status than 200.
    Status(u16),
    /// An error event inside the stream, with its code where it has one.
    ErrorEvent(u16),
    /// No connection could be made.
    NotConnected,
    /// No answer: sending failed, or the connection broke before the head.
    NoAnswer,
    /// The stream ended early: no `[DONE]`, no finish reason, or a broken connection.
    Cut,
    /// It took longer than the client would wait.
    TimedOut,
    /// Broken off by us, when we stopped.
    BrokenOff,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ok => f.write_str("ok"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::ErrorEvent(0) => f.write_str("error event"),
            Self::ErrorEvent(code) => write!(f, "error event {code}"),
            Self::NotConnected => f.write_str("not connected"),
            Self::NoAnswer => f.write_str("no answer"),
            Self::Cut => f.write_str("cut"),
            Self::TimedOut => f.write_str("timed out"),
            Self::BrokenOff => f.write_str("broken off by us"),
        }
    }
}
