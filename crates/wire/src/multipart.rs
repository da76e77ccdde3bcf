//! Forms (`multipart/form-data`, RFC 7578 on RFC 2046) of the audio and image endpoints: one search for the boundary
//! over the whole body, and a look at each part's head. Parts are not copied, and files not read.
//!
//! The replica splits the same bytes with a parser of its own, and the model it finds must be the one that was routed.
//! So what two parsers could split in two ways is refused: a boundary behind a lone CR or LF, a boundary line that
//! goes on, text ahead of the first one, folded or doubled fields, names with escapes, a `model` that is given twice
//! or coded; and, as in JSON, a session key that is given twice.

use memchr::memmem;
use smallvec::SmallVec;

use crate::peek::{Peek, Span, Value, empty_peek};

mod fields;

use fields::{charset_is_utf8, params};

/// Most bytes of a part's head, its blank line included.
pub const MAX_PART_HEAD: usize = 8 * 1024;
/// Most parts of a form.
pub const MAX_PARTS: usize = 1000;
/// Longest boundary (RFC 2046 section 5.1.1).
pub const MAX_BOUNDARY: usize = 70;

/// Why a form is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The `Content-Type` does not say how the body is split.
    #[error("the Content-Type of the form is not usable: {0}")]
    ContentType(&'static str),
    /// The body is no form, or can be split in two ways.
    #[error("the body is not a form: {what} at byte {at}")]
    Syntax {
        /// What is missing or ambiguous.
        what: &'static str,
        /// Offset in the body.
        at: usize,
    },
    /// Two readers could take two different values.
    #[error("the part `{name}` is given twice")]
    Doubled {
        /// The name.
        name: &'static str,
        /// Offset of the second one's content.
        at: usize,
    },
}

/// Whether this `Content-Type` is `multipart/form-data`.
pub fn is_form(content_type: &[u8]) -> bool {
    media_type(content_type).eq_ignore_ascii_case(b"multipart/form-data")
}

/// Reads a form like a JSON body is read: the parts `model` and `stream`, the length of `prompt`, how many files there
/// are, and of the parts called as in `session_names` those that are text. `content_type` is the request's, whole.
///
/// The model's value is [`Value::Plain`]: the part's content as it stands. `stream` is what form readers take for
/// true (`true`, `1`, `yes`, `on`, `t`, `y` in any case).
pub fn peek_form(content_type: &[u8], body: &[u8], session_names: &[&str]) -> Result<Peek, FormError> {
    let delimiter = delimiter(content_type)?;
    let finder = memmem::Finder::new(&delimiter);
    let mut form = Form::default();
    let mut at = first_delimiter(body, &delimiter)?;
    for _ in 0..MAX_PARTS {
        let rest = body.get(at..).unwrap_or_default();
        if rest.starts_with(b"--") {
            check_epilogue(&finder, body, at + 2)?;
            return Ok(form.into_peek());
        }
        let head = line_end(rest).map(|len| at + len).ok_or(syntax("a boundary line that goes on", at))?;
        let (part, content) = fields::read(body, head)?;
        let end = content_end(&finder, body, content)?;
        form.take_session(body, &part, content..end, session_names)?;
        form.take(body, &part, content..end)?;
        at = end + 2 + delimiter.len();
    }
    Err(syntax("more than 1000 parts", at))
}

/// What was read so far.
#[derive(Default)]
struct Form {
    model: Option<Span>,
    stream: Option<bool>,
    prompt_bytes: u64,
    files: u32,
    /// Indexes of the session names met so far, whatever the values.
    sessions: SmallVec<[usize; 8]>,
    session: Vec<(usize, Span)>,
}

