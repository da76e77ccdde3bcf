//! Memory of the relay path: one scratch buffer per thread that every read goes through, and request bodies that
//! come from a short free list. An idle stream holds neither.

use std::cell::RefCell;
use std::ops::Deref;

/// Bytes of one read: a socket's usual receive buffer on loopback is larger, on a network smaller.
pub(crate) const SCRATCH: usize = 64 * 1024;

/// Bodies up to this size are kept for reuse.
const KEPT_MAX: usize = 256 * 1024;
/// Smaller bodies are the allocator's business.
const KEPT_MIN: usize = 16 * 1024;
/// Kept bodies per thread: few, as they count as memory of an idle gateway.
const KEPT: usize = 8;

thread_local! {
    static SCRATCH_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into_boxed_slice());
    static FREE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's scratch buffer. Not to be nested.
pub(crate) fn with_scratch<R>(f: impl FnOnce(&mut [u8]) -> R) -> R {
    SCRATCH_BUFFER.with_borrow_mut(|buf| f(buf))
}

/// A request body: filled from the front, freed (or kept for the next one) on drop.
///
/// The buffer is always initialised to its full length, so that reads go straight into it: a kept one already is,
/// and a new large one consists of zero pages that cost nothing until they are written.
#[derive(Debug, Default)]
pub(crate) struct Body {
    buffer: Vec<u8>,
    len: usize,
}

impl Body {
    /// An empty body with room for `size` bytes.
    pub(crate) fn with_room(size: usize) -> Self {
        if size > KEPT_MIN
            && size <= KEPT_MAX
            && let Some(buffer) = FREE.with_borrow_mut(|free| take_fitting(free, size))
        {
            return Self { buffer, len: 0 };
        }
        // Size classes make kept buffers fit the next body of about the same size.
        let room = if size > KEPT_MIN && size <= KEPT_MAX { size.next_multiple_of(32 * 1024) } else { size };
        Self { buffer: vec![0; room], len: 0 }
    }

    /// The part that is not filled yet.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.len..).unwrap_or_default()
    }

    /// Counts `n` bytes that were read into [`Self::room`] as filled.
    pub(crate) fn filled(&mut self, n: usize) {
        self.len = (self.len + n).min(self.buffer.len());
    }

    /// Appends `bytes`, growing to twice what is needed when they do not fit.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        let needed = self.len + bytes.len();
        if needed > self.buffer.len() {
            let mut larger = Self::with_room((needed * 2).max(1024));
            larger.buffer[..self.len].copy_from_slice(&self.buffer[..self.len]);
            larger.len = self.len;
            *self = larger;
        }
        self.buffer[self.len..needed].copy_from_slice(bytes);
        self.len = needed;
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or_default()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        if self.buffer.len() > KEPT_MIN && self.buffer.len() <= KEPT_MAX {
            let buffer = std::mem::take(&mut self.buffer);
            let _ = FREE.try_with(|free| {
                let mut free = free.borrow_mut();
                if free.len() < KEPT {
                    free.push(buffer);
                }
            });
        }
    }
}

fn take_fitting(free: &mut Vec<Vec<u8>>, size: usize) -> Option<Vec<u8>> {
    let at = free.iter().rposition(|b| b.len() >= size && b.len() <= size * 2 + 32 * 1024)?;
    Some(free.swap_remove(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_grows_and_keeps_its_bytes() {
        for sizes in [&[1usize, 7, 4096, 70_000][..], &[200_000, 1, 300_000], &[0, 0, 3]] {
            let (mut body, mut expected) = (Body::default(), Vec::new());
            for (i, &n) in sizes.iter().enumerate() {
                let piece = vec![i as u8 + 1; n];
                body.extend(&piece);
                expected.extend_from_slice(&piece);
            }
            assert!(*body == expected[..]);
        }
    }

    #[test]
    fn a_kept_body_starts_empty_and_is_bounded_in_number() {
        let many: Vec<Body> = (0..3 * KEPT).map(|_| Body::with_room(100_000)).collect();
        drop(many);
        FREE.with_borrow(|free| assert_eq!(free.len(), KEPT));
        let again = Body::with_room(100_000);
        assert!(again.is_empty());
        FREE.with_borrow(|free| assert_eq!(free.len(), KEPT - 1));
    }
}
