//! Content codings (RFC 9110 section 8.4): request bodies are decoded before anything reads them, and go to the
//! replica plain; a coded answer passes as it is, with a decoded copy to read along.
//!
//! Nothing is ever guessed from coded bytes: a short frame may leave words of the body readable, and whether it does
//! depends on the body.

mod copy;
mod decoder;
mod inflate;

use std::sync::Arc;

use httparse::Header;
use smallvec::SmallVec;

use crate::buffers::{Body, Share};
use crate::refusal::Refusal;
pub(crate) use copy::{DecodedCopy, Reader};
use decoder::{Corrupt, Decoder, Progress, Window};

/// Most codings applied one after the other.
const MAX_CODINGS: usize = 2;
/// Bytes read and written by one step of decoding, about a millisecond's work: other requests of the thread are
/// served between two steps.
const STEP: usize = 256 * 1024;
/// What one call of a decoder counts for at the least, so that a body of many tiny frames is no free work.
const CALL: usize = 4 * 1024;
/// Room between two codings.
const BETWEEN: usize = 32 * 1024;

/// One content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    /// The zlib format (RFC 1950), and raw deflate too, which some senders mean by it.
    Deflate,
    Zstd,
    Brotli,
}

impl Coding {
    fn of(name: &[u8]) -> Option<Self> {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("gzip") || is("x-gzip") {
            Some(Self::Gzip)
        } else if is("deflate") {
            Some(Self::Deflate)
        } else if is("zstd") {
            Some(Self::Zstd)
        } else if is("br") {
            Some(Self::Brotli)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Zstd => "zstd",
            Self::Brotli => "br",
        }
    }
}

/// The codings of a body, in the order in which they were applied. `identity` is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Codings(SmallVec<[Coding; MAX_CODINGS]>);

impl Codings {
    /// What the `Content-Encoding` fields of a request say.
    pub(crate) fn of(headers: &[Header<'_>]) -> Result<Self, Refusal> {
        let mut codings = Self::default();
        for header in headers.iter().filter(|h| h.name.eq_ignore_ascii_case("content-encoding")) {
            for name in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                if name.is_empty() || name.eq_ignore_ascii_case(b"identity") {
                    continue;
                }
                match Coding::of(name) {
                    Some(coding) if codings.0.len() < MAX_CODINGS => codings.0.push(coding),
                    _ => return Err(Refusal::UnsupportedCoding),
                }
            }
        }
        Ok(codings)
    }

    /// The body is plain.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The one coding of a body that is coded once.
    pub(crate) fn only(&self) -> Option<Coding> {
        match *self.0 {
            [coding] => Some(coding),
            _ => None,
        }
    }
}

/// Decodes a request body whole, `max` bytes at the most, and lets other requests be served meanwhile.
pub(crate) async fn decode(codings: &Codings, coded: Body, max: usize) -> Result<Body, Refusal> {
    // Boxed, so that the task of a plain request has no room for it.
    let mut decoding = Box::new(Decoding::new(codings, &coded, coded.share(), max));
    while !decoding.step()? {
        tokio::task::yield_now().await;
    }
    Ok(decoding.plain)
}

/// [`decode`] in one go, for callers that nobody waits behind.
pub(crate) fn decode_now(codings: &Codings, coded: &[u8], max: usize) -> Result<Body, Refusal> {
    let mut decoding = Decoding::new(codings, coded, None, max);
    while !decoding.step()? {}
    Ok(decoding.plain)
}

/// A request body on its way out of its codings.
struct Decoding<'a> {
    rest: &'a [u8],
    /// The coding applied last, which is the first to be taken off.
    outer: Stage,
    inner: Option<(Box<Between>, Stage)>,
    plain: Body,
    max: usize,
}

/// One coding being taken off.
struct Stage {
    coding: Coding,
    decoder: Decoder,
}

