//! The head a replica gets.

use super::fields::{Field, Named, classify, write_content_length, write_field};
use super::request::RequestHead;

/// What the gateway puts into the head for a replica.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamHead<'a> {
    /// The value of `Host`.
    pub authority: &'a str,
    /// The replica's path prefix and the target.
    pub path: &'a str,
    /// Further fields; each takes the place of the client's fields of that name.
    pub extra: &'a [(&'a str, &'a str)],
    /// Bytes of the body, for which `Content-Length` is the only framing used. `None`: no body.
    pub content_length: Option<usize>,
}

/// Writes the head up to but without the blank line: request line, `Host`, the client's end-to-end fields in order
/// and multiplicity, `extra`, `Content-Length`.
///
/// Left out of the client's: hop-by-hop fields and those its `Connection` names, credentials and accounts
/// (`Authorization`, `X-Api-Key`, `Api-Key`, `X-Goog-Api-Key`, `Cookie`, `OpenAI-Organization`, `OpenAI-Project`, all of
/// `Anthropic-*` but version and beta, and the like), forwarding fields (`X-Forwarded-*`, `Forwarded`, `X-Real-Ip`,
/// `Via` and the like), `Accept-Encoding` (usage must stay readable), `Expect` (answered by the gateway),
/// `Content-Encoding` (bodies are sent decoded), and framing, which is stated anew.
pub fn write_upstream_head(out: &mut Vec<u8>, client: &RequestHead<'_>, up: &UpstreamHead<'_>) {
    out.extend_from_slice(client.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(up.path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    write_field(out, "host", up.authority.as_bytes());
    let named = Named::collect(&client.headers);
    for header in &client.headers {
        let passes = matches!(classify(header.name), Field::ContentType | Field::RetryAfter | Field::Other);
        let replaced = up.extra.iter().any(|(name, _)| name.eq_ignore_ascii_case(header.name));
        if passes && !replaced && !named.contains(header.name) {
            write_field(out, header.name, header.value);
        }
    }
    for (name, value) in up.extra {
        write_field(out, name, value.as_bytes());
    }
    if let Some(length) = up.content_length {
        write_content_length(out, length as u64);
    }
}
