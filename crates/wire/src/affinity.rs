//! Keys that send what shares a warm cache to the same replica.
//!
//! All are XXH3 (64 bit) of decoded text, seeded by the caller's salt (route, project) and by what the text is, so
//! that a session id never meets the prefix that happens to read the same. No key is ever the hash of nothing.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::bits::RUN;
use crate::peek::{Peek, Span};
use crate::text::{decode_into, inside};

const PREFIX: u64 = 0x7072_6566_6978;
const CONVERSATION: u64 = 0x636f_6e76;
const SESSION: u64 = 0x7365_7373;
/// In no UTF-8 text: keeps the system prompt's end apart from the user's beginning.
const SEPARATOR: &[u8] = b"\xff";

/// The first `limit` bytes of the decoded system text, cut at a character boundary. None without a system prompt.
///
/// Text in one part and in several is the same text. `limit` counts up to [`crate::MAX_TEXT_HEAD`].
pub fn prefix_key(body: &[u8], peek: &Peek, limit: usize, salt: u64) -> Option<u64> {
    let mut text = Vec::with_capacity(room(&peek.system, limit));
    let any = gather(&mut text, body, &peek.system, limit);
    any.then(|| xxh3_64_with_seed(&text, salt ^ PREFIX))
}

/// `auto:conversation`: the first `limit` bytes of the system prompt and of the first user message, which all turns of
/// a talk share. None without text in a first user message.
pub fn conversation_key(body: &[u8], peek: &Peek, limit: usize, salt: u64) -> Option<u64> {
    let mut text = Vec::with_capacity(room(&peek.system, limit) + room(&peek.first_user, limit));
    gather(&mut text, body, &peek.system, limit);
    text.extend_from_slice(SEPARATOR);
    let any = gather(&mut text, body, &peek.first_user, limit);
    any.then(|| xxh3_64_with_seed(&text, salt ^ CONVERSATION))
}

/// A session id given by the client, all of its bytes. None when blank.
pub fn session_key(text: &[u8], salt: u64) -> Option<u64> {
    let blank = text
        .utf8_chunks()
        .all(|chunk| chunk.invalid().is_empty() && chunk.valid().chars().all(char::is_whitespace));
    (!blank).then(|| xxh3_64_with_seed(text, salt ^ SESSION))
}

/// Bytes for decoded text that is hashed in one go: gathered first, since hashing bit by bit costs more than the copy.
/// Text is never longer decoded than it is in the body, quotes included; and decoding runs over the limit before it cuts.
fn room(spans: &[Span], limit: usize) -> usize {
    spans.iter().map(ExactSizeIterator::len).sum::<usize>().min(limit) + RUN
}

/// Whether there was any text.
fn gather(text: &mut Vec<u8>, body: &[u8], spans: &[Span], limit: usize) -> bool {
    let mut left = limit;
    for span in spans {
        if left == 0 {
            break;
        }
        left = decode_into(inside(body, span), left, text);
    }
    left < limit
}

#[cfg(test)]
mod tests;