/// What one stage has written and the next has not read.
struct Between {
    bytes: [u8; BETWEEN],
    from: usize,
    to: usize,
    /// All that was ever written: bounded like the body itself, or a bomb could hide between the codings.
    written: usize,
}

impl<'a> Decoding<'a> {
    fn new(codings: &Codings, coded: &'a [u8], share: Option<&Arc<Share>>, max: usize) -> Self {
        let mut stages = codings.0.iter().rev().map(|&coding| Stage::new(coding));
        // Without a coding there would be nothing to do; callers do not come here then.
        let outer = stages.next().unwrap_or_else(|| Stage::new(Coding::Gzip));
        let between = || Box::new(Between { bytes: [0; BETWEEN], from: 0, to: 0, written: 0 });
        let inner = stages.next().map(|stage| (between(), stage));
        // A guess: text shrinks to a quarter or less.
        let room = coded.len().saturating_mul(4).clamp(1024, STEP).min(max.saturating_add(1));
        let plain = Body::with_room(room).of(share);
        Self { rest: coded, outer, inner, plain, max }
    }

    /// Decodes about [`STEP`] bytes. True: the body is whole.
    fn step(&mut self) -> Result<bool, Refusal> {
        let mut spent = 0;
        while spent < STEP {
            let progress = self.advance()?;
            if progress == Progress::default() {
                return self.whole().map(|()| true);
            }
            spent += CALL + progress.read + progress.written;
        }
        Ok(false)
    }

    fn advance(&mut self) -> Result<Progress, Refusal> {
        // One byte more than is allowed tells a body that is too large from one that just fits.
        let room = self.plain.room(self.max.saturating_add(1)).map_err(|_| Refusal::NoMemory)?;
        let room = match room.len() {
            0..=STEP => room,
            _ => room.get_mut(..STEP).unwrap_or_default(),
        };
        let input = self.rest.get(..STEP).unwrap_or(self.rest);
        let progress = match &mut self.inner {
            None => {
                let progress = self.outer.decode(input, room)?;
                self.rest = self.rest.get(progress.read..).unwrap_or_default();
                self.plain.filled(progress.written);
                progress
            }
            Some((between, inner)) => {
                let mut total = Progress::default();
                if between.from == between.to {
                    let outer = self.outer.decode(input, &mut between.bytes)?;
                    self.rest = self.rest.get(outer.read..).unwrap_or_default();
                    (between.from, between.to) = (0, outer.written);
                    between.written += outer.written;
                    total = outer;
                }
                let coded = between.bytes.get(between.from..between.to).unwrap_or_default();
                let progress = inner.decode(coded, room)?;
                between.from += progress.read;
                self.plain.filled(progress.written);
                if between.written > self.max {
                    return Err(Refusal::TooLarge(self.max));
                }
                Progress { read: total.read + progress.read, written: total.written + progress.written }
            }
        };
        if self.plain.len() > self.max {
            return Err(Refusal::TooLarge(self.max));
        }
        Ok(progress)
    }

    /// Nothing moves any more: at the end of every coding, or in the middle.
    fn whole(&self) -> Result<(), Refusal> {
        let stages = [Some(&self.outer), self.inner.as_ref().map(|(_, stage)| stage)];
        match stages.into_iter().flatten().find(|stage| !stage.decoder.at_end()) {
            None => Ok(()),
            Some(stage) => Err(stage.refusal(Corrupt("it is cut short"))),
        }
    }
}

impl Stage {
    fn new(coding: Coding) -> Self {
        Self { coding, decoder: Decoder::new(coding, Window::Request) }
    }

    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Refusal> {
        self.decoder.decode(input, out).map_err(|corrupt| self.refusal(corrupt))
    }

    fn refusal(&self, corrupt: Corrupt) -> Refusal {
        Refusal::BadCoding { coding: self.coding.name(), what: corrupt.0 }
    }
}

#[cfg(test)]
mod tests;
