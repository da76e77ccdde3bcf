//! What a replica is told to do.

use crate::gate::{Feed, Gate};

/// One step of a script. After the last one the connection is kept for the next request.
#[derive(Clone, Debug)]
pub enum Step {
    /// Writes these bytes with one call, and lets everything else run.
    Send(Vec<u8>),
    /// Writes whatever the test feeds, until the feed ends.
    Feed(Feed),
    /// Waits until the test opens the gate.
    Wait(Gate),
    /// Waits until the test opens the gate and reads nothing meanwhile: the peer's bytes pile up, and whether it is
    /// still there is not noticed.
    Deaf(Gate),
    /// Opens the gate: the script has come this far.
    Tell(Gate),
    /// Waits until the peer sends something more; it stays unread.
    NextBytes,
    /// Closes in good order (a reset where the peer's bytes are unread, as the kernel does it).
    Close,
    /// Resets the connection.
    Reset,
    /// Says nothing more until the peer leaves.
    Hang,
}

/// What to do with a request whose head is there.
#[derive(Clone, Debug)]
pub enum OnHead {
    /// Read the body, then play the request's script.
    ReadBody,
    /// Play this at once; the body stays unread, so the script should end the connection.
    Play(Vec<Step>),
}

/// [`Step::Send`] of anything that is bytes.
pub fn send(bytes: impl AsRef<[u8]>) -> Step {
    Step::Send(bytes.as_ref().to_vec())
}
