//! HTTP/1.1 heads and framing (RFC 9112), strict: what two implementations could read in two ways is refused.
//!
//! `httparse` finds the pieces; the rules that decide where a message ends are here. One pass over a head, and one
//! allocation, for the list of its fields.

mod chunked;
mod client_head;
mod fields;
mod framing;
mod head_syntax;
mod request;
mod response;
mod target;
mod upstream_head;

pub use chunked::{ChunkDecoder, Decoded, MAX_CHUNK_EXTENSION, MAX_EXTENSIONS, MAX_TRAILERS, chunk_head};
pub use client_head::{ClientFraming, write_client_head};
pub use request::{MAX_LEADING_EMPTY_LINES, RequestFraming, RequestHead, parse_request};
pub use response::{ResponseFraming, ResponseHead, parse_response};
pub use upstream_head::{UpstreamHead, write_upstream_head};

/// Most fields a head may have.
pub const MAX_HEADERS: usize = 100;
/// Most bytes a head may have, its blank line included.
pub const MAX_HEAD: usize = 64 * 1024;
/// Most options the `Connection` fields of one head may list together.
pub const MAX_CONNECTION_OPTIONS: usize = 64;

/// The fields of a head as received, in order. On the heap, since a head is handed on several times.
pub type Headers<'b> = Vec<httparse::Header<'b>>;

/// Why a head or a chunked body cannot be read. From a client each variant is one status; from a replica each one
/// means that the connection is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// 400: malformed or ambiguous; the text names the rule.
    #[error("{0}")]
    Bad(&'static str),
    /// 431: over [`MAX_HEAD`] or [`MAX_HEADERS`].
    #[error("head larger than 64 KiB or more than 100 fields")]
    TooLarge,
    /// 501: a transfer coding other than `chunked` alone.
    #[error("transfer coding not supported")]
    Coding,
    /// 505: neither HTTP/1.1 nor HTTP/1.0 (the HTTP/2 preface ends here too).
    #[error("HTTP version not supported")]
    Version,
    /// 417: an `Expect` other than `100-continue`.
    #[error("expectation not supported")]
    Expectation,
}

#[cfg(test)]
mod tests;
