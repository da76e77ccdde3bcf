//! Memory of the relay path: one scratch buffer per thread that every read goes through, and request bodies that
//! come from a short free list. An idle stream holds neither.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of one read: a socket's usual receive buffer on loopback is larger, on a network smaller.
pub(crate) const SCRATCH: usize = 64 * 1024;

/// Bodies up to this size are kept for reuse.
const KEPT_MAX: usize = 256 * 1024;
/// Memory that all larger ones may take together: half of a small machine's, and room for thousands of real prompts.
const LARGE_MAX: usize = 2 * 1024 * 1024 * 1024;
/// Smaller bodies are the allocator's business.
const KEPT_MIN: usize = 16 * 1024;
/// Kept bodies per thread at the most. What a while of traffic did not need is let go by [`trim`].
const KEPT: usize = 64;

/// Bytes of large bodies in the process.
static LARGE: Account = Account { taken: AtomicUsize::new(0), most: LARGE_MAX };

/// Memory that is handed out up to a bound.
struct Account {
    taken: AtomicUsize,
    most: usize,
}

impl Account {
    fn take(&self, bytes: usize) -> Result<(), NoMemory> {
        let within = |taken: usize| taken.checked_add(bytes).filter(|&sum| sum <= self.most);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).map(drop).map_err(|_| NoMemory)
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn left(&self) -> usize {
        self.most.saturating_sub(self.taken.load(Ordering::Relaxed))
    }
}

/// What the large bodies of one key take of the memory that there is for all. Whoever holds much of it gets more only
/// while much is left: at most [`Self::TIMES`] what is, so that one key alone gets three quarters, and however many keys
/// send all they can there is room for one more. (Choudhury and Hahne, "Dynamic Queue Length Thresholds for
/// Shared-Memory Packet Switches", IEEE/ACM Transactions on Networking 6(2), 1998.)
#[derive(Debug, Default)]
pub(crate) struct Share(AtomicUsize);

impl Share {
    const TIMES: usize = 3;

    fn take(&self, account: &Account, bytes: usize) -> Result<(), NoMemory> {
        account.take(bytes)?;
        let own = self.0.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if own <= account.left().saturating_mul(Self::TIMES) {
            return Ok(());
        }
        self.give_back(account, bytes);
        Err(NoMemory)
    }

    fn give_back(&self, account: &Account, bytes: usize) {
        account.give_back(bytes);
        self.0.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What all slow clients' answers may take together: beyond it they are read only as fast as their clients read.
const AHEAD_MAX: usize = 256 * 1024 * 1024;

/// Bytes of answers that may be kept for slow clients in the process.
static AHEAD: Account = Account { taken: AtomicUsize::new(0), most: AHEAD_MAX };

/// Leave to keep some of an answer for a slow client, given back on drop.
#[derive(Debug)]
pub(crate) struct Ahead(());

impl Ahead {
    /// Bytes for one client, and a read more.
    pub(crate) const EACH: usize = 256 * 1024;
    const COUNTED: usize = Self::EACH + SCRATCH;

    /// Puts the leave into `room` if there is any left. False: there is none.
    pub(crate) fn take(room: &mut Option<Self>) -> bool {
        let granted = AHEAD.take(Self::COUNTED).is_ok();
        if granted {
            *room = Some(Self(()));
        }
        granted
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        AHEAD.give_back(Self::COUNTED);
    }
}

thread_local! {
    static SCRATCH_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into_boxed_slice());
    static FREE: RefCell<Free> = const { RefCell::new(Free { buffers: Vec::new(), unused: 0 }) };
}

/// Buffers of bodies that have been freed, for the next ones.
struct Free {
    buffers: Vec<Vec<u8>>,
    /// The fewest that were free at once since the last trim: so many have not been needed.
    unused: usize,
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
    /// What of the buffer counts against [`LARGE_MAX`].
    counted: usize,
    /// Whose it is; None: nobody's in particular.
    share: Option<Arc<Share>>,
}

/// All memory that large bodies may take has been taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoMemory;

impl Body {
    /// An empty body with room for `size` bytes, or for as many as a usual one has.
    pub(crate) fn with_room(size: usize) -> Self {
        let size = size.min(KEPT_MAX);
        if size > KEPT_MIN
            && let Some(buffer) = FREE.with_borrow_mut(|free| free.take(size))
        {
            return Self { buffer, len: 0, counted: 0, share: None };
        }
        // Size classes make kept buffers fit the next body of about the same size.
        let room = if size > KEPT_MIN { size.next_multiple_of(32 * 1024) } else { size };
        Self { buffer: vec![0; room], len: 0, counted: 0, share: None }
    }

    /// A body that has come already, in the buffer that it came in.
    pub(crate) fn whole(buffer: Vec<u8>) -> Self {
        Self { len: buffer.len(), buffer, counted: 0, share: None }
    }

    /// The body, counted as part of that share where it becomes a large one.
    pub(crate) fn of(mut self, share: Option<&Arc<Share>>) -> Self {
        debug_assert!(self.counted == 0, "it is of somebody from the beginning");
        self.share = share.cloned();
        self
    }

    /// Whose it is.
    pub(crate) fn share(&self) -> Option<&Arc<Share>> {
        self.share.as_ref()
    }

    /// Room for further bytes of a body that is to be `length` long. It grows with what has come, not with what was
    /// announced: a large announcement alone costs nothing.
    pub(crate) fn room(&mut self, length: usize) -> Result<&mut [u8], NoMemory> {
        if self.len == self.buffer.len() && self.len < length {
            self.grow(length.min((self.len * 2).max(KEPT_MAX)))?;
        }
        let end = length.min(self.buffer.len());
        Ok(self.buffer.get_mut(self.len..end).unwrap_or_default())
    }

