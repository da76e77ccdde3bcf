//! Finding the end of JSON strings and containers 64 bytes at a step.
//!
//! Each step turns 64 bytes into bit masks (bit i stands for byte i) and works on those: the escape carry and the
//! in-string mask are the ones of Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (VLDB Journal 2019),
//! section 3.1. Both readers carry their state over, so the bytes may come in any split.

mod step;

pub(crate) use step::{RUN, Run};
use step::{STEP, Step};

const EVEN: u64 = 0x5555_5555_5555_5555;

/// Reads on inside a string, from just after its opening quote.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InString {
    /// 1 where the next byte is escaped by a backslash before it.
    carry: u64,
    /// A backslash was met: the text has to be unescaped before it is compared.
    pub(crate) escaped: bool,
}

impl InString {
    /// The offset just past the closing quote; `None` when the string goes on beyond `bytes`.
    #[inline]
    pub(crate) fn close(&mut self, bytes: &[u8]) -> Option<usize> {
        // Names and short values are most of the strings and few of the bytes.
        if self.carry != 0 {
            return self.close_by_steps(bytes, 0);
        }
        let plain = plain_run(bytes);
        if bytes.get(plain) == Some(&b'"') { Some(plain + 1) } else { self.close_by_steps(bytes, plain) }
    }

    fn close_by_steps(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        // A reader of its own stays in registers.
        let mut reader = *self;
        let end = reader.step_on(bytes, from);
        *self = reader;
        end
    }

    #[inline]
    fn step_on(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        let (steps, tail) = bytes.get(from..).unwrap_or_default().as_chunks::<STEP>();
        for step in steps {
            if !self.passes(step)
                && let Some(end) = self.step(step, STEP)
            {
                return Some(at + end);
            }
            at += STEP;
        }
        if tail.is_empty() {
            return None;
        }
        self.step(&padded(tail), tail.len()).map(|end| at + end)
    }

    /// Nothing in these bytes ends the string, escapes what follows them or tells more of it than is known. In prose
    /// that is nearly every step, and it is seen without a mask.
    #[inline]
    fn passes(&mut self, step: &[u8; STEP]) -> bool {
        let bytes = Step::new(step);
        let passes = !bytes.any(b'"') && step.last() != Some(&b'\\') && (self.escaped || !bytes.any(b'\\'));
        self.carry &= u64::from(!passes);
        passes
    }

    #[inline]
    fn step(&mut self, step: &[u8; STEP], len: usize) -> Option<usize> {
        let bytes = Step::new(step);
        let quotes = bytes.equal(b'"');
        let slashes = bytes.equal(b'\\');
        let mut open = quotes;
        if slashes | self.carry != 0 {
            open &= !escaped(slashes, &mut self.carry, len);
        }
        if open == 0 {
            self.escaped |= slashes != 0;
            return None;
        }
        let end = open.trailing_zeros() as usize;
        self.escaped |= slashes & below(end) != 0;
        Some(end + 1)
    }
}

/// Reads on inside an object or array whose content is of no interest, from just after its opening bracket.
///
/// Brackets are counted, not matched by kind: `{]` passes. The engine behind refuses such a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InContainer {
    depth: u64,
    carry: u64,
    /// All ones inside a string.
    in_string: u64,
}

impl InContainer {
    pub(crate) fn new() -> Self {
        Self { depth: 1, carry: 0, in_string: 0 }
    }

    /// The offset just past the closing bracket; `None` when the container goes on beyond `bytes`.
    pub(crate) fn close(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        let (steps, tail) = bytes.as_chunks::<STEP>();
        for step in steps {
            if let Some(end) = self.step(step, STEP) {
                return Some(at + end);
            }
            at += STEP;
        }
        if tail.is_empty() {
            return None;
        }
        self.step(&padded(tail), tail.len()).map(|end| at + end)
    }

    #[inline]
    fn step(&mut self, step: &[u8; STEP], len: usize) -> Option<usize> {
        let bytes = Step::new(step);
        let mut quotes = bytes.equal(b'"');
        let slashes = bytes.equal(b'\\');
        if slashes | self.carry != 0 {
            quotes &= !escaped(slashes, &mut self.carry, len);
        }
        let inside = parity(quotes) ^ self.in_string;
        // The state after the last byte that counts; padding holds no quotes.
        self.in_string = ((inside as i64) >> 63) as u64;
        // `[` and `{` (and their closing partners) differ in bit 5 alone.
        let opens = bytes.equal_with_bit_5(b'{') & !inside;
        let mut closes = bytes.equal_with_bit_5(b'}') & !inside;
        let opened = u64::from(opens.count_ones());
        let closed = u64::from(closes.count_ones());
        if closed >= self.depth {
            let mut before = 0;
            while closes != 0 {
                let at = closes.trailing_zeros() as usize;
                before += 1;
                if self.depth + u64::from((opens & below(at)).count_ones()) == before {
                    return Some(at + 1);
                }
                closes &= closes - 1;
            }
        }
        self.depth = self.depth + opened - closed;
        None
    }
}

/// The positions that a backslash before them escapes. `carry` goes in and out; `len` bytes count.
#[inline]
fn escaped(slashes: u64, carry: &mut u64, len: usize) -> u64 {
    let slashes = slashes & !*carry;
    let follows = slashes << 1 | *carry;
    let odd_starts = slashes & !EVEN & !follows;
    let (even_runs, over) = odd_starts.overflowing_add(slashes);
    let escaped = (EVEN ^ (even_runs << 1)) & follows;
    *carry = if len < STEP { escaped >> len & 1 } else { u64::from(over) };
    escaped
}

/// Bytes without a quote or backslash from the beginning, as far as a short string goes.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    if let Some(run) = bytes.first_chunk::<RUN>() {
        return Run::new(run).either(b'"', b'\\').trailing_zeros() as usize;
    }
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let hits = quotes_and_slashes(u64::from_le_bytes(*word));
        if hits != 0 {
            return index * 8 + hits.trailing_zeros() as usize / 8;
        }
    }
    let plain = tail.iter().take_while(|byte| !matches!(byte, b'"' | b'\\')).count();
    words.len() * 8 + plain
}

/// A high bit for each byte that is a quote or a backslash. Bits above the lowest one may be false: the borrow of the
/// subtraction runs upwards.
#[inline]
fn quotes_and_slashes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    zero_bytes(word ^ (ONES * b'"' as u64)) | zero_bytes(word ^ (ONES * b'\\' as u64))
}

/// Bit i of the result is the exclusive or of bits 0 to i.
#[inline]
fn parity(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Ones in the `count` lowest bits.
#[inline]
fn below(count: usize) -> u64 {
    if count < STEP { (1 << count) - 1 } else { u64::MAX }
}

#[inline]
fn padded(tail: &[u8]) -> [u8; STEP] {
    let mut step = [0; STEP];
    for (out, &byte) in step.iter_mut().zip(tail) {
        *out = byte;
    }
    step
}

#[cfg(test)]
mod tests;
