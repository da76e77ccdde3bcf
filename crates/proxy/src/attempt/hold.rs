//! Awaiting an answer, and holding its head until it is certain enough to be shown: a stream's first complete
//! event, any other body's first byte. Until then the replica may fail and nobody has seen it.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use sluicegate_core::{AttemptFailure, Time};
use sluicegate_wire::{
    AnswerScan, ClientFraming, HeadError, Observer, ResponseFraming, ResponseHead, StreamKind, chunk_head,
    parse_response,
};

use super::head::{client_framing, client_head};
use super::{End, Exchange, Interrupt, Sending, StoredAnswer, interrupted};
use crate::answer::{Answer, Watcher};
use crate::buffers::with_scratch;
use crate::client::Client;
use crate::clock;
use crate::coding::{Codings, DecodedCopy, Reader};
use crate::pool::LeaseGuard;
use crate::upstream::Upstream;

/// Bytes of a read before an answer is shown: most small answers fit, and a large one is not copied for long.
const FIRST_READ: usize = 16 * 1024;
/// Largest response head.
const HEAD_MAX: usize = 64 * 1024;
/// Interim answers before the one that counts.
const INTERIM_MAX: usize = 32;
/// A kept connection that was closed from the other side says so within a round trip; where processor time is short, that
/// was seen to take more than half a second. Later, the request has been worked on, and its failure is one.
const STALE_WITHIN: Duration = Duration::from_secs(2);
/// How long a failure's body may take before the request goes on without it.
const STORE_LIMIT: Duration = Duration::from_secs(2);

/// The connection ended, or broke its framing, after the request had been sent whole.
const CUT: End = End::Failed(AttemptFailure::Reset { sent_whole: true }, None);

/// What waiting came to.
pub(super) enum Held {
    /// A kept connection ended before any answer byte.
    Stale {
        sent_whole: bool,
    },
    End(End),
}

/// What is known of an answer once its head is there.
struct Opened {
    status: u16,
    keep_alive: bool,
    event_stream: bool,
    framing: ResponseFraming,
    answer: Answer,
    /// The replica's head of an error that may have to be relayed later, else the client's.
    head: Vec<u8>,
    client_framing: ClientFraming,
}

/// Reads until the answer may be shown, or has failed.
pub(super) async fn await_answer(
    client: &mut Client,
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
    mut upstream: Upstream,
    sent_whole: bool,
) -> Held {
    let asked = clock::now();
    client.timer.set(Some(out.deadline));
    let cut = AttemptFailure::Reset { sent_whole };
    let mut raw = Vec::new();
    let mut interim = 0;
    let mut opened = loop {
        match read(client, lease, out.deadline, &mut upstream, &mut raw).await {
            Ok(Ok(0) | Err(_)) if raw.is_empty() && upstream.reused && interim == 0 && soon(asked) => {
                return Held::Stale { sent_whole };
            }
            Ok(Ok(0) | Err(_)) => return Held::End(End::Failed(cut, None)),
            Ok(Ok(_)) => {}
            Err(Interrupt::Deadline) => {
                // The limit counts from the request's head: a replica that got it late has not been silent for long.
                let waited = clock::now().since(asked) >= out.resolved.route.plan.timeouts.total / 2;
                return Held::End(End::TimedOut { silent: sent_whole && raw.is_empty() && waited });
            }
            Err(interrupt) => return Held::End(interrupt.ends(sent_whole)),
        }
        match open(&mut raw, out, &mut interim) {
            Ok(Some(opened)) => break opened,
            Ok(None) if raw.len() <= HEAD_MAX && interim <= INTERIM_MAX => {}
            Ok(None) | Err(_) => return Held::End(End::Failed(cut, None)),
        }
    };
    // What was not sent is missing on that connection.
    opened.keep_alive &= sent_whole;
    Held::End(if is_failure(opened.status) {
        store(client, lease, out, upstream, opened, raw).await
    } else {
        hold(client, lease, out, upstream, opened, raw).await
    })
}

/// Whether a connection that has just been written to ends as one does that was closed before: then what was sent
/// has not been worked on.
fn soon(asked: Time) -> bool {
    clock::now().since(asked) <= STALE_WITHIN
}

/// Statuses that another replica might not have given.
fn is_failure(status: u16) -> bool {
    status == 429 || status >= 500
}

