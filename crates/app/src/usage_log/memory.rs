//! Usage lines kept in memory, for tests that read them.

use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use sluicegate_proxy::usage::{UsageLine, UsageSink};
use tokio::sync::Notify;

use super::line::append_line;

/// Keeps every line as the JSON text that the log would write. Grows without bound: for tests only.
#[derive(Debug, Default)]
pub struct MemorySink {
    lines: Mutex<Vec<(SystemTime, String)>>,
    grown: Notify,
}

impl MemorySink {
    /// The lines so far, without their line feeds, in the order in which the requests began: a client may have its
    /// answer, and the next one's too, before the first one's line is written by another thread.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().map(|(_, text)| text.clone()).collect()
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
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lines.partition_point(|(time, _)| *time <= line.time);
        lines.insert(at, (line.time, text));
        drop(lines);
        self.grown.notify_waiters();
    }
}
