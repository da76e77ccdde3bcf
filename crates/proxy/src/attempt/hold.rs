//! Awaiting an answer, and holding its head until it is certain enough to be shown: a stream's first complete
//! event, any other body's first byte. Until then the replica may fail and nobody has seen it.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use sluicegate_core::AttemptFailure;
use sluicegate_wire::{
    AnswerScan, ClientFraming, HeadError, Observer, ResponseFraming, ResponseHead, StreamKind, chunk_head,
    parse_response, write_client_head,
};

use super::{End, Exchange, Interrupt, Outgoing, StoredAnswer, Watch};
use crate::answer::{Answer, Watcher};
use crate::buffers::with_scratch;
use crate::client::Client;
use crate::clock;
use crate::pool::LeaseGuard;
use crate::upstream::Upstream;

/// Bytes of a read before the head is known: most small answers fit, and a large one is not copied for long.
const FIRST_READ: usize = 16 * 1024;
/// Largest response head.
const HEAD_MAX: usize = 64 * 1024;

/// What waiting came to.
pub(super) enum Held {
    /// A kept connection ended before any answer byte.
    Stale,
    End(End),
}

/// What is known of an answer once its head is there.
struct Opened {
    head: Vec<u8>,
    status: u16,
    keep_alive: bool,
    event_stream: bool,
    framing: ResponseFraming,
    answer: Answer,
}

/// Reads until the answer may be shown, or has failed.
pub(super) async fn await_answer(
    client: &mut Client,
    watch: &Watch<'_>,
    out: &Outgoing<'_, '_>,
    mut upstream: Upstream,
    lease: &mut Option<LeaseGuard>,
    sent_whole: bool,
) -> Held {
    client.timer.set(Some(watch.deadline));
    let cut = AttemptFailure::Reset { sent_whole };
    let mut raw = Vec::new();
    let opened = loop {
        match read(client, watch, &mut upstream, &mut raw, FIRST_READ).await {
            Ok(Ok(0)) | Ok(Err(_)) if raw.is_empty() && upstream.reused => return Held::Stale,
            Ok(Ok(0)) | Ok(Err(_)) => return Held::End(End::Failed(cut, None)),
            Ok(Ok(_)) => {}
            Err(interrupt) => return Held::End(interrupt.into()),
        }
        match open(&mut raw, out) {
            Ok(Some(opened)) => break opened,
            Ok(None) if raw.len() <= HEAD_MAX => {}
            Ok(None) | Err(_) => return Held::End(End::Failed(cut, None)),
        }
    };
    let end = if opened.status == 429 || opened.status >= 500 {
        store(client, watch, out, upstream, opened, raw).await
    } else {
        hold(client, watch, out, upstream, lease, opened, raw).await
    };
    Held::End(end)
}

/// Splits `raw` at the end of a final head, if it is whole: what remains in it is body. Interim heads are dropped.
fn open(raw: &mut Vec<u8>, out: &Outgoing<'_, '_>) -> Result<Option<Opened>, HeadError> {
    loop {
        let Some(head) = parse_response(raw, out.head.method == "HEAD")? else { return Ok(None) };
        let (len, status) = (head.len, head.status);
        if status == 101 {
            return Err(HeadError::Bad("switching protocols was not asked for"));
        }
        if status < 200 {
            drop(head);
            raw.drain(..len);
            continue;
        }
        let (framing, keep_alive) = (head.framing, head.keep_alive);
        let event_stream = head.event_stream && status < 300;
        let answer = Answer::new(framing, watcher(&head, event_stream, out));
        drop(head);
        let body = raw.split_off(len);
        let head = std::mem::replace(raw, body);
        return Ok(Some(Opened { head, status, keep_alive, event_stream, framing, answer }));
    }
}

fn watcher(head: &ResponseHead<'_>, event_stream: bool, out: &Outgoing<'_, '_>) -> Watcher {
    if head.content_encoded {
        Watcher::Opaque
    } else if event_stream {
        Watcher::Stream(Observer::new(out.kind, out.resolved.hide_usage))
    } else {
        Watcher::Whole(Box::new(AnswerScan::new()))
    }
}

