//! Hashes of a prompt's leading pieces: what tells that two prompts begin alike, and how far.
//!
//! A prompt is read as the engine will: tools, then the system prompt, then the turns, whatever their order in the body.
//! What is hashed are the bytes as they were sent, JSON included, since a client that sends the same turns again writes
//! them the same way; one that does not loses a match and nothing else. The text is cut into pieces of [`BLOCK_BYTES`],
//! and each hash covers its piece and all before it, so one equal hash means an equal whole beginning. What is left at the
//! end is no piece: the next turn goes on there.
//!
//! Reading every byte of a long prompt once more would cost as much as all else that is done with it. Prompts of different
//! talks part in their heads, or else by texts of different lengths, which moves all that follows: the head is hashed
//! whole, and of each later piece a sample. Two prompts that differ there by a few bytes in the place of as many others
//! may be taken for one, and one of them be sent where less of it is warm than predicted.

use xxhash_rust::xxh3::xxh3_64;

use crate::peek::{Peek, Span};

/// Bytes of prompt text in a piece: some 256 tokens.
pub const BLOCK_BYTES: usize = 1024;
/// Most pieces of one prompt that are hashed: the first MiB of it.
pub const MAX_BLOCKS: usize = 1024;
/// Pieces of which every byte is hashed.
const WHOLE: usize = 4;
/// Where the words of a sample are: spread, and not at even distances, which lists of records may have as well.
const SAMPLE: [usize; 8] = [0, 139, 291, 433, 584, 727, 871, BLOCK_BYTES - 8];
/// Odd words with as many ones as zeros, to tell the places of a sample apart: fractions of the roots of 2, 3, 5 and 7.
const PLACES: [u64; 4] =
    [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Puts the hashes of the prompt's leading pieces into `blocks`, in order, in place of what it holds: [`MAX_BLOCKS`] at
/// most. `salt`: what else the engine's cache depends on, the model above all. Returns the bytes of the whole prompt text,
/// for the share of a piece in it.
pub fn prompt_blocks(body: &[u8], peek: &Peek, salt: u64, blocks: &mut Vec<u64>) -> u64 {
    blocks.clear();
    let mut chain = Chain { hash: salt, blocks };
    let mut carry = Carry { bytes: [0; BLOCK_BYTES], len: 0 };
    let mut total = 0;
    for region in [&peek.tools, &peek.instructions, &peek.turns] {
        let text = inner(body, region);
        total += text.len() as u64;
        let text = carry.fill(text, &mut chain);
        let (pieces, rest) = text.as_chunks::<BLOCK_BYTES>();
        chain.push(pieces);
        carry.keep(rest);
    }
    total
}

/// What is between the quotes or brackets of a value: the turns of the next request begin with these without the bracket.
fn inner<'b>(body: &'b [u8], region: &Option<Span>) -> &'b [u8] {
    let value = region.as_ref().and_then(|span| body.get(span.clone())).unwrap_or_default();
    match value {
        [b'"' | b'[', text @ .., b'"' | b']'] => text,
        other => other,
    }
}

struct Chain<'a> {
    hash: u64,
    blocks: &'a mut Vec<u64>,
}

impl Chain<'_> {
    fn push(&mut self, pieces: &[[u8; BLOCK_BYTES]]) {
        let there = self.blocks.len();
        let pieces = pieces.get(..MAX_BLOCKS.saturating_sub(there)).unwrap_or(pieces);
        let (head, rest) = pieces.split_at(WHOLE.saturating_sub(there).min(pieces.len()));
        self.push_by(head, |piece| xxh3_64(piece));
        self.push_by(rest, sampled);
    }

    fn push_by(&mut self, pieces: &[[u8; BLOCK_BYTES]], own: impl Fn(&[u8; BLOCK_BYTES]) -> u64) {
        let hash = &mut self.hash;
        self.blocks.extend(pieces.iter().map(|piece| {
            *hash = fold(*hash ^ PLACES[0], own(piece) ^ PLACES[1]);
            *hash
        }));
    }
}

/// A hash of a piece's sample.
fn sampled(piece: &[u8; BLOCK_BYTES]) -> u64 {
    let words = SAMPLE.map(|at| word(piece, at));
    let (pairs, _) = words.as_chunks::<2>();
    let folded = pairs.iter().zip(PLACES).map(|([a, b], place)| fold(a ^ place, b ^ place.rotate_left(32)));
    folded.fold(0, |sum: u64, one| sum.rotate_left(17) ^ one)
}

fn word(piece: &[u8; BLOCK_BYTES], at: usize) -> u64 {
    piece.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Both halves of the product: every bit of the result depends on all of both.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// The beginning of a piece that goes on in the next region.
struct Carry {
    bytes: [u8; BLOCK_BYTES],
    len: usize,
}

impl Carry {
    /// Completes the piece with the head of `text`, if one has begun; returns what is left of it.
    fn fill<'t>(&mut self, text: &'t [u8], chain: &mut Chain<'_>) -> &'t [u8] {
        if self.len == 0 {
            return text;
        }
        let (head, rest) = text.split_at(text.len().min(BLOCK_BYTES - self.len));
        self.keep(head);
        if self.len == BLOCK_BYTES {
            self.len = 0;
            chain.push(std::slice::from_ref(&self.bytes));
        }
        rest
    }

    /// `part` is less than what is missing of a piece, or just that.
    fn keep(&mut self, part: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + part.len()) {
            place.copy_from_slice(part);
            self.len += part.len();
        }
    }
}

#[cfg(test)]
mod tests;
