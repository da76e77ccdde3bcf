//! SIGTERM and SIGINT, as one stream.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The requests to end this process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    /// From now on neither signal ends the process by itself. Needs a tokio runtime around it.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
        })
    }

    /// The same for a service, which SIGHUP does not end either: whoever sends it wants the configuration reloaded.
    pub(crate) fn of_a_service() -> io::Result<Self> {
        Ok(Self { hangup: Some(signal(SignalKind::hangup())?), ..Self::new()? })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                () = received(&mut self.hangup) => {
                    tracing::warn!("SIGHUP: reload is not supported yet; ignored");
                }
            }
        }
    }
}

async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