/// Reads a failure's whole body, so that it can be relayed if no other replica does better.
async fn store(
    client: &mut Client,
    watch: &Watch<'_>,
    out: &Outgoing<'_, '_>,
    mut upstream: Upstream,
    mut opened: Opened,
    mut raw: Vec<u8>,
) -> End {
    let failure = AttemptFailure::Status(opened.status);
    // Nothing of an error is to be observed or taken out.
    opened.answer.watcher = Watcher::Opaque;
    let mut body = Vec::new();
    let mut whole = opened.answer.is_empty();
    while !whole && body.len() <= out.resolved.route.plan.hold_limit {
        if raw.is_empty() {
            match read(client, watch, &mut upstream, &mut raw, FIRST_READ).await {
                Ok(Ok(0)) => {
                    whole = opened.answer.end().is_ok();
                    opened.keep_alive = false;
                    break;
                }
                Ok(Ok(_)) => {}
                Ok(Err(_)) => break,
                Err(Interrupt::ClientGone) => return End::ClientGone,
                Err(Interrupt::Deadline | Interrupt::ReplicaDied) => break,
            }
        }
        let Ok(piece) = opened.answer.absorb(&mut raw) else { break };
        body.extend_from_slice(raw.get(..piece.keep).unwrap_or_default());
        raw.clear();
        whole = piece.done;
        opened.keep_alive &= !piece.surplus;
    }
    if whole && opened.keep_alive {
        upstream.keep(watch.replica.slot, clock::now());
    }
    End::Failed(failure, StoredAnswer::from_answer(opened.head, body, whole))
}

/// What has been read of an answer's body before it is shown.
struct Seen {
    body: Vec<u8>,
    /// The body is complete.
    done: bool,
    /// The connection has ended, or more than the answer came.
    spent: bool,
    first_content: bool,
}

/// Reads until the answer may be shown.
async fn hold(
    client: &mut Client,
    watch: &Watch<'_>,
    out: &Outgoing<'_, '_>,
    mut upstream: Upstream,
    lease: &mut Option<LeaseGuard>,
    mut opened: Opened,
    raw: Vec<u8>,
) -> End {
    let seen = match read_until_shown(client, watch, out, &mut upstream, &mut opened, raw).await {
        Ok(seen) => seen,
        Err(end) => return end,
    };
    if let Some(end) = refused_in_stream(&opened, out, &seen) {
        return end;
    }
    let Some(lease) = lease.take() else { return CUT };
    lease.answered();
    watch.replica.note_byte(clock::now());
    let framing = client_framing(&opened, out);
    let first = first_bytes(&opened, out, framing, &seen);
    End::Answered(Box::new(Exchange {
        upstream,
        lease,
        kind: out.kind,
        framing,
        first,
        first_len: seen.body.len(),
        first_content: seen.first_content,
        done: seen.done,
        reusable: opened.keep_alive && !seen.spent && opened.framing != ResponseFraming::Close,
        status: opened.status,
        event_stream: opened.event_stream,
        answer: opened.answer,
    }))
}

/// The connection ended or broke its framing after the request had been sent whole.
const CUT: End = End::Failed(AttemptFailure::Reset { sent_whole: true }, None);

async fn read_until_shown(
    client: &mut Client,
    watch: &Watch<'_>,
    out: &Outgoing<'_, '_>,
    upstream: &mut Upstream,
    opened: &mut Opened,
    mut raw: Vec<u8>,
) -> Result<Seen, End> {
    let done = opened.answer.is_empty();
    let mut seen = Seen { body: Vec::new(), done, spent: done && !raw.is_empty(), first_content: false };
    while !seen.done && !may_show(opened, out, &seen.body) {
        let piece = if !raw.is_empty() {
            opened.answer.absorb(&mut raw).map_err(|_| CUT)?
        } else {
            match read(client, watch, upstream, &mut raw, FIRST_READ).await {
                Ok(Ok(0)) => {
                    seen.spent = true;
                    opened.answer.end().map_err(|()| CUT)?
                }
                Ok(Ok(_)) => continue,
                Ok(Err(_)) => return Err(CUT),
                Err(interrupt) => return Err(interrupt.into()),
            }
        };
        seen.body.extend_from_slice(&piece.held);
        seen.body.extend_from_slice(raw.get(..piece.keep).unwrap_or_default());
        seen.body.extend_from_slice(&piece.tail);
        raw.clear();
        seen.done = piece.done;
        seen.spent |= piece.surplus;
        seen.first_content |= piece.first_content;
    }
    Ok(seen)
}

