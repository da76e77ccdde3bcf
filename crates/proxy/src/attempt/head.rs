//! The head of an answer as its client sees it.

use sluicegate_wire::{ClientFraming, ResponseFraming, ResponseHead, write_client_head};

use super::Sending;
use crate::request_id;
use crate::respond::FALLBACK_FIELD;

pub(super) fn client_framing(
    head: &ResponseHead<'_>,
    event_stream: bool,
    out: &Sending<'_, '_, '_>,
) -> ClientFraming {
    match head.framing {
        ResponseFraming::None => ClientFraming::None,
        // An event may be taken out of a stream, and its end must be told from a cut.
        ResponseFraming::Length(n) if !event_stream => ClientFraming::Length(n),
        _ if out.head.http11 => ClientFraming::Chunked,
        _ => ClientFraming::Close,
    }
}

pub(super) fn client_head(
    head: &ResponseHead<'_>,
    framing: ClientFraming,
    event_stream: bool,
    out: &Sending<'_, '_, '_>,
) -> Vec<u8> {
    let mut extra: smallvec::SmallVec<[(&str, &str); 10]> =
        request_id::fields(out.dialect, out.request_id).collect();
    if let Some(fields) = out.rate_fields {
        extra.extend(fields.iter());
    }
    extra.extend(out.version.target.fallback.as_deref().map(|name| (FALLBACK_FIELD, name)));
    if event_stream {
        extra.extend([("cache-control", "no-cache"), ("x-accel-buffering", "no")]);
    }
    let keep_alive = out.keep_alive && framing != ClientFraming::Close;
    let mut bytes = Vec::with_capacity(1024);
    write_client_head(&mut bytes, head, framing, out.head.http11, keep_alive, &extra);
    bytes
}
