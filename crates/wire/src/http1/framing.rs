//! Where a message ends: `Content-Length`, `Transfer-Encoding` and `Connection` (RFC 9112 sections 6 and 9.3).

use super::fields::{Field, list};
use super::{HeadError, MAX_CONNECTION_OPTIONS};

/// How the fields of a head frame the body, before the rules of its kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stated {
    Nothing,
    Length(u64),
    Chunked,
}

/// The framing fields met so far in one head.
#[derive(Default)]
pub(super) struct FramingFields<'b> {
    length: Option<&'b [u8]>,
    coding: Option<&'b [u8]>,
    options: usize,
    close: bool,
    keep_alive: bool,
}

impl<'b> FramingFields<'b> {
    /// Takes note of one field. A second `Content-Length` or `Transfer-Encoding` is refused even where it says the
    /// same: whoever sends two may reach something that reads only one.
    pub(super) fn note(&mut self, field: Field, value: &'b [u8]) -> Result<(), HeadError> {
        match field {
            Field::ContentLength => once(&mut self.length, value, "more than one Content-Length"),
            Field::TransferEncoding => once(&mut self.coding, value, "more than one Transfer-Encoding"),
            Field::Connection => self.note_options(value),
            _ => Ok(()),
        }
    }

    fn note_options(&mut self, value: &[u8]) -> Result<(), HeadError> {
        for option in list(value) {
            self.options += 1;
            if self.options > MAX_CONNECTION_OPTIONS {
                return Err(HeadError::Bad("too many Connection options"));
            }
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
        Ok(())
    }

    /// What the fields state together. A coding beside a length, or a coding in HTTP/1.0, is how requests are
    /// smuggled (RFC 9112 section 6.1): refused.
    pub(super) fn stated(&self, http11: bool) -> Result<Stated, HeadError> {
        match (self.length, self.coding) {
            (None, None) => Ok(Stated::Nothing),
            (Some(length), None) => Ok(Stated::Length(content_length(length)?)),
            (Some(_), Some(_)) => Err(HeadError::Bad("both Content-Length and Transfer-Encoding")),
            (None, Some(_)) if !http11 => Err(HeadError::Bad("Transfer-Encoding in HTTP/1.0")),
            (None, Some(coding)) => transfer_coding(coding).map(|()| Stated::Chunked),
        }
    }

    /// Whether the connection may carry another message after this one (RFC 9112 section 9.3).
    pub(super) fn keep_alive(&self, http11: bool) -> bool {
        !self.close && (http11 || self.keep_alive)
    }
}

fn once<'b>(slot: &mut Option<&'b [u8]>, value: &'b [u8], twice: &'static str) -> Result<(), HeadError> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(HeadError::Bad(twice)),
    }
}

/// `1*DIGIT` within 64 bits: no sign, no list, no blank, no other base.
fn content_length(value: &[u8]) -> Result<u64, HeadError> {
    const BAD: HeadError = HeadError::Bad("Content-Length is not a number");
    if value.is_empty() {
        return Err(BAD);
    }
    value.iter().try_fold(0_u64, |length, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0')).ok_or(BAD)?;
        length.checked_mul(10).and_then(|tens| tens.checked_add(digit)).ok_or(BAD)
    })
}

/// Only `chunked`, once and alone. Well-formed lists of other codings are 501; anything else is malformed.
fn transfer_coding(value: &[u8]) -> Result<(), HeadError> {
    if value.eq_ignore_ascii_case(b"chunked") {
        return Ok(());
    }
    let mut chunked = 0;
    for element in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
        if element.is_empty() || !element.iter().all(|byte| is_token_byte(*byte)) {
            return Err(HeadError::Bad("malformed Transfer-Encoding"));
        }
        chunked += usize::from(element.eq_ignore_ascii_case(b"chunked"));
    }
    if chunked > 1 {
        return Err(HeadError::Bad("chunked is given twice in Transfer-Encoding"));
    }
    Err(HeadError::Coding)
}

/// `tchar` of RFC 9110 section 5.6.2.
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
