//! A name, word or number that may arrive in parts.

use std::borrow::Cow;

use crate::text::decode;

/// Longest word that is read, in bytes as written. Longer ones are cut.
pub(super) const WORD: usize = 64;
/// Longest id of a response that is read, in bytes as written.
pub const MAX_RESPONSE_ID: usize = 256;

/// The parts so far, at most [`MAX_RESPONSE_ID`] bytes. Empty between tokens.
#[derive(Clone, Debug, Default)]
pub(super) struct Token {
    bytes: Vec<u8>,
    cut: bool,
}

impl Token {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Keeps `part` as far as the token is no longer than `most` with it.
    pub(super) fn push(&mut self, part: &[u8], most: usize) {
        let (kept, cut) = head(part, most.saturating_sub(self.bytes.len()));
        self.bytes.extend_from_slice(kept);
        self.cut |= cut;
    }

    /// Hands over the token that ends with `last`, and whether it was cut, and forgets it.
    pub(super) fn finish<T>(
        &mut self,
        last: &[u8],
        most: usize,
        escaped: bool,
        take: impl FnOnce(&[u8], bool) -> T,
    ) -> T {
        if self.is_empty() && !escaped {
            let (kept, cut) = head(last, most);
            return take(kept, cut);
        }
        self.push(last, most);
        let cut = std::mem::take(&mut self.cut);
        let taken = if escaped {
            let mut decoded = String::new();
            decode(&self.bytes, |piece| {
                decoded.push_str(piece);
                true
            });
            take(decoded.as_bytes(), cut)
        } else {
            take(&self.bytes, cut)
        };
        self.bytes.clear();
        taken
    }
}

/// The first `most` bytes, and whether there are more.
fn head(bytes: &[u8], most: usize) -> (&[u8], bool) {
    bytes.get(..most).map_or((bytes, false), |head| (head, head.len() < bytes.len()))
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
