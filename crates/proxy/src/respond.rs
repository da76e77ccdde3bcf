//! Answers that are sent whole: the gateway's own, its refusals, and a replica's stored error.

use std::borrow::Cow;
use std::time::Duration;

use sluicegate_wire::error_body;

use crate::attempt::StoredAnswer;
use crate::client::Client;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::request::Manner;
use crate::request_id;
use crate::usage::Outcome;

/// Tells the client that its route's fallback target answers, and which it is.
pub(crate) const FALLBACK_FIELD: &str = "x-sluicegate-fallback";

/// Sends a JSON body with status 200. True: it went out whole.
pub(crate) async fn json(
    client: &mut Client,
    manner: &Manner,
    body: &[u8],
    record: &mut Record,
    write_idle: Duration,
) -> bool {
    record.ended(Outcome::Ok, None);
    let head = head(manner, 200, body.len(), &record.request_id, &[]);
    send(client, manner, head, body, 200, record, write_idle).await
}

/// Sends a refusal in the client's dialect.
pub(crate) async fn refuse(
    client: &mut Client,
    manner: &Manner,
    refusal: &Refusal,
    record: &mut Record,
    write_idle: Duration,
) -> bool {
    record.ended(refusal.outcome(), Some(Cow::Borrowed(refusal.code())));
    record.unanswered(record.worked);
    let status = refusal.status();
    let body = error_body(manner.dialect, status, refusal.code(), refusal.param(), &refusal.message());
    let rate_fields = record.rate_fields.clone();
    let retry_after = refusal.retry_after().map(|s| s.to_string());
    let mut extra: smallvec::SmallVec<[(&str, &str); 8]> = smallvec::SmallVec::new();
    extra.extend(retry_after.as_deref().map(|s| ("retry-after", s)));
    extra.extend(refusal.allow().map(|s| ("allow", s)));
    extra.extend(refusal.authenticate().map(|s| ("www-authenticate", s)));
    extra.extend(rate_fields.iter().flat_map(|fields| fields.iter()));
    extra.extend(refusal.accept_encoding().map(|s| ("accept-encoding", s)));
    let head = head(manner, status, body.len(), &record.request_id, &extra);
    send(client, manner, head, &body, status, record, write_idle).await
}

/// Sends a replica's own error, byte for byte.
pub(crate) async fn stored(
    client: &mut Client,
    manner: &Manner,
    answer: &StoredAnswer,
    record: &mut Record,
    write_idle: Duration,
) -> bool {
    let outcome = if answer.status < 500 && answer.status != 429 {
        Outcome::ClientError
    } else {
        Outcome::UpstreamError
    };
    let kind =
        answer.error_type.as_deref().map_or(Cow::Borrowed("upstream_error"), |t| Cow::Owned(t.to_owned()));
    record.ended(outcome, Some(kind));
    record.status = Some(answer.status);
    record.bytes_out = answer.body_len() as u64;
    // Nothing was generated, so nothing was used; and the key must be free before its client can ask again.
    record.tokens(None, None, true);
    let bytes = {
        let rate_fields = record.rate_fields.iter().flat_map(|fields| fields.iter());
        let fallback = record.fallback().map(|name| (FALLBACK_FIELD, name));
        let fields: smallvec::SmallVec<[(&'static str, &str); 8]> = rate_fields.chain(fallback).collect();
        answer.to_bytes(manner, &record.request_id, &fields)
    };
    let sent = client.write_all(&bytes, write_idle).await.is_ok();
    if !sent {
        record.ended(Outcome::ClientGone, Some(Cow::Borrowed("client_gone")));
    }
    sent
}

async fn send(
    client: &mut Client,
    manner: &Manner,
    mut bytes: Vec<u8>,
    body: &[u8],
    status: u16,
    record: &mut Record,
    write_idle: Duration,
) -> bool {
    record.status = Some(status);
    if !manner.head_only {
        bytes.extend_from_slice(body);
        record.bytes_out = body.len() as u64;
    }
    let sent = client.write_all(&bytes, write_idle).await.is_ok();
    if !sent {
        record.ended(Outcome::ClientGone, Some(Cow::Borrowed("client_gone")));
    }
    sent
}

fn head(manner: &Manner, status: u16, len: usize, request_id: &str, extra: &[(&str, &str)]) -> Vec<u8> {
    let reason =
        http::StatusCode::from_u16(status).ok().and_then(|s| s.canonical_reason()).unwrap_or("Error");
    let mut head =
        format!("HTTP/1.1 {status} {reason}\r\ncontent-type: application/json\r\ncontent-length: {len}\r\n");
    let ids: smallvec::SmallVec<[(&str, &str); 2]> = request_id::fields(manner.dialect, request_id).collect();
    for (name, value) in ids.iter().chain(extra) {
        head.push_str(name);
        head.push_str(": ");
        head.push_str(value);
        head.push_str("\r\n");
    }
    if !manner.keep_alive {
        head.push_str("connection: close\r\n");
    } else if !manner.http11 {
        head.push_str("connection: keep-alive\r\n");
    }
    head.push_str("\r\n");
    head.into_bytes()
}
