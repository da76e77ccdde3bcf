//! The decoded copy of a coded answer: what the answer says of usage, ends and errors is read from it, and it is
//! thrown away. The client gets the coded bytes.

use std::cell::Cell;

use sluicegate_wire::{AnswerScan, Observer};

use super::Coding;
use super::decoder::{Corrupt, Decoder, Window};

/// Decoded bytes at a time.
const PART: usize = 8 * 1024;
/// Most decoded bytes of one feed (up to 64 KiB coded): beyond that decoding would hold up the thread.
const MOST_PER_FEED: usize = 4 * 1024 * 1024;
/// Most of a stream's first events that is kept as text, in case they are an error.
const OPENING_MAX: usize = 16 * 1024;
/// Most copies of one thread at a time, each up to about 4 MiB and usually far less. Replicas are not asked for coded
/// answers, so that there are any is an exception.
const COPIES: u32 = 128;

thread_local! {
    static OPEN: Cell<u32> = const { Cell::new(0) };
}

/// Who reads the copy.
#[derive(Debug)]
pub(crate) enum Reader {
    /// An event stream. It hides nothing: an event cannot be cut out of coded bytes.
    Stream(Observer),
    /// Any other answer.
    Whole(Box<AnswerScan>),
}

/// Decodes and reads along.
pub(crate) struct DecodedCopy {
    decoder: Decoder,
    pub(crate) reader: Reader,
    /// A stream's text up to its first content.
    opening: Vec<u8>,
    _place: Place,
}

impl DecodedCopy {
    /// `None` where this thread reads as many as it may.
    pub(crate) fn new(coding: Coding, reader: Reader) -> Option<Self> {
        let place = Place::take()?;
        Some(Self {
            decoder: Decoder::new(coding, Window::Answer),
            reader,
            opening: Vec::new(),
            _place: place,
        })
    }

    /// The next coded bytes. True: the first event with content was in them. After an error nothing more can be read.
    pub(crate) fn feed(&mut self, mut coded: &[u8]) -> Result<bool, Corrupt> {
        let mut part = [0; PART];
        let (mut first_content, mut decoded) = (false, 0);
        loop {
            let progress = self.decoder.decode(coded, &mut part)?;
            if progress.read == 0 && progress.written == 0 {
                return Ok(first_content);
            }
            coded = coded.get(progress.read..).unwrap_or_default();
            first_content |= self.read(part.get_mut(..progress.written).unwrap_or_default());
            decoded += progress.written;
            if decoded > MOST_PER_FEED {
                return Err(Corrupt("it grows too much"));
            }
        }
    }

    /// The answer is over.
    pub(crate) fn finish(&mut self) {
        if let Reader::Stream(observer) = &mut self.reader {
            // It hides nothing, so it has held nothing back.
            observer.finish();
        }
    }

    /// The text of the stream's first events, decoded.
    pub(crate) fn opening(&self) -> &[u8] {
        &self.opening
    }

    fn read(&mut self, plain: &mut [u8]) -> bool {
        match &mut self.reader {
            Reader::Stream(observer) => {
                if observer.content_events() > 0 {
                    self.opening = Vec::new();
                } else if self.opening.len() + plain.len() <= OPENING_MAX {
                    self.opening.extend_from_slice(plain);
                }
                observer.feed(plain).first_content
            }
            Reader::Whole(scan) => {
                scan.feed(plain);
                false
            }
        }
    }
}

impl std::fmt::Debug for DecodedCopy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecodedCopy").field("reader", &self.reader).finish_non_exhaustive()
    }
}

/// One of the [`COPIES`] of this thread.
struct Place;

impl Place {
    fn take() -> Option<Self> {
        OPEN.with(|open| {
            let free = open.get() < COPIES;
            free.then(|| {
                open.set(open.get() + 1);
                Self
            })
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // On the thread that took it: a connection never leaves its thread.
        let _ = OPEN.try_with(|open| open.set(open.get().saturating_sub(1)));
    }
}
