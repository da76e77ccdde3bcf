//! The usage log: one JSON line per request, through per-thread buffers and one writer thread, to standard output or
//! a rotated file. A request pays for formatting one line into memory; it never waits for a disk unless `on_full`
//! says so.

mod buffers;
mod handover;
mod json_text;
mod line;
mod memory;
mod rfc3339;
mod rotated_file;
#[cfg(test)]
mod tests;
mod writer;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sluicegate_proxy::usage::{UsageLine, UsageSink};

use crate::config::{OnFull, UsagePlan};

pub use memory::MemorySink;

use buffers::{Buffers, Chunk};
use handover::{Handover, Left};
use writer::Output;

/// A buffer that holds this many bytes goes to the writer at once.
const FULL: usize = 32 * 1024;
/// Full buffers that may wait for the writer: with [`FULL`], about 8 MiB.
const WAITING: usize = 256;
/// At the end, an output that takes no buffer for this long has lost what is left: a reader that is stuck must not keep
/// the process from ending.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);
/// The least time between two warnings about lost lines.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Takes usage lines from any thread and writes them in the background. Lines of one thread keep their order as long
/// as the writer keeps up; lines of different threads are not ordered (each carries its time).
#[derive(Debug)]
pub struct UsageLog {
    shared: Arc<Shared>,
    patience: Duration,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// What the writer thread and the threads that write lines both hold.
#[derive(Debug)]
struct Shared {
    gateway: Arc<str>,
    on_full: OnFull,
    buffers: Buffers,
    handover: Handover,
    lost: Lost,
}

impl UsageLog {
    /// Opens the file, if any, and starts the writer thread. `gateway` is this gateway's name in each line.
    ///
    /// # Errors
    /// The file cannot be opened for appending, or the thread cannot be started.
    pub fn start(plan: &UsagePlan, gateway: Arc<str>) -> io::Result<Self> {
        let mut outputs = Vec::new();
        if plan.stdout {
            outputs.push(Output::new(Box::new(io::stdout())));
        }
        if let Some(path) = &plan.file {
            outputs.push(Output::new(Box::new(rotated_file::RotatedFile::open(path, plan.rotate)?)));
        }
        Self::start_with(outputs, plan.on_full, PATIENCE, gateway)
    }

    fn start_with(
        outputs: Vec<Output>,
        on_full: OnFull,
        patience: Duration,
        gateway: Arc<str>,
    ) -> io::Result<Self> {
        let (buffers, handover, lost) = (Buffers::default(), Handover::default(), Lost::default());
        let shared = Arc::new(Shared { gateway, on_full, buffers, handover, lost });
        let for_writer = Arc::clone(&shared);
        let writer = std::thread::Builder::new()
            .name("usage-log".into())
            .spawn(move || writer::run(&for_writer, outputs))?;
        Ok(Self { shared, patience, writer: Mutex::new(Some(writer)) })
    }

    /// Lines lost so far: the writer could not keep up, or the output failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.count.load(Ordering::Relaxed)
    }

    /// The end is near: from now on no request waits for an output that takes nothing for 2 s, whatever `on_full` says.
    pub fn ending(&self) {
        self.shared.handover.ending();
    }

    /// Ends the wait of a running [`close`](Self::close): what is left is lost.
    pub fn at_once(&self) {
        self.shared.handover.at_once();
    }

    /// Writes out whatever was taken so far and stops the writer. An output that takes nothing for 2 s loses what is
    /// left. Lines that are left or come later are counted as lost. A second call does nothing.
    pub fn close(&self) {
        let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let Left { lines, ended, at_once } =
            self.shared.handover.close(self.patience, || self.shared.buffers.close());
        // A writer that hangs in a write is left behind.
        if ended && writer.join().is_err() {
            tracing::error!("the usage log's writer panicked");
        }
        if lines > 0 {
            let count = self.shared.lost.count.fetch_add(lines, Ordering::Relaxed) + lines;
            let why = match at_once {
                true => "a further signal did not wait for the output".to_owned(),
                false => format!("the output took none for {:?}", self.patience),
            };
            tracing::error!(lost = lines, lost_so_far = count, "usage lines were lost at the end: {why}");
        }
    }

    fn send(&self, chunk: Chunk) {
        let lines = chunk.lines;
        let sent = match self.shared.on_full {
            OnFull::Wait => self.shared.handover.wait_for_room(chunk, self.patience),
            OnFull::Drop => self.shared.handover.offer(chunk),
        };
        if !sent {
            self.shared.lost.add(lines, "the writer cannot keep up");
        }
    }
}

impl UsageSink for UsageLog {
    fn write(&self, line: &UsageLine<'_>) {
        let append = |bytes: &mut Vec<u8>| line::append_line(bytes, line, &self.shared.gateway);
        match self.shared.buffers.append(append) {
            Ok(None) => {}
            Ok(Some(full)) => self.send(full),
            Err(buffers::Closed) => self.shared.lost.add(1, "the usage log is closed"),
        }
    }
}

impl Drop for UsageLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// Lines that were lost, and when a warning last said so.
#[derive(Debug, Default)]
struct Lost {
    count: AtomicU64,
    warned: Mutex<Option<Instant>>,
}

impl Lost {
    fn add(&self, lines: u64, why: &str) {
        let count = self.count.fetch_add(lines, Ordering::Relaxed) + lines;
        let now = Instant::now();
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|then| now.duration_since(then) >= WARN_EVERY) {
            *warned = Some(now);
            drop(warned);
            tracing::warn!(lost_so_far = count, "usage lines were lost: {why}");
        }
    }
}
