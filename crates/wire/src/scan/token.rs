//! A name, word or number that may arrive in parts.

use std::borrow::Cow;

use crate::text::decode;

/// Longest word that is read, in bytes as written. Longer ones are cut.
pub(super) const WORD: usize = 64;

/// The parts so far. Empty between tokens.
#[derive(Clone, Debug)]
pub(super) struct Token {
    len: u8,
    bytes: [u8; WORD],
}

impl Default for Token {
    fn default() -> Self {
        Self { len: 0, bytes: [0; WORD] }
    }
}

impl Token {
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let free = self.bytes.get_mut(usize::from(self.len)..).unwrap_or_default();
        for (slot, &byte) in free.iter_mut().zip(part) {
            *slot = byte;
            self.len += 1;
        }
    }

    /// Hands over the token that ends with `last` and forgets it.
    pub(super) fn finish<T>(&mut self, last: &[u8], escaped: bool, take: impl FnOnce(&[u8]) -> T) -> T {
        if self.is_empty() && !escaped {
            return take(last.get(..WORD).unwrap_or(last));
        }
        self.push(last);
        let raw = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        self.len = 0;
        if !escaped {
            return take(raw);
        }
        let mut decoded = String::new();
        decode(raw, |piece| {
            decoded.push_str(piece);
            true
        });
        take(decoded.as_bytes())
    }
}

/// The printable ASCII of a word, at most [`WORD`] bytes: it ends up in logs and labels.
pub(crate) fn printable(word: &[u8]) -> Cow<'_, str> {
    let plain = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
    let word = word.get(..WORD).unwrap_or(word);
    match str::from_utf8(word) {
        Ok(text) if word.iter().all(plain) => Cow::Borrowed(text),
        _ => Cow::Owned(word.iter().filter(|byte| plain(byte)).map(|&byte| char::from(byte)).collect()),
    }
}
