//! HTTP/1.1 heads and framing.
#![allow(missing_docs)]
pub const MAX_HEADERS: usize = 100;
pub const MAX_HEAD: usize = 64 * 1024;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFraming {
    /// No body.
    None,
    Length(u64),
    Chunked,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// No body whatever the fields say (HEAD, 1xx, 204, 304).
    None,
    Length(u64),
    Chunked,
    /// Until the connection closes.
    Close,
}
#[derive(Debug)]
pub struct RequestHead<'b> {
    pub len: usize,                   // bytes of the head, blank line included
    pub method: &'b str,
    pub target: &'b str,
    pub http11: bool,
    pub headers: smallvec::SmallVec<[httparse::Header<'b>; 24]>, // as received, in order
    pub framing: RequestFraming,
    pub keep_alive: bool,
    pub expect_continue: bool,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// 400
    #[error("{0}")]
    Bad(&'static str),
    /// 431
    #[error("request head larger than 64 KiB or more than 100 fields")]
    TooLarge,
    /// 501: a transfer coding other than chunked
    #[error("transfer coding not supported")]
    Coding,
    /// 505
    #[error("HTTP version not supported")]
    Version,
    /// 417: an Expect other than 100-continue
    #[error("expectation not supported")]
    Expectation,
}
/// None: more bytes are needed. Strict: see RFC 9112 and the field cases (doubled or conflicting Content-Length, CL with TE, TE in 1.0,
/// doubled TE, obs-fold, bare CR, space before colon, missing or doubled Host in 1.1, ...). Leading empty lines (CRLF) before a request are skipped, bounded.
pub fn parse_request(_buf: &[u8]) -> Result<Option<RequestHead<'_>>, HeadError> {
    unimplemented!()
}
/// The upstream head up to but without the blank line: `METHOD path HTTP/1.1`, Host = `authority`, end-to-end fields of the client in order, less
/// hop-by-hop (also those named by Connection), credentials (authorization, x-api-key, cookie), forwarding fields (x-forwarded-*, forwarded, x-real-ip, via), accept-encoding,
/// host, content-length, transfer-encoding, expect, content-encoding when `drop_content_encoding`, x-request-id (put in by the caller through `extra`).
pub struct UpstreamHead<'a> {
    pub authority: &'a str,
    pub path: &'a str,               // path prefix of the replica + target
    pub extra: &'a [(&'a str, &'a str)],
    pub content_length: Option<usize>,
}
pub fn write_upstream_head(_out: &mut Vec<u8>, _client: &RequestHead<'_>, _up: &UpstreamHead<'_>) {
    unimplemented!()
}
#[derive(Debug)]
pub struct ResponseHead<'b> {
    pub len: usize,
    pub status: u16,
    pub reason: &'b [u8],
    pub headers: smallvec::SmallVec<[httparse::Header<'b>; 24]>,
    pub framing: ResponseFraming,
    pub keep_alive: bool,
    pub event_stream: bool,          // content-type: text/event-stream
    pub content_encoded: bool,       // a content-encoding other than identity
    pub retry_after: Option<u32>,
}
/// `head_request`: the request was HEAD. Interim answers (1xx) are returned like others; the caller skips them.
pub fn parse_response(_buf: &[u8], _head_request: bool) -> Result<Option<ResponseHead<'_>>, HeadError> {
    unimplemented!()
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFraming {
    Length(u64),
    Chunked,
    Close,
    None,
}
/// The whole head for the client: end-to-end fields of the replica in order and multiplicity, less hop-by-hop; `extra` put in (replacing equal names);
/// framing and `Connection: close` where `keep_alive` is false (`Connection: keep-alive` for a kept HTTP/1.0 client).
pub fn write_client_head(_out: &mut Vec<u8>, _r: &ResponseHead<'_>, _framing: ClientFraming, _http11: bool, _keep_alive: bool, _extra: &[(&str, &str)]) {
    unimplemented!()
}
/// Incremental chunked decoder: any split, bounded extensions and trailers, strict (bare LF refused, size overflow refused).
pub struct ChunkDecoder {}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of `buf` consumed (framing and payload).
    pub consumed: usize,
    /// The payload was moved to `buf[..payload]`.
    pub payload: usize,
    /// The last chunk and the trailer section were read.
    pub done: bool,
}
impl ChunkDecoder {
    pub fn new() -> Self {
        unimplemented!()
    }
    /// Moves the payload bytes to the front of `buf` (one memmove for most reads). `consumed < buf.len()` only when done (the next message follows): bytes from `consumed` on are untouched.
    pub fn decode(&mut self, _buf: &mut [u8]) -> Result<Decoded, HeadError> {
        unimplemented!()
    }
}
/// Writes a chunk head (`{:x}\r\n`) for `len` payload bytes.
pub fn chunk_head(_len: usize, _out: &mut [u8; 18]) -> usize {
    unimplemented!()
}

