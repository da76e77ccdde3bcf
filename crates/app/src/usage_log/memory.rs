//! Usage lines kept in memory, for tests that read them.

use std::sync::{Mutex, PoisonError};

use sluicegate_proxy::usage::{UsageLine, UsageSink};
use tokio::sync::Notify;

use super::line::append_line;

/// Keeps every line as the JSON text that the log would write. Grows without bound: for tests only.
#[derive(Debug, Default)]
pub struct MemorySink {
    lines: Mutex<Vec<String>>,
    grown: Notify,
}

impl MemorySink {
    /// The lines so far, without their line feeds.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until there are at least `count` lines and returns all of them.
    pub async fn wait_for(&self, count: usize) -> Vec<String> {
        loop {
            // Registered before the look, so that a line between look and wait wakes us all the same.
            let grown = self.grown.notified();
            tokio::pin!(grown);
            grown.as_mut().enable();
            let lines = self.lines();
            if lines.len() >= count {
                return lines;
            }
            grown.await;
        }
    }
}

impl UsageSink for MemorySink {
    fn write(&self, line: &UsageLine<'_>) {
        let mut out = Vec::with_capacity(1024);
        append_line(&mut out, line, "gw-test");
        out.pop();
        let text = String::from_utf8_lossy(&out).into_owned();
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        self.grown.notify_waiters();
    }
}