    /// Counts `n` bytes that were read into [`Self::room`] as filled.
    pub(crate) fn filled(&mut self, n: usize) {
        self.len = (self.len + n).min(self.buffer.len());
    }

    /// Appends `bytes`, growing to twice what is needed when they do not fit.
    pub(crate) fn extend(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        let needed = self.len + bytes.len();
        if needed > self.buffer.len() {
            self.grow((needed * 2).max(1024))?;
        }
        self.buffer[self.len..needed].copy_from_slice(bytes);
        self.len = needed;
        Ok(())
    }

    fn grow(&mut self, size: usize) -> Result<(), NoMemory> {
        if size > KEPT_MAX {
            let more = size - self.counted;
            match &self.share {
                Some(share) => share.take(&LARGE, more)?,
                None => LARGE.take(more)?,
            }
            self.counted = size;
        }
        self.buffer.resize(size, 0);
        Ok(())
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
        if self.counted > 0 {
            match &self.share {
                Some(share) => share.give_back(&LARGE, self.counted),
                None => LARGE.give_back(self.counted),
            }
        }
        if self.buffer.len() > KEPT_MIN && self.buffer.len() <= KEPT_MAX {
            let buffer = std::mem::take(&mut self.buffer);
            let _ = FREE.try_with(|free| {
                let mut free = free.borrow_mut();
                if free.buffers.len() < KEPT {
                    free.buffers.push(buffer);
                }
            });
        }
    }
}

impl Free {
    fn take(&mut self, size: usize) -> Option<Vec<u8>> {
        let fits = |b: &Vec<u8>| b.len() >= size && b.len() <= size * 2 + 32 * 1024;
        let at = self.buffers.iter().rposition(fits)?;
        let buffer = self.buffers.swap_remove(at);
        self.unused = self.unused.min(self.buffers.len());
        Some(buffer)
    }
}

/// Frees the kept buffers of this thread that have not been needed since the last call.
pub(crate) fn trim() {
    FREE.with_borrow_mut(|free| {
        free.buffers.drain(..free.unused.min(free.buffers.len()));
        free.unused = free.buffers.len();
    });
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
                body.extend(&piece).expect("there is memory");
                expected.extend_from_slice(&piece);
            }
            assert!(*body == expected[..]);
        }
    }

    #[test]
    fn large_bodies_have_a_bound_together_and_give_back_what_they_took() {
        let account = Account { taken: AtomicUsize::new(0), most: 100 };
        assert_eq!((account.take(60), account.take(41), account.take(40)), (Ok(()), Err(NoMemory), Ok(())));
        account.give_back(60);
        assert_eq!((account.take(usize::MAX), account.take(60)), (Err(NoMemory), Ok(())));
        // A body takes what it grows by, and counts it itself: that much is given back when it goes.
        let mut body = Body::default();
        assert_eq!(body.grow(LARGE_MAX + 1), Err(NoMemory));
        assert_eq!((body.grow(KEPT_MAX * 2), body.counted), (Ok(()), KEPT_MAX * 2));
        assert_eq!((body.grow(KEPT_MAX * 4), body.counted), (Ok(()), KEPT_MAX * 4));
    }

    #[test]
    fn one_key_leaves_room_for_large_bodies_of_the_others() {
        let account = Account { taken: AtomicUsize::new(0), most: 1000 };
        let [greedy, second, third] = [Share::default(), Share::default(), Share::default()];
        let takes_all = |share: &Share| (0..).take_while(|_| share.take(&account, 1) == Ok(())).count();
        assert_eq!((takes_all(&greedy), takes_all(&greedy)), (750, 0));
        assert_eq!((takes_all(&second), takes_all(&third)), (187, 47));
        greedy.give_back(&account, 750);
        second.give_back(&account, 187);
        assert_eq!(
            takes_all(&third),
            703,
            "what others gave back is there again, for one key in all three quarters"
        );
        third.give_back(&account, 750);
        assert_eq!((account.left(), third.0.load(Ordering::Relaxed)), (1000, 0));
        // A body counts as its key's, and gives back what it took.
        let share = Arc::new(Share::default());
        let mut body = Body::default().of(Some(&share));
        assert_eq!(body.grow(KEPT_MAX * 2), Ok(()));
        assert_eq!(body.grow(LARGE_MAX / 5 * 4), Err(NoMemory));
        assert_eq!(share.0.load(Ordering::Relaxed), KEPT_MAX * 2);
        drop(body);
        assert_eq!(share.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_kept_body_starts_empty_and_is_bounded_in_number() {
        let many: Vec<Body> = (0..3 * KEPT).map(|_| Body::with_room(100_000)).collect();
        drop(many);
        FREE.with_borrow(|free| assert_eq!(free.buffers.len(), KEPT));
        let again = Body::with_room(100_000);
        assert!(again.is_empty());
        FREE.with_borrow(|free| assert_eq!(free.buffers.len(), KEPT - 1));
    }

    #[test]
    fn what_was_not_needed_between_two_trims_is_freed() {
        drop((0..10).map(|_| Body::with_room(100_000)).collect::<Vec<_>>());
        trim();
        FREE.with_borrow(|free| {
            assert_eq!(free.buffers.len(), 10, "they were all in use since the last trim")
        });
        drop((0..3).map(|_| Body::with_room(100_000)).collect::<Vec<_>>());
        trim();
        FREE.with_borrow(|free| assert_eq!(free.buffers.len(), 3));
    }
}
