//! A position in a JSON body that is moved over one token at a time.

use super::{PeekError, Span};
use crate::bits::{InContainer, InString};
use crate::scalar::scalar_len;

/// A string in the body, quotes included.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) span: Span,
    pub(super) escaped: bool,
}

impl Text {
    /// Bytes between the quotes, as written.
    pub(super) fn raw_len(&self) -> usize {
        self.span.len().saturating_sub(2)
    }
}

pub(super) struct Cursor<'b> {
    pub(super) body: &'b [u8],
    pub(super) at: usize,
}

/// Where in a container the cursor is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    First,
    Later,
}

impl<'b> Cursor<'b> {
    pub(super) fn fail<T>(&self, what: &'static str) -> Result<T, PeekError> {
        Err(PeekError::Syntax { what, at: self.at })
    }

    /// The next byte that is not white space; it is not taken.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        loop {
            match self.body.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    /// Takes `byte` when it is the next one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let there = self.next() == Some(byte);
        self.at += usize::from(there);
        there
    }

    /// The name of the object's next member, the cursor on its value; `None` past the closing brace.
    #[inline]
    pub(super) fn member(&mut self, place: &mut Place) -> Result<Option<Text>, PeekError> {
        if self.take(b'}') {
            return Ok(None);
        }
        self.separate(place)?;
        let name = self.string()?;
        if !self.take(b':') {
            return self.fail("expected a colon");
        }
        self.next();
        Ok(Some(name))
    }

    /// Whether the array has another element, the cursor on it; false past the closing bracket.
    #[inline]
    pub(super) fn element(&mut self, place: &mut Place) -> Result<bool, PeekError> {
        if self.take(b']') {
            return Ok(false);
        }
        self.separate(place)?;
        self.next();
        Ok(true)
    }

    #[inline]
    fn separate(&mut self, place: &mut Place) -> Result<(), PeekError> {
        if *place == Place::Later && !self.take(b',') {
            return self.fail("expected a comma or the end of the object or array");
        }
        *place = Place::Later;
        Ok(())
    }

    #[inline]
    pub(super) fn string(&mut self) -> Result<Text, PeekError> {
        if self.next() != Some(b'"') {
            return self.fail("expected a string");
        }
        let start = self.at;
        let mut reader = InString::default();
        match reader.close(self.body.get(start + 1..).unwrap_or_default()) {
            Some(len) => {
                self.at = start + 1 + len;
                Ok(Text { span: start..self.at, escaped: reader.escaped })
            }
            None => self.fail("a string without an end"),
        }
    }

    /// The string here, or `None` past a value of another type.
    pub(super) fn string_or_skip(&mut self) -> Result<Option<Text>, PeekError> {
        if self.next() == Some(b'"') {
            return self.string().map(Some);
        }
        self.skip()?;
        Ok(None)
    }

    /// Moves past one value of any type.
    pub(super) fn skip(&mut self) -> Result<Span, PeekError> {
        let next = self.next();
        let start = self.at;
        match next {
            Some(b'"') => return self.string().map(|text| text.span),
            Some(b'{' | b'[') => {
                let rest = self.body.get(start + 1..).unwrap_or_default();
                match InContainer::new().close(rest) {
                    Some(len) => self.at = start + 1 + len,
                    None => return self.fail("an object or array without an end"),
                }
            }
            _ => {
                let rest = self.body.get(start..).unwrap_or_default();
                let len = scalar_len(rest);
                if len == 0 {
                    return self.fail("expected a value");
                }
                self.at += len;
            }
        }
        Ok(start..self.at)
    }
}
