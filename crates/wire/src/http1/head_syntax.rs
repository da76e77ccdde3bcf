//! What `httparse` lets pass and this crate does not.

use super::{HeadError, MAX_HEAD};

/// The part of a buffer a head may take up.
pub(super) fn window(buf: &[u8]) -> &[u8] {
    buf.get(..MAX_HEAD).unwrap_or(buf)
}

/// What an incomplete head means: more bytes, or never.
pub(super) fn incomplete<T>(window: &[u8]) -> Result<Option<T>, HeadError> {
    if window.len() >= MAX_HEAD { Err(HeadError::TooLarge) } else { Ok(None) }
}

/// A line of a head ends with CR LF. A recipient may take a lone LF (RFC 9112 section 2.2), but then it and its
/// neighbours can differ on where a head ends.
pub(super) fn check_line_ends(head: &[u8]) -> Result<(), HeadError> {
    let mut ends = memchr::memchr_iter(b'\n', head);
    if ends.all(|at| at.checked_sub(1).and_then(|before| head.get(before)) == Some(&b'\r')) {
        Ok(())
    } else {
        Err(HeadError::Bad("a line of the head ends without CR"))
    }
}

/// `httparse`'s verdict as ours. `version` is the text that stands where the version is expected.
pub(super) fn refusal(error: httparse::Error, version: &[u8]) -> HeadError {
    match error {
        httparse::Error::HeaderName => HeadError::Bad("malformed field name"),
        httparse::Error::HeaderValue => HeadError::Bad("malformed field value"),
        httparse::Error::NewLine => HeadError::Bad("malformed line end"),
        httparse::Error::Status => HeadError::Bad("malformed status line"),
        httparse::Error::Token => HeadError::Bad("malformed request line"),
        httparse::Error::TooManyHeaders => HeadError::TooLarge,
        httparse::Error::Version if is_other_version(version) => HeadError::Version,
        httparse::Error::Version => HeadError::Bad("malformed HTTP version"),
    }
}

/// `HTTP/` DIGIT `.` DIGIT as far as it has come.
fn is_other_version(text: &[u8]) -> bool {
    let expected = *b"HTTP/0.0";
    text.iter().zip(expected).all(|(byte, pattern)| match pattern {
        b'0' => byte.is_ascii_digit(),
        literal => *byte == literal,
    })
}
