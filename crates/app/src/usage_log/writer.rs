//! The one thread that writes usage lines out.

use std::fmt;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::Shared;
use super::buffers::Chunk;
use super::handover::{Handover, Next};

/// No line waits longer than this for its buffer to fill up.
const COLLECT_EVERY: Duration = Duration::from_millis(100);

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

/// Runs until the handover ends.
pub(super) fn run(shared: &Shared, mut outputs: Vec<Output>) {
    let _end = End(&shared.handover);
    let mut collect_at = Instant::now() + COLLECT_EVERY;
    loop {
        let now = Instant::now();
        // Asked for before each chunk: full buffers of busy threads must not hold up the lines of quiet ones.
        if now >= collect_at {
            let collected = shared.handover.collect(|| shared.buffers.collect());
            write_all(&collected, shared, &mut outputs);
            collect_at = now + COLLECT_EVERY;
        }
        match shared.handover.next(collect_at.saturating_duration_since(now)) {
            Next::Chunk(chunk) => write_all(&[chunk], shared, &mut outputs),
            Next::Nothing => {}
            Next::End => break,
        }
    }
    let last = shared.handover.collect(|| shared.buffers.close());
    write_all(&last, shared, &mut outputs);
}

/// Whoever waits for the writer hears of its end, a panic included.
struct End<'a>(&'a Handover);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// A line that one of two outputs did not take is lost once.
fn write_all(chunks: &[Chunk], shared: &Shared, outputs: &mut [Output]) {
    for chunk in chunks {
        let failed = outputs.iter_mut().filter_map(|output| output.write(&chunk.bytes).err()).last();
        if !shared.handover.done(chunk.lines) {
            return;
        }
        if let Some(error) = failed {
            shared.lost.add(chunk.lines, &format!("the output failed: {error}"));
        }
    }
}