/// Enough has come for the client to see it.
fn may_show(opened: &Opened, out: &Outgoing<'_, '_>, held: &[u8]) -> bool {
    match opened.answer.observer() {
        Some(observer) => observer.complete() > 0 || held.len() >= out.resolved.route.plan.hold_limit,
        None => !held.is_empty(),
    }
}

/// A stream that begins with an error, or ends before it began, has not been an answer at all.
fn refused_in_stream(opened: &Opened, out: &Outgoing<'_, '_>, seen: &Seen) -> Option<End> {
    let observer = opened.answer.observer()?;
    if let Some(error) = observer.error().filter(|_| observer.events() <= 1) {
        let answer = StoredAnswer::from_event(error, &seen.body, out.dialect);
        return Some(match error.code {
            429 | 500.. => End::Failed(AttemptFailure::ErrorEvent(error.code), Some(answer)),
            _ => End::Refused(answer),
        });
    }
    if seen.done && out.kind != StreamKind::Other && !observer.ended() {
        return Some(CUT);
    }
    None
}

fn client_framing(opened: &Opened, out: &Outgoing<'_, '_>) -> ClientFraming {
    match opened.framing {
        ResponseFraming::None => ClientFraming::None,
        // An event may be taken out of a stream: its length is not known then.
        ResponseFraming::Length(n) if !(opened.event_stream && out.resolved.hide_usage) => {
            ClientFraming::Length(n)
        }
        _ if out.head.http11 => ClientFraming::Chunked,
        _ => ClientFraming::Close,
    }
}

/// Head and first body bytes as one buffer for one write.
fn first_bytes(opened: &Opened, out: &Outgoing<'_, '_>, framing: ClientFraming, seen: &Seen) -> Vec<u8> {
    let mut first = Vec::with_capacity(opened.head.len() + seen.body.len() + 160);
    let stream_hints = [("cache-control", "no-cache"), ("x-accel-buffering", "no")];
    let mut extra: smallvec::SmallVec<[(&str, &str); 3]> = smallvec::SmallVec::new();
    extra.push(("x-request-id", out.request_id));
    if opened.event_stream {
        extra.extend(stream_hints);
    }
    let keep_alive = out.keep_alive && framing != ClientFraming::Close;
    if let Ok(Some(head)) = parse_response(&opened.head, out.head.method == "HEAD") {
        write_client_head(&mut first, &head, framing, out.head.http11, keep_alive, &extra);
    }
    if framing == ClientFraming::Chunked {
        if !seen.body.is_empty() {
            let mut size = [0; 18];
            let n = chunk_head(seen.body.len(), &mut size);
            first.extend_from_slice(&size[..n]);
            first.extend_from_slice(&seen.body);
            first.extend_from_slice(b"\r\n");
        }
        if seen.done {
            first.extend_from_slice(b"0\r\n\r\n");
        }
    } else {
        first.extend_from_slice(&seen.body);
    }
    first
}

/// One read, appended to `raw`: the inner result is the socket's.
async fn read(
    client: &mut Client,
    watch: &Watch<'_>,
    upstream: &mut Upstream,
    raw: &mut Vec<u8>,
    limit: usize,
) -> Result<io::Result<usize>, Interrupt> {
    poll_fn(|cx| {
        let read = with_scratch(|buf| {
            let limit = limit.min(buf.len());
            let read = upstream.poll_read(cx, &mut buf[..limit]);
            if let Poll::Ready(Ok(n)) = read {
                raw.extend_from_slice(&buf[..n]);
            }
            read
        });
        match read {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => match watch.interrupted(client, cx) {
                Some(interrupt) => Poll::Ready(Err(interrupt)),
                None => Poll::Pending,
            },
        }
    })
    .await
}
