//! The one thread that writes usage lines out.

use std::fmt;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::Shared;
use super::buffers::Chunk;

/// No line waits longer than this for its buffer to fill up.
const COLLECT_EVERY: Duration = Duration::from_millis(100);

/// What the writer is told.
#[derive(Debug)]
pub(super) enum Message {
    /// A full buffer.
    Chunk(Chunk),
    /// Write out what there is, then end.
    Stop,
}

/// Standard output or a file.
pub(super) struct Output {
    to: Box<dyn Write + Send>,
    /// The last write broke off, perhaps inside a line.
    torn: bool,
}

impl Output {
    pub(super) fn new(to: Box<dyn Write + Send>) -> Self {
        Self { to, torn: false }
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.torn {
            // The half line stays alone: the next one can be read.
            self.to.write_all(b"\n")?;
        }
        self.torn = true;
        self.to.write_all(lines)?;
        self.to.flush()?;
        self.torn = false;
        Ok(())
    }
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("torn", &self.torn).finish_non_exhaustive()
    }
}

/// Runs until it is told to stop.
pub(super) fn run(messages: &Receiver<Message>, shared: &Shared, mut outputs: Vec<Output>) {
    let mut collect_at = Instant::now() + COLLECT_EVERY;
    loop {
        let now = Instant::now();
        // Asked for before each message: full buffers of busy threads must not hold up the lines of quiet ones.
        if now >= collect_at {
            write_all(shared.buffers.collect(), shared, &mut outputs);
            collect_at = now + COLLECT_EVERY;
        }
        match messages.recv_timeout(collect_at.saturating_duration_since(now)) {
            Ok(Message::Chunk(chunk)) => write(&chunk, shared, &mut outputs),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Message::Stop) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let last = shared.buffers.close();
    for message in messages.try_iter() {
        if let Message::Chunk(chunk) = message {
            write(&chunk, shared, &mut outputs);
        }
    }
    write_all(last, shared, &mut outputs);
}

fn write_all(chunks: Vec<Chunk>, shared: &Shared, outputs: &mut [Output]) {
    for chunk in &chunks {
        write(chunk, shared, outputs);
    }
}

/// A line that one of two outputs did not take is lost once.
fn write(chunk: &Chunk, shared: &Shared, outputs: &mut [Output]) {
    let failed = outputs.iter_mut().filter_map(|output| output.write(&chunk.bytes).err()).last();
    if let Some(error) = failed {
        shared.lost.add(chunk.lines, &format!("the output failed: {error}"));
    }
}
