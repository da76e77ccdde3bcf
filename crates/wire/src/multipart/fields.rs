//! The head of one part, and the parameters of a field's value.

use memchr::memmem;

use super::{FormError, MAX_PART_HEAD, syntax};

/// What a part's head says.
pub(super) struct Part<'b> {
    pub(super) name: &'b [u8],
    /// It has a file name.
    pub(super) is_file: bool,
    /// Its content stands for itself: no transfer encoding, no character set but UTF-8.
    pub(super) is_plain: bool,
}

/// Reads the head that begins at `start`; also returns where the content begins.
pub(super) fn read(body: &[u8], start: usize) -> Result<(Part<'_>, usize), FormError> {
    let rest = body.get(start..).unwrap_or_default();
    let window = rest.get(..MAX_PART_HEAD).unwrap_or(rest);
    let Some(len) = memmem::find(window, b"\r\n\r\n") else {
        return Err(syntax("a part's head without an end (8 KiB at the most)", start));
    };
    let head = window.get(..len).unwrap_or_default();
    let (mut disposition, mut is_plain) = (None, true);
    let mut at = start;
    for line in Lines(Some(head)) {
        let (name, value) = field(line).ok_or(syntax("a malformed field of a part", at))?;
        if name.eq_ignore_ascii_case(b"content-disposition") {
            if disposition.replace((value, at)).is_some() {
                return Err(syntax("a second Content-Disposition", at));
            }
        } else if name.eq_ignore_ascii_case(b"content-transfer-encoding") {
            is_plain &=
                [&b"7bit"[..], b"8bit", b"binary"].iter().any(|known| value.eq_ignore_ascii_case(known));
        } else if name.eq_ignore_ascii_case(b"content-type") {
            is_plain &=
                params(value.get(memchr::memchr(b';', value).unwrap_or(value.len())..).unwrap_or_default())
                    .all(|param| {
                        param.is_ok_and(|param| {
                            !param.is_extended("charset")
                                && (!param.is("charset") || charset_is_utf8(param.value))
                        })
                    });
        }
        at += line.len() + 2;
    }
    let (value, at) = disposition.ok_or(syntax("a part without Content-Disposition", start))?;
    let (name, is_file) = name_of(value).map_err(|what| syntax(what, at))?;
    Ok((Part { name, is_file, is_plain }, start + len + 4))
}

/// `name` of a `Content-Disposition: form-data` value, and whether there is a file name.
fn name_of(value: &[u8]) -> Result<(&[u8], bool), &'static str> {
    let kind = value.get(..memchr::memchr(b';', value).unwrap_or(value.len())).unwrap_or_default();
    if !kind.trim_ascii_end().eq_ignore_ascii_case(b"form-data") {
        return Err("a Content-Disposition other than form-data");
    }
    let (mut name, mut is_file) = (None, false);
    for param in params(value.get(kind.len()..).unwrap_or_default()) {
        let param = param?;
        if param.is("name") {
            if param.value.contains(&b'\\') {
                return Err("a name with escapes");
            }
            if name.replace(param.value).is_some() {
                return Err("a part with two names");
            }
        } else if param.is_extended("name") {
            return Err("a name with escapes");
        } else if holds_a_name(param.value) {
            return Err("a parameter that may be read as a name");
        }
        is_file |= param.is("filename") || param.is_extended("filename");
    }
    Ok((name.ok_or("a part without a name")?, is_file))
}

/// A semicolon and `name`: a reader that knows no quotes, or no escaped ones, would take it for the part's name.
fn holds_a_name(value: &[u8]) -> bool {
    value.split(|byte| *byte == b';').skip(1).any(|rest| starts_with(rest.trim_ascii_start(), b"name"))
}

fn starts_with(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

pub(super) fn charset_is_utf8(value: &[u8]) -> bool {
    [&b"utf-8"[..], b"utf8", b"us-ascii", b"ascii"].iter().any(|known| value.eq_ignore_ascii_case(known))
}

/// Name and value of a field line. A line end of any other kind than CR LF would still be in it.
fn field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    if line.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return None;
    }
    let colon = memchr::memchr(b':', line)?;
    let (name, value) = (line.get(..colon)?, line.get(colon + 1..)?);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (!name.is_empty() && name.iter().all(token)).then(|| (name, value.trim_ascii()))
}

/// The lines of a head that CR LF separates.
struct Lines<'b>(Option<&'b [u8]>);

impl<'b> Iterator for Lines<'b> {
    type Item = &'b [u8];

    fn next(&mut self) -> Option<&'b [u8]> {
        let rest = self.0?;
        let end = memmem::find(rest, b"\r\n");
        self.0 = end.and_then(|end| rest.get(end + 2..));
        rest.get(..end.unwrap_or(rest.len()))
    }
}

/// `; name=value` of a field.
pub(super) struct Param<'b> {
    pub(super) name: &'b [u8],
    /// Without its quotes; escapes as they stand.
    pub(super) value: &'b [u8],
}

impl Param<'_> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Of this name, but in numbered pieces or coded (RFC 2231): some readers know that, others do not.
    pub(super) fn is_extended(&self, name: &str) -> bool {
        starts_with(self.name, name.as_bytes()) && self.name.get(name.len()) == Some(&b'*')
    }
}

/// The parameters in `text`, which begins with the first semicolon.
pub(super) fn params(text: &[u8]) -> Params<'_> {
    Params(text)
}

pub(super) struct Params<'b>(&'b [u8]);

impl<'b> Iterator for Params<'b> {
    type Item = Result<Param<'b>, &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.0.trim_ascii();
        loop {
            match rest {
                [] => return None,
                [b';', after @ ..] => rest = after.trim_ascii_start(),
                _ => break,
            }
        }
        let read = param(rest);
        self.0 = read.as_ref().map_or(&[], |(_, after)| after);
        Some(read.map(|(param, _)| param))
    }
}

fn param(text: &[u8]) -> Result<(Param<'_>, &[u8]), &'static str> {
    let bad = "a malformed parameter";
    let equals = memchr::memchr2(b'=', b';', text).filter(|at| text.get(*at) == Some(&b'=')).ok_or(bad)?;
    let (name, rest) = (text.get(..equals).ok_or(bad)?, text.get(equals + 1..).ok_or(bad)?);
    // No blanks around the equals sign: some readers would take them for part of the value.
    if name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'"') {
        return Err(bad);
    }
    let (value, after) = match rest {
        [b'"', inside @ ..] => {
            let end = quote_end(inside).ok_or("a quote without its end")?;
            (inside.get(..end).ok_or(bad)?, inside.get(end + 1..).ok_or(bad)?)
        }
        _ => {
            let (value, after) = rest.split_at(memchr::memchr(b';', rest).unwrap_or(rest.len()));
            let value = value.trim_ascii_end();
            if value.is_empty() || value.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'"') {
                return Err(bad);
            }
            (value, after)
        }
    };
    match after.trim_ascii_start() {
        [] | [b';', ..] => Ok((Param { name, value }, after)),
        _ => Err(bad),
    }
}

/// Where the quote ends; a backslash escapes what follows it.
fn quote_end(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(at) == Some(&b'"') {
            return Some(at);
        }
        at += 2;
    }
}
