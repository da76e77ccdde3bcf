//! Request heads.

use std::mem::MaybeUninit;

use super::fields::{Field, classify};
use super::framing::{FramingFields, Stated};
use super::head_syntax::{check_line_ends, incomplete, refusal, window};
use super::target::{check_host, origin_form};
use super::{HeadError, Headers, MAX_HEADERS};

/// Most empty lines (CR LF) skipped in front of a request. RFC 9112 section 2.2 asks for at least one.
pub const MAX_LEADING_EMPTY_LINES: usize = 4;

/// Where a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFraming {
    /// No body.
    None,
    /// So many bytes.
    Length(u64),
    /// Until the last chunk and the trailer section.
    Chunked,
}

/// One request head, borrowed from the buffer it was read from.
#[derive(Debug)]
pub struct RequestHead<'b> {
    /// Bytes of the head, with the empty lines skipped before it and its own blank line.
    pub len: usize,
    /// The method: a token, case as received.
    pub method: &'b str,
    /// The target in origin form (`/path?query`), ASCII; of an absolute form only this part.
    pub target: &'b str,
    /// HTTP/1.1 rather than HTTP/1.0.
    pub http11: bool,
    /// The fields as received, in order, values without the white space around them.
    pub headers: Headers<'b>,
    /// Where the body ends.
    pub framing: RequestFraming,
    /// The client is willing to send another request on this connection.
    pub keep_alive: bool,
    /// The client waits for an interim `100 Continue` before it sends the body. False where there is no body, and
    /// in HTTP/1.0 (RFC 9110 section 10.1.1).
    pub expect_continue: bool,
}

impl<'b> RequestHead<'b> {
    /// The value of the first field called `name`, in any case.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }
}

/// Reads one request head. `None`: more bytes are needed. An error stays one however many bytes follow, and the
/// connection must be closed after it: where the next request would begin is unknown.
///
/// Refused, each because two implementations may read it in two ways (RFC 9112 sections 2.2, 3, 5 and 6): a lone
/// LF, NUL or control bytes, folded lines, blanks before a colon, empty names, doubled or non-decimal
/// `Content-Length`, `Transfer-Encoding` beside it, doubled, in HTTP/1.0 or other than `chunked`, a missing
/// (HTTP/1.1), doubled or malformed `Host`, targets other than a path or an absolute `http(s)` URI.
pub fn parse_request(buf: &[u8]) -> Result<Option<RequestHead<'_>>, HeadError> {
    let Some((skipped, rest)) = skip_empty_lines(buf)? else { return Ok(None) };
    let window = window(rest);
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut []);
    let len = match request.parse_with_uninit_headers(window, &mut slots) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return incomplete(window),
        Err(error) => return Err(refusal(error, version_text(window))),
    };
    check_line_ends(window.get(..len).unwrap_or(window))?;
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(HeadError::Bad("malformed request line"));
    };
    let http11 = version == 1;
    let target = origin_form(method, target)?;
    let meaning = Meaning::of(request.headers, http11)?;
    Ok(Some(RequestHead {
        len: skipped + len,
        method,
        target,
        http11,
        headers: request.headers.to_vec(),
        framing: meaning.framing,
        keep_alive: meaning.keep_alive,
        expect_continue: meaning.expect_continue,
    }))
}

struct Meaning {
    framing: RequestFraming,
    keep_alive: bool,
    expect_continue: bool,
}

impl Meaning {
    fn of(headers: &[httparse::Header<'_>], http11: bool) -> Result<Self, HeadError> {
        let mut fields = FramingFields::default();
        let mut hosts = 0;
        let mut expect_continue = false;
        for header in headers {
            match classify(header.name) {
                Field::Host => {
                    hosts += 1;
                    check_host(header.value)?;
                }
                Field::Expect if http11 => {
                    if !header.value.eq_ignore_ascii_case(b"100-continue") {
                        return Err(HeadError::Expectation);
                    }
                    expect_continue = true;
                }
                field => fields.note(field, header.value)?,
            }
        }
        if hosts > 1 {
            return Err(HeadError::Bad("more than one Host"));
        }
        if http11 && hosts == 0 {
            return Err(HeadError::Bad("no Host"));
        }
        let framing = match fields.stated(http11)? {
            Stated::Nothing => RequestFraming::None,
            Stated::Length(length) => RequestFraming::Length(length),
            Stated::Chunked => RequestFraming::Chunked,
        };
        let has_body = !matches!(framing, RequestFraming::None | RequestFraming::Length(0));
        Ok(Self {
            framing,
            keep_alive: fields.keep_alive(http11),
            expect_continue: expect_continue && has_body,
        })
    }
}

/// The bytes after the empty lines, and how many those took. `None`: all there is may still be an empty line.
fn skip_empty_lines(buf: &[u8]) -> Result<Option<(usize, &[u8])>, HeadError> {
    let mut rest = buf;
    for _ in 0..=MAX_LEADING_EMPTY_LINES {
        match rest {
            [b'\r', b'\n', after @ ..] => rest = after,
            [] | [b'\r'] => return Ok(None),
            [b'\r' | b'\n', ..] => return Err(HeadError::Bad("malformed line end before the request")),
            _ => return Ok(Some((buf.len() - rest.len(), rest))),
        }
    }
    Err(HeadError::Bad("too many empty lines before the request"))
}

/// The text after the second blank of the request line.
fn version_text(head: &[u8]) -> &[u8] {
    let mut parts = head.splitn(3, |byte| *byte == b' ');
    parts.nth(2).unwrap_or_default()
}
