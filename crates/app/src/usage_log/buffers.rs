//! One buffer per thread and log: a thread appends to its own, the writer collects all of them now and then.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::FULL;

/// Room beyond [`FULL`] for the line that fills a buffer, so that it seldom grows.
const ROOM: usize = FULL + 4 * 1024;

/// Whole lines on their way to the writer.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) lines: u64,
}

/// The log takes no lines any more.
#[derive(Debug)]
pub(super) struct Closed;

/// The buffers of all threads that have written a line to one log.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    registry: Arc<Mutex<Registry>>,
}

#[derive(Debug, Default)]
struct Registry {
    slots: Vec<Arc<Mutex<Slot>>>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Slot {
    chunk: Chunk,
    closed: bool,
}

/// A thread's slot in one log. The log is known by its registry, which is kept alive so that no other log can take
/// its address.
struct Mine {
    registry: Arc<Mutex<Registry>>,
    slot: Arc<Mutex<Slot>>,
}

thread_local! {
    static MINE: RefCell<Vec<Mine>> = const { RefCell::new(Vec::new()) };
}

impl Buffers {
    /// Appends one line to the calling thread's buffer. Gives the buffer's content away when it is full.
    pub(super) fn append(&self, line: impl FnOnce(&mut Vec<u8>)) -> Result<Option<Chunk>, Closed> {
        // A thread that is ending has no buffer of its own any more: its line travels alone.
        let mut line = Some(line);
        let kept = MINE.try_with(|mine| {
            let mut mine = mine.borrow_mut();
            let slot = match mine.iter().find(|m| Arc::ptr_eq(&m.registry, &self.registry)) {
                Some(found) => &found.slot,
                None => self.register(&mut mine)?,
            };
            let mut slot = lock(slot);
            if slot.closed {
                return Err(Closed);
            }
            Ok(line.take().and_then(|line| slot.append(line)))
        });
        kept.unwrap_or_else(|_| {
            let mut alone = Chunk { bytes: Vec::new(), lines: 1 };
            if let Some(line) = line {
                line(&mut alone.bytes);
            }
            Ok(Some(alone))
        })
    }

    fn register<'a>(&self, mine: &'a mut Vec<Mine>) -> Result<&'a Arc<Mutex<Slot>>, Closed> {
        mine.retain(|m| !lock(&m.slot).closed);
        let mut registry = lock(&self.registry);
        if registry.closed {
            return Err(Closed);
        }
        let slot = Arc::new(Mutex::new(Slot::default()));
        registry.slots.push(Arc::clone(&slot));
        drop(registry);
        mine.push(Mine { registry: Arc::clone(&self.registry), slot });
        mine.last().map(|m| &m.slot).ok_or(Closed)
    }

    /// Takes what the threads have buffered, and forgets the threads that have ended.
    pub(super) fn collect(&self) -> Vec<Chunk> {
        let mut registry = lock(&self.registry);
        let chunks = registry.slots.iter().filter_map(|slot| lock(slot).take()).collect();
        registry.slots.retain(|slot| Arc::strong_count(slot) > 1 || lock(slot).chunk.lines > 0);
        chunks
    }

    /// Takes what is buffered and lets nothing more in.
    pub(super) fn close(&self) -> Vec<Chunk> {
        let mut registry = lock(&self.registry);
        registry.closed = true;
        let take_last = |slot: Arc<Mutex<Slot>>| {
            let mut slot = lock(&slot);
            slot.closed = true;
            slot.take()
        };
        registry.slots.drain(..).filter_map(take_last).collect()
    }
}

impl Slot {
    fn append(&mut self, line: impl FnOnce(&mut Vec<u8>)) -> Option<Chunk> {
        if self.chunk.bytes.capacity() == 0 {
            self.chunk.bytes.reserve(ROOM);
        }
        line(&mut self.chunk.bytes);
        self.chunk.lines += 1;
        (self.chunk.bytes.len() >= FULL).then(|| std::mem::take(&mut self.chunk))
    }

    fn take(&mut self) -> Option<Chunk> {
        (self.chunk.lines > 0).then(|| std::mem::take(&mut self.chunk))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
