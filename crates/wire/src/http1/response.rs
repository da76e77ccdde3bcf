//! Response heads.

use std::mem::MaybeUninit;

use super::fields::{Field, classify, is_of_the_account, list};
use super::framing::{FramingFields, Stated};
use super::head_syntax::{check_line_ends, incomplete, refusal, window};
use super::{HeadError, Headers, MAX_HEADERS};

/// Where a response ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// No body, whatever the fields say: an answer to HEAD, 1xx, 204, 304.
    None,
    /// So many bytes.
    Length(u64),
    /// Until the last chunk and the trailer section.
    Chunked,
    /// Until the connection closes.
    Close,
}

/// One response head, borrowed from the buffer it was read from.
#[derive(Debug)]
pub struct ResponseHead<'b> {
    /// Bytes of the head, its blank line included.
    pub len: usize,
    /// 100 to 599.
    pub status: u16,
    /// The reason phrase; empty where there was none or it was not ASCII.
    pub reason: &'b [u8],
    /// The fields as received, in order, values without the white space around them.
    pub headers: Headers<'b>,
    /// Where the body ends.
    pub framing: ResponseFraming,
    /// The connection may be used again after this answer.
    pub keep_alive: bool,
    /// `Content-Type: text/event-stream`.
    pub event_stream: bool,
    /// A `Content-Encoding` other than `identity`.
    pub content_encoded: bool,
    /// `Retry-After` in seconds; `None` where it is absent, a date, or over 32 bits.
    pub retry_after: Option<u32>,
}

impl<'b> ResponseHead<'b> {
    /// The value of the first field called `name`, in any case.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value)
    }

    /// Takes out what a provider says of the account that asked it, and of its own servers: none of it is about the
    /// client, whose account, cookies and connection are the gateway's.
    pub fn withhold_account(&mut self) {
        self.headers.retain(|header| !is_of_the_account(header.name));
    }
}

/// Reads one response head. `None`: more bytes are needed. `head_request`: the request was HEAD. Interim answers
/// (1xx) are returned like others and the caller skips them; 101 is refused, for the gateway never asks for it.
///
/// Any error means that the connection is unusable, like a reset: two `Content-Length` fields, one beside a
/// `Transfer-Encoding`, a coding other than `chunked` ([`HeadError::Coding`]), a lone LF, a folded line, bytes
/// before the status line.
pub fn parse_response(buf: &[u8], head_request: bool) -> Result<Option<ResponseHead<'_>>, HeadError> {
    if let [b'\r' | b'\n', ..] = buf {
        return Err(HeadError::Bad("empty line before the status line"));
    }
    let window = window(buf);
    let mut slots = [const { MaybeUninit::uninit() }; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        window,
        &mut slots,
    );
    let len = match parsed {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) => return incomplete(window),
        Err(error) => return Err(refusal(error, window)),
    };
    check_line_ends(window.get(..len).unwrap_or(window))?;
    let (Some(status), Some(version)) = (response.code, response.version) else {
        return Err(HeadError::Bad("malformed status line"));
    };
    if !(100..=599).contains(&status) || status == 101 {
        return Err(HeadError::Bad("status out of place"));
    }
    let mut head = ResponseHead {
        len,
        status,
        reason: response.reason.unwrap_or_default().as_bytes(),
        headers: response.headers.to_vec(),
        framing: ResponseFraming::None,
        keep_alive: false,
        event_stream: false,
        content_encoded: false,
        retry_after: None,
    };
    read_fields(&mut head, version == 1, head_request)?;
    Ok(Some(head))
}

fn read_fields(head: &mut ResponseHead<'_>, http11: bool, head_request: bool) -> Result<(), HeadError> {
    let mut fields = FramingFields::default();
    for header in &head.headers {
        match classify(header.name) {
            Field::ContentType => head.event_stream = is_event_stream(header.value),
            Field::ContentEncoding => {
                head.content_encoded |=
                    list(header.value).any(|coding| !coding.eq_ignore_ascii_case(b"identity"));
            }
            Field::RetryAfter => head.retry_after = seconds(header.value),
            field => fields.note(field, header.value)?,
        }
    }
    let stated = fields.stated(http11)?;
    let bodiless = head_request || head.status < 200 || matches!(head.status, 204 | 304);
    head.framing = match stated {
        _ if bodiless => ResponseFraming::None,
        Stated::Nothing => ResponseFraming::Close,
        Stated::Length(length) => ResponseFraming::Length(length),
        Stated::Chunked => ResponseFraming::Chunked,
    };
    // 1xx and 204 that promise a body all the same (RFC 9112 section 6.1 forbids it): it may follow and would be
    // taken for the next answer.
    let unruly =
        (head.status < 200 || head.status == 204) && !matches!(stated, Stated::Nothing | Stated::Length(0));
    head.keep_alive = fields.keep_alive(http11) && head.framing != ResponseFraming::Close && !unruly;
    Ok(())
}

fn is_event_stream(value: &[u8]) -> bool {
    let kind = value.split(|byte| *byte == b';').next().unwrap_or_default();
    kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

fn seconds(value: &[u8]) -> Option<u32> {
    let all_digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    all_digits.then(|| std::str::from_utf8(value).ok()?.parse().ok()).flatten()
}