impl Form {
    fn take(&mut self, body: &[u8], part: &fields::Part<'_>, content: Span) -> Result<(), FormError> {
        self.files += u32::from(part.is_file);
        let doubled = |name| FormError::Doubled { name, at: content.start };
        match part.name {
            b"model" | b"stream" if !part.is_plain => {
                Err(syntax("a `model` or `stream` that is coded", content.start))
            }
            b"model" if self.model.is_some() => Err(doubled("model")),
            b"stream" if self.stream.is_some() => Err(doubled("stream")),
            b"model" => {
                self.model = Some(content);
                Ok(())
            }
            b"stream" => {
                self.stream = Some(is_true(body.get(content).unwrap_or_default()));
                Ok(())
            }
            b"prompt" => {
                self.prompt_bytes += content.len() as u64;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A file, or what is coded, is no session's name, as a number in JSON is none.
    fn take_session(
        &mut self,
        body: &[u8],
        part: &fields::Part<'_>,
        content: Span,
        names: &[&str],
    ) -> Result<(), FormError> {
        let Some(index) = names.iter().position(|wanted| wanted.as_bytes() == part.name) else {
            return Ok(());
        };
        if self.sessions.contains(&index) {
            return Err(syntax("a session key that is given twice", content.start));
        }
        self.sessions.push(index);
        let value = body.get(content.clone()).unwrap_or_default();
        if part.is_plain && !part.is_file && !value.trim_ascii().is_empty() {
            self.session.push((index, content));
        }
        Ok(())
    }

    fn into_peek(self) -> Peek {
        Peek {
            model: self.model.map(|span| Value::Plain { span }),
            stream: self.stream.unwrap_or(false),
            text_bytes: self.prompt_bytes,
            media_parts: self.files,
            session: self.session,
            form: true,
            ..empty_peek()
        }
    }
}

/// Two hyphens and the boundary.
fn delimiter(content_type: &[u8]) -> Result<Vec<u8>, FormError> {
    let mut boundary = None;
    for param in params(content_type.get(media_type(content_type).len()..).unwrap_or_default()) {
        let param = param.map_err(FormError::ContentType)?;
        if param.is_extended("boundary") || param.is_extended("charset") {
            return Err(FormError::ContentType(
                "a parameter in pieces or coded (RFC 2231): write boundary=... plainly",
            ));
        }
        if param.is("boundary") && boundary.replace(param.value).is_some() {
            return Err(FormError::ContentType("the boundary is given twice"));
        }
        if param.is("charset") && !charset_is_utf8(param.value) {
            return Err(FormError::ContentType("only UTF-8 is supported"));
        }
    }
    let boundary = boundary.ok_or(FormError::ContentType("the boundary is missing"))?;
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    if boundary.is_empty()
        || boundary.len() > MAX_BOUNDARY
        || !boundary.iter().all(allowed)
        || boundary.ends_with(b" ")
    {
        return Err(FormError::ContentType("the boundary breaks RFC 2046"));
    }
    Ok([b"--", boundary].concat())
}

fn media_type(content_type: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
    content_type.get(..end).unwrap_or_default().trim_ascii_end()
}

/// Behind the first delimiter, which may have empty lines ahead of it.
fn first_delimiter(body: &[u8], delimiter: &[u8]) -> Result<usize, FormError> {
    let mut at = 0;
    while body.get(at..).is_some_and(|rest| rest.starts_with(b"\r\n")) {
        at += 2;
    }
    if body.get(at..).is_some_and(|rest| rest.starts_with(delimiter)) {
        Ok(at + delimiter.len())
    } else {
        Err(syntax("no boundary", at))
    }
}

/// The length of the blanks and the line end at the start of `rest`.
fn line_end(rest: &[u8]) -> Option<usize> {
    let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    rest.get(blanks..)?.starts_with(b"\r\n").then_some(blanks + 2)
}

/// Where the content that begins at `start` ends: ahead of the line end that belongs to the next delimiter.
fn content_end(finder: &memmem::Finder<'_>, body: &[u8], start: usize) -> Result<usize, FormError> {
    match next_line_with(finder, body, start) {
        Some(at) if at >= start + 2 && body.get(at - 2..at) == Some(b"\r\n") => Ok(at - 2),
        Some(at) => Err(syntax("a boundary that is not on a line of its own", at)),
        None => Err(syntax("the closing boundary is missing", body.len())),
    }
}

/// The next delimiter that begins a line in some reader's eyes. In the middle of a line it is content.
fn next_line_with(finder: &memmem::Finder<'_>, body: &[u8], start: usize) -> Option<usize> {
    let mut from = start;
    while let Some(found) = body.get(from..).and_then(|rest| finder.find(rest)) {
        let at = from + found;
        if at == start || matches!(body.get(at - 1), Some(b'\r' | b'\n')) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

fn check_epilogue(finder: &memmem::Finder<'_>, body: &[u8], start: usize) -> Result<(), FormError> {
    if !matches!(body.get(start), None | Some(b' ' | b'\t' | b'\r' | b'\n')) {
        return Err(syntax("a boundary line that goes on", start));
    }
    match next_line_with(finder, body, start) {
        None => Ok(()),
        Some(at) => Err(syntax("a boundary behind the closing one", at)),
    }
}

fn is_true(value: &[u8]) -> bool {
    [&b"true"[..], b"1", b"yes", b"on", b"t", b"y"].iter().any(|word| value.eq_ignore_ascii_case(word))
}

fn syntax(what: &'static str, at: usize) -> FormError {
    FormError::Syntax { what, at }
}

#[cfg(test)]
mod tests;