/// Takes a final head off `raw`, if it is whole: what remains is body. Interim heads are dropped.
fn open(
    raw: &mut Vec<u8>,
    out: &Sending<'_, '_, '_>,
    interim: &mut usize,
) -> Result<Option<Opened>, HeadError> {
    loop {
        let Some(mut head) = parse_response(raw, false)? else { return Ok(None) };
        let (len, status) = (head.len, head.status);
        if status == 101 {
            return Err(HeadError::Bad("switching protocols was not asked for"));
        }
        if status < 200 {
            drop(head);
            raw.drain(..len);
            *interim += 1;
            continue;
        }
        if out.version.target.pool.plan().hosted {
            head.withhold_account();
        }
        let event_stream = head.event_stream && status < 300;
        let client_framing = client_framing(&head, event_stream, out);
        let opened = Opened {
            status,
            keep_alive: head.keep_alive,
            event_stream,
            framing: head.framing,
            answer: Answer::new(head.framing, watcher(&head, event_stream, out)),
            head: if is_failure(status) {
                raw.get(..len).unwrap_or_default().to_vec()
            } else {
                client_head(&head, client_framing, event_stream, out)
            },
            client_framing,
        };
        drop(head);
        raw.drain(..len);
        return Ok(Some(opened));
    }
}

fn watcher(head: &ResponseHead<'_>, event_stream: bool, out: &Sending<'_, '_, '_>) -> Watcher {
    // Nothing of a failure is to be observed, or taken out.
    if is_failure(head.status) {
        Watcher::Opaque
    } else if head.content_encoded {
        coded_watcher(head, event_stream, out)
    } else if event_stream {
        Watcher::Stream(Observer::new(out.endpoint.stream_kind(), out.version.hide_usage))
    } else {
        Watcher::Whole(Box::new(AnswerScan::of(out.endpoint.stream_kind())))
    }
}

/// The usage event that the gateway asked for stays in a coded stream.
fn coded_watcher(head: &ResponseHead<'_>, event_stream: bool, out: &Sending<'_, '_, '_>) -> Watcher {
    let reader = if event_stream {
        Reader::Stream(Observer::new(out.endpoint.stream_kind(), false))
    } else {
        Reader::Whole(Box::new(AnswerScan::of(out.endpoint.stream_kind())))
    };
    let coding = Codings::of(&head.headers).ok().and_then(|codings| codings.only());
    let copy = coding.and_then(|coding| DecodedCopy::new(coding, reader));
    copy.map_or(Watcher::Opaque, |copy| Watcher::Coded(Box::new(copy)))
}

