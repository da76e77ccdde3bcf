//! Connecting to a replica and sending the request to it.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::task::Poll;

use sluicegate_core::{AttemptFailure, Time};
use sluicegate_wire::{UpstreamHead, write_upstream_head};

use super::{End, Interrupt, Sending, interrupted};
use crate::batch::others_first;
use crate::client::Client;
use crate::clock;
use crate::credentials::Chosen;
use crate::pool::LeaseGuard;
use crate::record::Record;
use crate::upstream::{Upstream, look_up};

/// Opens a connection within the route's connect limit.
pub(super) async fn connect(
    client: &mut Client,
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
    record: &mut Record,
) -> Result<Upstream, End> {
    let start = clock::now();
    let limit = start + out.resolved.route.plan.timeouts.connect;
    let replica = lease.replica();
    let mut addresses = replica.addresses();
    if addresses.is_empty() {
        let found = within(client, lease, out, limit, look_up(&replica.url)).await?;
        found.map_err(|failure| End::Failed(failure, None)).map(|found| replica.set_addresses(found))?;
        addresses = replica.addresses();
    }
    let mut failure = AttemptFailure::ConnectFailed;
    for (i, address) in addresses.iter().enumerate() {
        // One that is silent leaves the others their part of the time.
        let now = clock::now();
        let left = u32::try_from(addresses.len() - i).unwrap_or(u32::MAX);
        let until = now + limit.since(now) / left;
        match within(client, lease, out, until, Upstream::connect(&replica.url, *address)).await? {
            Ok(upstream) => {
                replica.found_at(*address);
                record.connect = Some(clock::now().since(start));
                return Ok(upstream);
            }
            // Refused it is where every address refuses: any other may yet be where it lives.
            Err(refused) => {
                failure = if i == 0 || failure == refused { refused } else { AttemptFailure::ConnectFailed }
            }
        }
    }
    Err(End::Failed(failure, None))
}

/// Runs one step of a connect until `until`. The inner error: the step failed, or took too long.
async fn within<T>(
    client: &mut Client,
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
    until: Time,
    step: impl Future<Output = io::Result<T>>,
) -> Result<Result<T, AttemptFailure>, End> {
    client.timer.set(Some(until.min(out.deadline)));
    let mut step = pin!(step);
    poll_fn(|cx| {
        if let Poll::Ready(result) = step.as_mut().poll(cx) {
            return Poll::Ready(Ok(result.map_err(|e| connect_failure(&e))));
        }
        match interrupted(client, lease, out.deadline, cx) {
            Some(interrupt) => Poll::Ready(Err(interrupt.ends(false))),
            None if clock::now() >= until => Poll::Ready(Ok(Err(AttemptFailure::ConnectFailed))),
            None => Poll::Pending,
        }
    })
    .await
}

/// Sends head and body. False: not all was sent, because the connection broke or an answer came first.
pub(super) async fn send(
    client: &mut Client,
    lease: &LeaseGuard,
    out: &Sending<'_, '_, '_>,
    chosen: &Chosen,
    upstream: &mut Upstream,
) -> Result<bool, Interrupt> {
    let head = upstream_head(out, lease, chosen);
    let pieces = out.version.edits.slices(&out.body);
    let mut slices: smallvec::SmallVec<[IoSlice<'_>; 10]> = smallvec::SmallVec::new();
    slices.push(IoSlice::new(&head));
    slices.extend(pieces.iter().map(|p| IoSlice::new(p)));
    let mut left = &mut slices[..];
    client.timer.set(Some(out.deadline));
    others_first().await;
    poll_fn(|cx| {
        loop {
            IoSlice::advance_slices(&mut left, 0);
            let step = if left.is_empty() {
                match upstream.poll_flush(cx) {
                    Poll::Ready(flushed) => return Poll::Ready(Ok(flushed.is_ok())),
                    Poll::Pending => Poll::Pending,
                }
            } else {
                upstream.poll_write(cx, left)
            };
            match step {
                Poll::Ready(Ok(n)) if n > 0 => IoSlice::advance_slices(&mut left, n),
                Poll::Ready(_) => return Poll::Ready(Ok(false)),
                // It answers before it has read all (an early refusal), or it has closed.
                Poll::Pending if upstream.poll_news(cx) => return Poll::Ready(Ok(false)),
                Poll::Pending => match interrupted(client, lease, out.deadline, cx) {
                    Some(interrupt) => return Poll::Ready(Err(interrupt)),
                    None => return Poll::Pending,
                },
            }
        }
    })
    .await
}

fn upstream_head(out: &Sending<'_, '_, '_>, lease: &LeaseGuard, chosen: &Chosen) -> Vec<u8> {
    let url = &lease.replica().url;
    let mut bearer = String::new();
    let mut extra: smallvec::SmallVec<[(&str, &str); 4]> =
        smallvec::smallvec![("x-request-id", out.request_id)];
    let (pools, own) = (&out.version.target.pool.plan().headers, &lease.replica().headers);
    extra.extend(pools.iter().chain(own).map(|(name, value)| (&**name, &*value.0)));
    if let Some(credential) = &chosen.credential {
        bearer.push_str("Bearer ");
        bearer.push_str(&credential.0);
        extra.push(("authorization", &bearer));
    }
    let prefixed;
    let path = if url.prefix.is_empty() {
        out.path
    } else {
        prefixed = format!("{}{}", url.prefix, out.path);
        &prefixed
    };
    let expects_body = out.head.method == "POST";
    let mut head = Vec::with_capacity(512);
    // Whatever coding the body came in has been taken off.
    write_upstream_head(
        &mut head,
        out.head,
        &UpstreamHead {
            authority: &url.authority,
            path,
            extra: &extra,
            content_length: Some(out.version.edits.len(out.body.len())).filter(|n| *n > 0 || expects_body),
        },
    );
    head.extend_from_slice(b"\r\n");
    head
}

fn connect_failure(error: &io::Error) -> AttemptFailure {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        AttemptFailure::Refused
    } else {
        AttemptFailure::ConnectFailed
    }
}

#[cfg(test)]
mod tests;
