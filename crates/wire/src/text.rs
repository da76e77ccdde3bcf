//! JSON string contents without building strings first: decoding in pieces, comparing, cutting.

use crate::bits::{RUN, Run};
use crate::peek::Span;

/// Raw bytes a decoded byte can take at most: `\u0041` is one byte of text.
pub(crate) const RAW_PER_BYTE: usize = 6;
/// Longest escape there is, a surrogate pair.
const LONGEST_ESCAPE: usize = 12;

/// Appends the text of a JSON string to `out`, at most `limit` bytes of it, cut at a character boundary.
///
/// `span` is the string in `body` with its quotes, as [`crate::peek`] gives it; a span outside of `body` is empty
/// text. Lone surrogates, escapes that JSON does not know and bytes that are not UTF-8 become U+FFFD.
pub fn unescape(body: &[u8], span: &Span, limit: usize, out: &mut String) {
    let mut left = limit;
    decode(head(inside(body, span), limit), |piece| {
        let taken = cut(piece, left);
        out.push_str(taken);
        left = remaining(left, piece.as_bytes(), taken.as_bytes());
        left > 0
    });
}

/// The string's raw content, quotes taken off.
pub(crate) fn inside<'b>(body: &'b [u8], span: &Span) -> &'b [u8] {
    let quoted = body.get(span.clone()).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

/// As much of `raw` as can matter for the first `limit` decoded bytes. What the cut breaks lies behind them.
pub(crate) fn head(raw: &[u8], limit: usize) -> &[u8] {
    let most = limit.saturating_mul(RAW_PER_BYTE).saturating_add(LONGEST_ESCAPE);
    raw.get(..most).unwrap_or(raw)
}

/// `text` cut to `limit` bytes at a character boundary.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    text.get(..text.floor_char_boundary(limit)).unwrap_or(text)
}

/// The same of bytes that need not be UTF-8.
pub(crate) fn cut_bytes(text: &[u8], limit: usize) -> &[u8] {
    let continues = |at: &usize| text.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    // No character is longer than four bytes.
    let end = (limit.saturating_sub(3)..=limit).rev().find(|at| !continues(at)).unwrap_or(limit);
    text.get(..end).unwrap_or(text)
}

/// Bytes still wanted after `taken` of `piece`. A character that does not fit ends the text: a shorter one behind it
/// must not slip in.
pub(crate) fn remaining(left: usize, piece: &[u8], taken: &[u8]) -> usize {
    if taken.len() < piece.len() { 0 } else { left - taken.len() }
}

/// Whether nothing but white space is in the string.
pub(crate) fn blank(raw: &[u8]) -> bool {
    let mut blank = true;
    decode(raw, |piece| {
        blank = piece.chars().all(char::is_whitespace);
        blank
    });
    blank
}

/// Hands the decoded text to `sink` piece by piece, until it returns false; U+FFFD where it is not UTF-8. Never
/// allocates.
pub(crate) fn decode(raw: &[u8], mut sink: impl FnMut(&str) -> bool) {
    decode_bytes(raw, |piece| {
        // Nearly always valid: checked many bytes at a time.
        if let Ok(text) = str::from_utf8(piece) {
            return sink(text);
        }
        piece.utf8_chunks().all(|chunk| {
            (chunk.valid().is_empty() || sink(chunk.valid()))
                && (chunk.invalid().is_empty() || sink("\u{fffd}"))
        })
    });
}

/// Hands the decoded text to `sink` piece by piece, until it returns false; what is not UTF-8 as it is. Never
/// allocates.
pub(crate) fn decode_bytes(raw: &[u8], mut sink: impl FnMut(&[u8]) -> bool) {
    let mut rest = raw;
    loop {
        let run = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        let (text, escape) = rest.split_at(run);
        if !text.is_empty() && !sink(text) || escape.is_empty() {
            return;
        }
        let (character, len) = escape_at(escape);
        if !sink(character.encode_utf8(&mut [0; 4]).as_bytes()) {
            return;
        }
        rest = escape.get(len..).unwrap_or_default();
    }
}

/// Appends the decoded text to `out`, at most `limit` bytes of it, cut at a character boundary; what is not UTF-8 as it
/// is. Returns how many bytes more may follow: none behind a character that does not fit, or a shorter one would slip in.
///
/// Escapes stand close together in code and in prose with line breaks, so what lies between them is copied without a call
/// for each piece.
pub(crate) fn decode_into(raw: &[u8], limit: usize, out: &mut Vec<u8>) -> usize {
    let begin = out.len();
    let end = begin.saturating_add(limit);
    let mut rest = raw;
    while out.len() <= end
        && let Some(run) = rest.first_chunk::<RUN>()
    {
        out.extend_from_slice(run);
        let plain = Run::new(run).equal(b'\\').trailing_zeros() as usize;
        rest = rest.get(plain..).unwrap_or_default();
        if plain < RUN {
            out.truncate(out.len() - RUN + plain);
            let (character, len) = escape_at(rest);
            match character {
                // Without a call: this is what most escapes stand for.
                '\0'..='\x7f' => out.push(character as u8),
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            rest = rest.get(len..).unwrap_or_default();
        }
    }
    if out.len() <= end {
        decode_bytes(rest, |piece| {
            out.extend_from_slice(piece);
            out.len() <= end
        });
    }
    if let Some(left) = end.checked_sub(out.len()) {
        return left;
    }
    let taken = cut_bytes(out.get(begin..).unwrap_or_default(), limit).len();
    out.truncate(begin + taken);
    0
}

/// The character an escape stands for and its raw length. `escape` begins with the backslash.
#[inline]
fn escape_at(escape: &[u8]) -> (char, usize) {
    let character = match escape.get(1) {
        Some(b'u') => return unicode_escape(escape),
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(&byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
        // Only the backslash is replaced: what follows may be the first byte of a longer character.
        _ => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (character, 2)
}

/// RFC 8259 section 7: a character outside the basic plane is written as a surrogate pair.
fn unicode_escape(escape: &[u8]) -> (char, usize) {
    let Some(first) = hex4(escape) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    if let (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) = (first, escape.get(6..).and_then(hex4)) {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return (char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
    }
    (char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER), 6)
}

/// The four digits of a `\uXXXX` at the beginning of `escape`.
fn hex4(escape: &[u8]) -> Option<u32> {
    let [b'\\', b'u', digits @ ..] = escape.first_chunk::<6>()? else {
        return None;
    };
    digits.iter().try_fold(0, |code, &digit| Some(code << 4 | char::from(digit).to_digit(16)?))
}

#[cfg(test)]
mod tests;
