//! Decoders that take bytes as they come and give what can be given, in bounded memory.
//!
//! Libraries: flate2 on zlib-rs and brotli-decompressor are Rust throughout. zstd is the reference library: of the
//! Rust decoders the kept one gives nothing out before a whole window (megabytes) is there, which would hold back the
//! events of a stream.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::Coding;
use super::inflate::Inflate;

/// Largest window of a request: 8 MiB for zstd (RFC 9659), 16 MiB for brotli, which its format ends at.
const REQUEST_ZSTD_LOG: u32 = 23;
/// Largest window of an answer that is read along: 4 MiB, since it is held for as long as the answer lasts.
const ANSWER_LOG: u32 = 22;

/// Why coded bytes cannot be decoded: a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt(pub(super) &'static str);

pub(super) const TRAILING: Corrupt = Corrupt("bytes follow its end");
pub(super) const INVALID: Corrupt = Corrupt("it is corrupt");
const LARGE_WINDOW: Corrupt = Corrupt("its window is too large");

/// What one call has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) read: usize,
    pub(super) written: usize,
}

/// How much memory a decoder may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    Request,
    Answer,
}

/// Takes one coding off.
pub(super) enum Decoder {
    Inflate(Inflate),
    Zstd(Zstd),
    Brotli(Brotli),
}

impl Decoder {
    pub(super) fn new(coding: Coding, window: Window) -> Self {
        match coding {
            Coding::Gzip => Self::Inflate(Inflate::gzip()),
            Coding::Deflate => Self::Inflate(Inflate::deflate()),
            Coding::Zstd => Self::Zstd(Zstd::new(window)),
            Coding::Brotli => Self::Brotli(Brotli::new(window)),
        }
    }

    /// Decodes from `input` into `out`. No progress: it has given all that `input` can give.
    pub(super) fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        match self {
            Self::Inflate(inflate) => inflate.decode(input, out),
            Self::Zstd(zstd) => zstd.decode(input, out),
            Self::Brotli(brotli) => brotli.decode(input, out),
        }
    }

    /// What was read ends where the coding's own end is.
    pub(super) fn at_end(&self) -> bool {
        match self {
            Self::Inflate(inflate) => inflate.at_end(),
            Self::Zstd(zstd) => zstd.ended,
            Self::Brotli(brotli) => brotli.ended,
        }
    }
}

/// zstd (RFC 8878): any number of frames.
pub(super) struct Zstd {
    /// `None`: no memory for it, or a setting was refused.
    context: Option<DCtx<'static>>,
    ended: bool,
    /// There may be output that did not fit.
    full: bool,
}

impl Zstd {
    fn new(window: Window) -> Self {
        let log = match window {
            Window::Request => REQUEST_ZSTD_LOG,
            Window::Answer => ANSWER_LOG,
        };
        let context = DCtx::try_create().and_then(|mut context| {
            context.set_parameter(DParameter::WindowLogMax(log)).ok().map(|_| context)
        });
        Self { context, ended: false, full: false }
    }

    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        // Without anything to do the library counts a call as a fault, and forgets that the frame has ended.
        if input.is_empty() && !self.full {
            return Ok(Progress::default());
        }
        let context = self.context.as_mut().ok_or(Corrupt("there is no memory to decode it"))?;
        let room = out.len();
        let (mut read, mut write) = (InBuffer::around(input), OutBuffer::around(out));
        let missing =
            context.decompress_stream(&mut write, &mut read).map_err(
                |code| match zstd_safe::get_error_name(code) {
                    "Frame requires too much memory for decoding" => LARGE_WINDOW,
                    _ if self.ended => TRAILING,
                    _ => INVALID,
                },
            )?;
        let progress = Progress { read: read.pos(), written: write.pos() };
        self.full = progress.written == room;
        if progress != Progress::default() {
            self.ended = missing == 0;
        }
        Ok(progress)
    }
}

/// Brotli (RFC 7932).
pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    window: Window,
    begun: bool,
    ended: bool,
}

impl Brotli {
    fn new(window: Window) -> Self {
        let alloc = StandardAlloc::default;
        // Strict: no windows beyond the format's own 16 MiB.
        let state = Box::new(BrotliState::new_strict(alloc(), alloc(), alloc()));
        Self { state, window, begun: false, ended: false }
    }

    fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<Progress, Corrupt> {
        match input {
            [] => {}
            _ if self.ended => return Err(TRAILING),
            [first, ..] if !self.begun => {
                self.begun = true;
                if self.window == Window::Answer && window_log(*first) > ANSWER_LOG {
                    return Err(LARGE_WINDOW);
                }
            }
            _ => {}
        }
        if self.ended {
            return Ok(Progress::default());
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut room, mut written, mut total) = (out.len(), 0, 0);
        let state = &mut self.state;
        match BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut room,
            &mut written,
            out,
            &mut total,
            state,
        ) {
            BrotliResult::ResultFailure => return Err(INVALID),
            BrotliResult::ResultSuccess => self.ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        Ok(Progress { read, written })
    }
}

/// Windows from 2^18 up are told by the first four bits (RFC 7932 section 9.1); smaller ones do not matter here.
fn window_log(first: u8) -> u32 {
    match (first & 1, first >> 1 & 7) {
        (1, n @ 1..) => 17 + u32::from(n),
        _ => 17,
    }
}
