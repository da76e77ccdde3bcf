//! Reading a request's body whole, up to `max_body`.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use sluicegate_core::Time;
use sluicegate_wire::{ChunkDecoder, RequestFraming, RequestHead};

use crate::attempt::NoAnswer;
use crate::buffers::{Body, NoMemory, Share, with_scratch};
use crate::client::{Client, ClientEnd};
use crate::clock;
use crate::plan::ListenPlan;
use crate::refusal::Refusal;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Refuses a body whose head says already that it is too large.
pub(crate) fn check_length(plan: &ListenPlan, head: &RequestHead<'_>) -> Result<(), Refusal> {
    match head.framing {
        RequestFraming::Length(n) if n > plan.max_body as u64 => Err(Refusal::TooLarge(plan.max_body)),
        _ => Ok(()),
    }
}

/// The whole body came with the head, so that nothing has to be waited for.
pub(crate) fn is_here(client: &Client, head: &RequestHead<'_>) -> bool {
    match head.framing {
        RequestFraming::None => true,
        RequestFraming::Length(n) => client.inbox.len() as u64 >= n,
        RequestFraming::Chunked => false,
    }
}

/// Reads the body that `head` announces, until `end` at the latest. Its length has been [checked](check_length). `share`:
/// whose memory it takes.
pub(crate) async fn read(
    plan: &ListenPlan,
    client: &mut Client,
    head: &RequestHead<'_>,
    share: Option<&Arc<Share>>,
    end: Time,
) -> Result<Body, NoAnswer> {
    let length = match head.framing {
        RequestFraming::None => return Ok(Body::default()),
        RequestFraming::Length(n) => Some(n),
        RequestFraming::Chunked => None,
    };
    if head.expect_continue && client.inbox.is_empty() && length != Some(0) {
        client.write_all(CONTINUE, plan.write_idle_timeout).await.map_err(ended)?;
    }
    match length {
        // Bounded by `max_body`, so the conversion cannot fail.
        Some(n) => {
            let length = usize::try_from(n).unwrap_or(plan.max_body);
            read_length(plan, client, share, length, end).await
        }
        None => read_chunked(plan, client, Body::default().of(share), end).await,
    }
}

async fn read_length(
    plan: &ListenPlan,
    client: &mut Client,
    share: Option<&Arc<Share>>,
    length: usize,
    end: Time,
) -> Result<Body, NoAnswer> {
    if client.inbox.len() == length {
        return Ok(Body::whole(std::mem::take(&mut client.inbox)).of(share));
    }
    let mut body = Body::with_room(length).of(share);
    let early = client.inbox.len().min(length);
    body.extend(client.inbox.get(..early).unwrap_or_default())?;
    client.consume(early);
    client.fill(&mut body, length, plan.body_idle_timeout, end).await.map_err(ended)?;
    Ok(body)
}

async fn read_chunked(
    plan: &ListenPlan,
    client: &mut Client,
    mut body: Body,
    end: Time,
) -> Result<Body, NoAnswer> {
    let mut chunks = ChunkDecoder::new();
    let mut early = std::mem::take(&mut client.inbox);
    if take_chunks(&mut chunks, &mut early, &mut body, client, plan.max_body)? {
        return Ok(body);
    }
    drop(early);
    loop {
        let deadline = (clock::now() + plan.body_idle_timeout).min(end);
        client.timer.set(Some(deadline));
        let done = poll_fn(|cx| {
            with_scratch(|buf| match client.poll_read(cx, buf) {
                Poll::Ready(Ok(n)) if n > 0 => {
                    Poll::Ready(take_chunks(&mut chunks, &mut buf[..n], &mut body, client, plan.max_body))
                }
                Poll::Ready(_) => Poll::Ready(Err(NoAnswer::ClientGone { queued: false })),
                Poll::Pending if client.is_stopping() => Poll::Ready(Err(Refusal::GatewayStopped.into())),
                Poll::Pending if clock::now() >= deadline => Poll::Ready(Err(Refusal::BodyTimeout.into())),
                Poll::Pending => Poll::Pending,
            })
        })
        .await?;
        if done {
            return Ok(body);
        }
    }
}

/// Decodes one read. True: the body is complete, and what follows it is in the client's inbox.
fn take_chunks(
    chunks: &mut ChunkDecoder,
    buf: &mut [u8],
    body: &mut Body,
    client: &mut Client,
    max: usize,
) -> Result<bool, NoAnswer> {
    let decoded = chunks.decode(buf).map_err(Refusal::BadChunk)?;
    if body.len() + decoded.payload > max {
        return Err(Refusal::TooLarge(max).into());
    }
    body.extend(buf.get(..decoded.payload).unwrap_or_default())?;
    if decoded.done {
        client.inbox.extend_from_slice(buf.get(decoded.consumed..).unwrap_or_default());
    }
    Ok(decoded.done)
}

fn ended(end: ClientEnd) -> NoAnswer {
    match end {
        ClientEnd::Gone => NoAnswer::ClientGone { queued: false },
        ClientEnd::Timeout => Refusal::BodyTimeout.into(),
        ClientEnd::NoMemory => Refusal::NoMemory.into(),
        ClientEnd::Stopped => Refusal::GatewayStopped.into(),
    }
}

impl From<NoMemory> for NoAnswer {
    fn from(_: NoMemory) -> Self {
        Refusal::NoMemory.into()
    }
}
