//! The chunked coding (RFC 9112 section 7.1), incremental and strict.

use super::framing::is_token_byte;
use super::{HeadError, MAX_HEADERS};

/// Most bytes the extensions of one chunk may take.
pub const MAX_CHUNK_EXTENSION: usize = 4 * 1024;
/// Most bytes the extensions of one body may take together.
pub const MAX_EXTENSIONS: usize = 16 * 1024;
/// Most bytes the trailer section of one body may take.
pub const MAX_TRAILERS: usize = 16 * 1024;
/// Most hexadecimal digits a chunk size may have, leading zeros included: 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;

/// What one [`ChunkDecoder::decode`] made of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of `buf` consumed (framing and payload).
    pub consumed: usize,
    /// The payload was moved to `buf[..payload]`.
    pub payload: usize,
    /// The last chunk and the trailer section were read.
    pub done: bool,
}

/// Takes the chunked coding off a body that comes in any split. Holds no bytes; extensions and trailers are checked,
/// bounded and dropped.
///
/// Refused: a lone CR or LF, blanks around a size, sizes of more than 16 digits, a line end inside a quoted
/// extension value, control bytes, malformed or folded trailers, more than [`MAX_HEADERS`] trailers.
#[derive(Debug, Default)]
pub struct ChunkDecoder {
    state: State,
    extensions: usize,
    trailers: usize,
    trailer_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size { size: u64, digits: u8 },
    Extension { size: u64, bytes: usize, quote: Quote },
    SizeLf { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { size: 0, digits: 0 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quote {
    Outside,
    Inside,
    Escaped,
}

impl ChunkDecoder {
    /// A decoder at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the payload to the front of `buf` in time linear in its length. `consumed < buf.len()` only when done:
    /// the bytes from `consumed` on belong to what follows and are untouched. After an error the body's end is
    /// unknown; the connection must be closed.
    pub fn decode(&mut self, buf: &mut [u8]) -> Result<Decoded, HeadError> {
        let mut at = 0;
        let mut payload = 0;
        while self.state != State::Done {
            if let State::Data { left } = self.state {
                let available = buf.len() - at;
                let take = usize::try_from(left).unwrap_or(available).min(available);
                buf.copy_within(at..at + take, payload);
                at += take;
                payload += take;
                let left = left - take as u64;
                self.state = if left == 0 { State::DataCr } else { State::Data { left } };
            }
            let Some(byte) = buf.get(at) else { break };
            self.state = self.step(*byte)?;
            at += 1;
        }
        Ok(Decoded { consumed: at, payload, done: self.state == State::Done })
    }

    /// One byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, HeadError> {
        match (self.state, byte) {
            (State::Size { size, digits }, _) => size_byte(size, digits, byte),
            (State::Extension { size, bytes, quote }, _) => self.extension_byte(size, bytes, quote, byte),
            (State::SizeLf { size: 0 }, b'\n') => Ok(State::TrailerStart),
            (State::SizeLf { size }, b'\n') => Ok(State::Data { left: size }),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::default()),
            (State::DataCr | State::DataLf, _) => Err(HeadError::Bad("a chunk is longer than its size")),
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            (State::TrailerStart | State::TrailerName | State::TrailerValue, _) => self.trailer_byte(byte),
            (State::TrailerLf, b'\n') => Ok(State::TrailerStart),
            (State::EndLf, b'\n') => Ok(State::Done),
            (State::SizeLf { .. } | State::TrailerLf | State::EndLf, _) => {
                Err(HeadError::Bad("a lone CR in the chunked coding"))
            }
            // `decode` takes data in bulk and stops at the end.
            (state @ (State::Data { .. } | State::Done), _) => Ok(state),
        }
    }

    /// A line ends where its CR LF is, quoted or not; a quote that is still open there is refused, because a reader
    /// that respects quotes would look for the end further on.
    fn extension_byte(
        &mut self,
        size: u64,
        bytes: usize,
        quote: Quote,
        byte: u8,
    ) -> Result<State, HeadError> {
        let quote = match (quote, byte) {
            (Quote::Outside, b'\r') => return Ok(State::SizeLf { size }),
            (_, b'\0'..=b'\x08' | b'\x0a'..=b'\x1f' | b'\x7f') => {
                return Err(HeadError::Bad("a control byte in a chunk extension"));
            }
            (Quote::Outside, b'"') => Quote::Inside,
            (Quote::Outside, _) => Quote::Outside,
            (Quote::Inside, b'"') => Quote::Outside,
            (Quote::Inside, b'\\') => Quote::Escaped,
            (Quote::Inside | Quote::Escaped, _) => Quote::Inside,
        };
        self.extensions += 1;
        if bytes >= MAX_CHUNK_EXTENSION || self.extensions > MAX_EXTENSIONS {
            return Err(HeadError::Bad("chunk extensions too long"));
        }
        Ok(State::Extension { size, bytes: bytes + 1, quote })
    }

    fn trailer_byte(&mut self, byte: u8) -> Result<State, HeadError> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > MAX_TRAILERS {
            return Err(HeadError::Bad("trailer section too long"));
        }
        match (self.state, byte) {
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, b'\t' | b' '..=b'~' | b'\x80'..) => Ok(State::TrailerValue),
            (State::TrailerName, _) if is_token_byte(byte) => Ok(State::TrailerName),
            (State::TrailerStart, _) if is_token_byte(byte) => {
                self.trailers += 1;
                if self.trailers > MAX_HEADERS {
                    Err(HeadError::Bad("too many trailers"))
                } else {
                    Ok(State::TrailerName)
                }
            }
            _ => Err(HeadError::Bad("malformed trailer")),
        }
    }
}

fn size_byte(size: u64, digits: u8, byte: u8) -> Result<State, HeadError> {
    let digit = match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        b'A'..=b'F' => byte - b'A' + 10,
        b'\r' if digits > 0 => return Ok(State::SizeLf { size }),
        b';' if digits > 0 => return Ok(State::Extension { size, bytes: 0, quote: Quote::Outside }),
        _ => return Err(HeadError::Bad("malformed chunk size")),
    };
    if digits == MAX_SIZE_DIGITS {
        return Err(HeadError::Bad("chunk size too long"));
    }
    Ok(State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 })
}

/// Writes a chunk head (`{:x}\r\n`) for `len` payload bytes, and returns how many bytes of `out` it takes.
pub fn chunk_head(len: usize, out: &mut [u8; 18]) -> usize {
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4).max(1) as usize;
    let mut rest = len;
    for slot in out.iter_mut().take(digits).rev() {
        *slot = b"0123456789abcdef"[rest & 15];
        rest >>= 4;
    }
    for (slot, byte) in out.iter_mut().skip(digits).zip(*b"\r\n") {
        *slot = byte;
    }
    digits + 2
}
