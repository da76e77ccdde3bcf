//! A replica's error answer, kept whole until it is known whether another replica does better.

use httparse::Header;
use sluicegate_wire::{
    AnswerScan, ClientFraming, Dialect, ResponseFraming, StreamError, error_body, parse_response,
    write_client_head,
};

use crate::buffers::Body;
use crate::coding::{self, Codings};

/// Most bytes that a coded error is decoded to.
const DECODED_MAX: usize = 256 * 1024;

use crate::request::Manner;
use crate::request_id;

/// An error answer: small enough to be held, relayed byte for byte if it comes to that.
#[derive(Debug)]
pub(crate) struct StoredAnswer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<u32>,
    /// The replica's head as received; empty for an answer made from an error event.
    head: Vec<u8>,
    /// As received, with its codings.
    body: Vec<u8>,
    relayable: bool,
    /// A provider's: what it says of the gateway's own account is withheld.
    hosted: bool,
    pub(crate) error_type: Option<Box<str>>,
}

impl StoredAnswer {
    /// From a whole answer. `head` is the replica's head as received, `whole` false where the body did not fit.
    pub(super) fn from_answer(head: Vec<u8>, body: Vec<u8>, whole: bool, hosted: bool) -> Option<Self> {
        let parsed = parse_response(&head, false).ok()??;
        let (status, retry_after) = (parsed.status, parsed.retry_after);
        let decoded = parsed.content_encoded.then(|| decoded(&parsed.headers, &body));
        let json = whole
            && parsed.headers.iter().any(|h| {
                h.name.eq_ignore_ascii_case("content-type")
                    && h.value.to_ascii_lowercase().windows(4).any(|w| w == b"json")
            });
        drop(parsed);
        let mut scan = AnswerScan::new();
        let text = decoded.as_deref().unwrap_or(&body);
        scan.feed(text);
        let error_type = scan.error_type().map(Into::into);
        let relayable = json && text.trim_ascii_start().starts_with(b"{");
        Some(Self { status, retry_after, relayable, hosted, error_type, head, body })
    }

    /// From an error event that came first in a stream: a real answer with its code. `held` is the event as sent.
    pub(super) fn from_event(error: &StreamError, held: &[u8], dialect: Dialect) -> Self {
        let body = data_line(held).unwrap_or_else(|| {
            error_body(dialect, error.code, "upstream_error", None, "the replica refused the stream")
        });
        Self {
            status: error.code,
            retry_after: None,
            head: Vec::new(),
            body,
            relayable: true,
            hosted: false,
            error_type: Some(error.kind.as_str().into()),
        }
    }

    /// It can be shown to a client as it is: JSON, and not empty.
    pub(crate) fn is_relayable(&self) -> bool {
        self.relayable
    }

    /// Body bytes.
    pub(crate) fn body_len(&self) -> usize {
        self.body.len()
    }

    /// The whole answer for the client.
    pub(crate) fn to_bytes(
        &self,
        manner: &Manner,
        request_id: &str,
        fields: &[(&'static str, &str)],
    ) -> Vec<u8> {
        let mut extra: smallvec::SmallVec<[(&str, &str); 8]> = fields.iter().copied().collect();
        extra.extend(request_id::fields(manner.dialect, request_id));
        let framing = ClientFraming::Length(self.body.len() as u64);
        let made = format!(
            "HTTP/1.1 {} Error\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n",
            self.status
        );
        let head = if self.head.is_empty() { made.as_bytes() } else { &self.head };
        let mut bytes = Vec::with_capacity(head.len() + self.body.len() + 64);
        if let Ok(Some(mut parsed)) = parse_response(head, false) {
            if self.hosted {
                parsed.withhold_account();
            }
            parsed.framing = ResponseFraming::Length(self.body.len() as u64);
            write_client_head(&mut bytes, &parsed, framing, manner.http11, manner.keep_alive, &extra);
        }
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

/// A coded error as text; nothing where it cannot be decoded.
fn decoded(headers: &[Header<'_>], body: &[u8]) -> Body {
    let codings = Codings::of(headers).unwrap_or_default();
    if codings.is_empty() {
        return Body::default();
    }
    coding::decode_now(&codings, body, DECODED_MAX).unwrap_or_default()
}

/// The JSON of the `data:` line that holds the error.
fn data_line(events: &[u8]) -> Option<Vec<u8>> {
    events.split(|&b| b == b'\n' || b == b'\r').find_map(|line| {
        let data = line.strip_prefix(b"data:")?.trim_ascii();
        let error = data.starts_with(b"{") && memchr::memmem::find(data, b"\"error\"").is_some();
        error.then(|| data.to_vec())
    })
}
