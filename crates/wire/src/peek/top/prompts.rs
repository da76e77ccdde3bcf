//! Prompts that are no conversation: texts, token ids and lists of them, and the pairs that two lists make.

use super::{Top, is_named};
use crate::peek::PeekError;
use crate::peek::cursor::{Place, Text};
use crate::peek::turns::{MEDIA, is_given, said};

/// One of the two lists that pairs are made of.
#[derive(Clone, Copy, Default)]
pub(super) struct Side {
    bytes: u64,
    texts: u64,
}

/// Bytes that pairs read more than once: each text of the shorter list stands in several pairs.
pub(super) fn repeated([one, other]: [Side; 2]) -> u64 {
    let again = |side: Side, beside: Side| match side.texts {
        0 => 0,
        texts => side.bytes.saturating_mul(beside.texts.div_ceil(texts).saturating_sub(1)),
    };
    again(one, other).saturating_add(again(other, one))
}

impl Top<'_, '_> {
    /// One of two lists of which pairs are made.
    pub(super) fn side(&mut self, which: usize) -> Result<(), PeekError> {
        let all = |top: &Self| top.peek.text_bytes + top.peek.other_bytes + top.turns.other_bytes;
        let (bytes, texts) = (all(self), self.peek.prompts);
        self.texts()?;
        if let Some(side) = self.sides.get_mut(which) {
            side.texts += self.peek.prompts - texts;
        }
        let bytes = all(self) - bytes;
        if let Some(side) = self.sides.get_mut(which) {
            side.bytes += bytes;
        }
        Ok(())
    }

    /// A string, or an array of strings, of token ids, of arrays of token ids or of objects with a `text`.
    pub(super) fn texts(&mut self) -> Result<(), PeekError> {
        if !self.cursor.take(b'[') {
            return self.one_text();
        }
        let mut place = Place::First;
        while self.cursor.element(&mut place)? {
            self.one_text()?;
        }
        Ok(())
    }

    fn one_text(&mut self) -> Result<(), PeekError> {
        let next = self.cursor.next();
        if next == Some(b'{') {
            self.cursor.at += 1;
            self.peek.prompts += 1;
            let mut place = Place::First;
            while let Some(name) = self.cursor.member(&mut place)? {
                self.prompt_member(&name)?;
            }
            return Ok(());
        }
        let span = self.cursor.skip()?;
        match next {
            Some(b'"') => {
                self.peek.prompts += 1;
                self.peek.text_bytes += span.len() as u64 - 2;
            }
            Some(b'0'..=b'9') => self.peek.token_ids += 1,
            Some(b'[') => {
                let inside = self.cursor.body.get(span).unwrap_or_default();
                let commas = memchr::memchr_iter(b',', inside).count() as u64;
                let some = inside.iter().any(u8::is_ascii_digit);
                self.peek.prompts += 1;
                self.peek.token_ids += commas + u64::from(some);
                // Texts among the ids, as llama.cpp takes them.
                let texts = memchr::memchr(b'"', inside).map_or(0, |_| inside.len());
                self.peek.other_bytes += texts as u64;
            }
            _ => {}
        }
        Ok(())
    }

    /// A member of a prompt that is an object.
    fn prompt_member(&mut self, name: &Text) -> Result<(), PeekError> {
        let body = self.cursor.body;
        let is = |wanted| is_named(body, name, wanted);
        if is("content") {
            return self.turns.content_beside(&mut self.cursor);
        }
        if MEDIA.iter().any(|media| str::from_utf8(media).is_ok_and(is)) {
            let given = is_given(&mut self.cursor)?;
            self.peek.media_parts = self.peek.media_parts.saturating_add(u32::from(given));
            return Ok(());
        }
        let bytes = said(&mut self.cursor)?;
        if is("text") && body.get(self.cursor.at - 1) == Some(&b'"') {
            self.peek.text_bytes += bytes;
        } else {
            self.peek.other_bytes += bytes;
        }
        Ok(())
    }
}
