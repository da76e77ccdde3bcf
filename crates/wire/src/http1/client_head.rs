//! The head a client gets.

use super::fields::{Field, Named, classify, write_content_length, write_field};
use super::response::ResponseHead;

/// How the answer to the client is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientFraming {
    /// So many bytes.
    Length(u64),
    /// Chunks; to an HTTP/1.0 client the same as [`ClientFraming::Close`].
    Chunked,
    /// Until the connection closes.
    Close,
    /// No body and no framing fields (1xx, 204, 304).
    None,
}

/// Writes the whole head: status line, the replica's end-to-end fields in order and multiplicity, `extra` (each
/// taking the place of the replica's fields of that name), framing, and the fate of the connection.
///
/// The status line says HTTP/1.1 also to an HTTP/1.0 client (RFC 9110 section 2.5); such a client never gets
/// chunks, and gets `Connection: keep-alive` where the connection is kept. `http11` is the client's version. A body
/// that ends with the connection always closes it.
pub fn write_client_head(
    out: &mut Vec<u8>,
    r: &ResponseHead<'_>,
    framing: ClientFraming,
    http11: bool,
    keep_alive: bool,
    extra: &[(&str, &str)],
) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(itoa::Buffer::new().format(r.status).as_bytes());
    out.push(b' ');
    out.extend_from_slice(r.reason);
    out.extend_from_slice(b"\r\n");
    let named = Named::collect(&r.headers);
    for header in &r.headers {
        let passes = !matches!(
            classify(header.name),
            Field::HopByHop | Field::Connection | Field::ContentLength | Field::TransferEncoding
        );
        let replaced = extra.iter().any(|(name, _)| name.eq_ignore_ascii_case(header.name));
        if passes && !replaced && !named.contains(header.name) {
            write_field(out, header.name, header.value);
        }
    }
    for (name, value) in extra {
        write_field(out, name, value.as_bytes());
    }
    write_connection(out, framing, http11, keep_alive);
    out.extend_from_slice(b"\r\n");
}

fn write_connection(out: &mut Vec<u8>, framing: ClientFraming, http11: bool, keep_alive: bool) {
    let until_close = match framing {
        ClientFraming::Length(length) => {
            write_content_length(out, length);
            false
        }
        ClientFraming::Chunked if http11 => {
            write_field(out, "transfer-encoding", b"chunked");
            false
        }
        ClientFraming::Chunked | ClientFraming::Close => true,
        ClientFraming::None => false,
    };
    if until_close || !keep_alive {
        write_field(out, "connection", b"close");
    } else if !http11 {
        write_field(out, "connection", b"keep-alive");
    }
}
