#![allow(missing_docs)]
use crate::peek::Span;
/// The text of a JSON string span (quotes included), unescaped into `out` up to `limit` bytes, cut at a character boundary.
/// Lone surrogates become U+FFFD. Returns borrowed text where there is nothing to unescape? The author decides; keep it allocation-free.
pub fn unescape(_body: &[u8], _span: &Span, _limit: usize, _out: &mut String) {
    unimplemented!()
}