/// Reads a failure's whole body, so that it can be relayed if no other replica does better.
async fn store(
    client: &mut Client,
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
    mut upstream: Upstream,
    mut opened: Opened,
    mut raw: Vec<u8>,
) -> End {
    let deadline = out.deadline.min(clock::now() + STORE_LIMIT);
    client.timer.set(Some(deadline));
    let mut body = Vec::new();
    let mut whole = opened.answer.is_empty();
    let mut spent = whole && !raw.is_empty();
    while !whole && body.len() <= out.resolved.route.plan.hold_limit {
        let piece = if raw.is_empty() {
            match read(client, lease, deadline, &mut upstream, &mut raw).await {
                Ok(Ok(0)) => opened.answer.end().ok(),
                Ok(Ok(_)) => continue,
                Err(interrupt @ (Interrupt::ClientGone | Interrupt::GatewayStopped)) => {
                    return interrupt.ends(true);
                }
                Ok(Err(_)) | Err(Interrupt::Deadline | Interrupt::ReplicaDied) => None,
            }
        } else {
            opened.answer.absorb(&mut raw).ok()
        };
        let Some(piece) = piece else { break };
        body.extend_from_slice(raw.get(..piece.keep).unwrap_or_default());
        raw.clear();
        whole = piece.done;
        spent |= piece.surplus;
    }
    if whole && opened.keep_alive && !spent && opened.framing != ResponseFraming::Close {
        upstream.keep(lease.replica(), clock::now());
    }
    let hosted = out.version.target.pool.plan().hosted;
    let answer = StoredAnswer::from_answer(opened.head, body, whole, hosted);
    End::Failed(AttemptFailure::Status(opened.status), answer)
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
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
    mut upstream: Upstream,
    mut opened: Opened,
    raw: Vec<u8>,
) -> End {
    let seen = match read_until_shown(client, lease, out, &mut upstream, &mut opened, raw).await {
        Ok(seen) => seen,
        Err(end) => return end,
    };
    if let Some(end) = refused_in_stream(&opened, out, &seen) {
        return end;
    }
    let mut first = opened.head;
    append_framed(&mut first, opened.client_framing, &seen);
    End::Answered(Box::new(Exchange {
        upstream: Some(upstream),
        endpoint: out.endpoint,
        framing: opened.client_framing,
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

async fn read_until_shown(
    client: &mut Client,
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
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
            match read(client, lease, out.deadline, upstream, &mut raw).await {
                Ok(Ok(0)) => {
                    seen.spent = true;
                    opened.answer.end().map_err(|()| CUT)?
                }
                Ok(Ok(_)) => continue,
                Ok(Err(error)) => {
                    seen.spent = true;
                    opened.answer.broke(&error).map_err(|()| CUT)?
                }
                Err(interrupt) => return Err(interrupt.ends(true)),
            }
        };
        raw.truncate(piece.keep);
        if seen.body.is_empty() && piece.held.is_empty() {
            seen.body = std::mem::take(&mut raw);
        } else {
            seen.body.extend_from_slice(&piece.held);
            seen.body.append(&mut raw);
        }
        seen.body.extend_from_slice(&piece.tail);
        seen.done = piece.done;
        seen.spent |= piece.surplus;
        seen.first_content |= piece.first_content;
    }
    Ok(seen)
}

/// Enough has come for the client to see it.
fn may_show(opened: &Opened, out: &Sending<'_, '_, '_>, seen: &[u8]) -> bool {
    match opened.answer.observer() {
        Some(observer) => observer.complete() > 0 || seen.len() >= out.resolved.route.plan.hold_limit,
        None => !seen.is_empty(),
    }
}

/// A stream that begins with an error, or ends before it began, has not been an answer at all.
fn refused_in_stream(opened: &Opened, out: &Sending<'_, '_, '_>, seen: &Seen) -> Option<End> {
    let observer = opened.answer.observer()?;
    if let Some(error) = observer.error().filter(|_| observer.content_events() == 0) {
        let answer = StoredAnswer::from_event(error, opened.answer.opening(&seen.body), out.dialect);
        return Some(if is_failure(error.code) {
            End::Failed(AttemptFailure::ErrorEvent(error.code), Some(answer))
        } else {
            End::Refused(answer)
        });
    }
    (seen.done && out.endpoint.stream_kind() != StreamKind::Other && !observer.ended()).then_some(CUT)
}

/// Appends the body bytes so far to the client's head: one buffer for one write.
fn append_framed(first: &mut Vec<u8>, framing: ClientFraming, seen: &Seen) {
    if framing != ClientFraming::Chunked {
        first.extend_from_slice(&seen.body);
        return;
    }
    if !seen.body.is_empty() {
        let mut size = [0; 18];
        let n = chunk_head(seen.body.len(), &mut size);
        first.extend_from_slice(size.get(..n).unwrap_or_default());
        first.extend_from_slice(&seen.body);
        first.extend_from_slice(b"\r\n");
    }
    if seen.done {
        first.extend_from_slice(b"0\r\n\r\n");
    }
}

/// One read, appended to `raw`: the inner result is the socket's.
async fn read(
    client: &mut Client,
    lease: &LeaseGuard,
    deadline: Time,
    upstream: &mut Upstream,
    raw: &mut Vec<u8>,
) -> Result<io::Result<usize>, Interrupt> {
    poll_fn(|cx| {
        let read = with_scratch(|buf| {
            let read = upstream.poll_read(cx, &mut buf[..FIRST_READ]);
            if let Poll::Ready(Ok(n)) = read {
                raw.extend_from_slice(&buf[..n]);
            }
            read
        });
        match read {
            Poll::Ready(result) => Poll::Ready(Ok(result)),
            Poll::Pending => match interrupted(client, lease, deadline, cx) {
                Some(interrupt) => Poll::Ready(Err(interrupt)),
                None => Poll::Pending,
            },
        }
    })
    .await
}
