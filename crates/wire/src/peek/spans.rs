//! A bounded list of text parts.

use super::Span;
use super::cursor::Text;
use crate::text::RAW_PER_BYTE;

/// Most text parts that are kept of a system prompt or a user turn.
pub const MAX_SPANS: usize = 64;
/// Decoded bytes of text from its beginning that the kept parts hold at least, where there are as many.
pub const MAX_TEXT_HEAD: usize = 8192;

/// Parts in order. Both bounds depend on the parts before alone, so equal beginnings keep equal parts.
#[derive(Default)]
pub(super) struct Spans {
    spans: Vec<Span>,
    raw: usize,
}

impl Spans {
    pub(super) fn push(&mut self, text: &Text) {
        let full = self.spans.len() >= MAX_SPANS || self.raw >= MAX_TEXT_HEAD * RAW_PER_BYTE;
        if text.raw_len() > 0 && !full {
            self.raw += text.raw_len();
            self.spans.push(text.span.clone());
        }
    }

    /// `other` behind the parts here.
    pub(super) fn append(&mut self, other: Spans) {
        if self.spans.is_empty() {
            *self = other;
            return;
        }
        for span in other.spans {
            self.push(&Text { span, escaped: false });
        }
    }

    pub(super) fn into_vec(self) -> Vec<Span> {
        self.spans
    }
}
