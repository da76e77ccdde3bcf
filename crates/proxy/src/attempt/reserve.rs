//! A place at a replica for one attempt, or the reason why there is none.

use std::future::poll_fn;
use std::task::Poll;

use sluicegate_core::{AttemptFailure, Attempts, Denial};

use super::{NoAnswer, Outgoing};
use crate::client::Client;
use crate::clock;
use crate::pool::{Admitted, Place, Reserved};
use crate::record::Record;
use crate::refusal::Refusal;

/// A place at a replica, waited for where slots say so.
pub(super) async fn reserve(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
    attempts: &Attempts,
    last: Option<AttemptFailure>,
) -> Result<Reserved, NoAnswer> {
    if client.is_stopping() {
        return Err(Refusal::GatewayStopped.into());
    }
    let route = &out.resolved.route;
    let request = out.resolved.pick_request(attempts.tried());
    if matches!(last, Some(AttemptFailure::Status(429) | AttemptFailure::ErrorEvent(429))) {
        // A replica that was full is given up only for one with room.
        return route.pool.pick_with_room(&request).map_err(|none| Refusal::NoReplica(none).into());
    }
    if out.endpoint.is_stored_response() {
        // It takes no slot: a cancel would wait for the very response that it is to end.
        return route.pool.pick(&request).map_err(|none| Refusal::NoReplica(none).into());
    }
    let waiting = out.resolved.waiting(out.key);
    match route.pool.admit(&request, waiting) {
        Admitted::Reserved(reserved) => Ok(reserved),
        Admitted::Full { retry_after } => Err(Refusal::QueueFull { retry_after }.into()),
        Admitted::No(none) => Err(Refusal::NoReplica(none).into()),
        Admitted::Queued(place) => {
            let begun = clock::now();
            let granted = wait(client, out, &place).await;
            record.waited(clock::now().since(begun));
            granted
        }
    }
}

/// Waits for a slot; the place in the queue is left on every other end.
async fn wait(client: &mut Client, out: &Outgoing<'_, '_>, place: &Place) -> Result<Reserved, NoAnswer> {
    client.timer.set(Some(out.deadline));
    poll_fn(|cx| match place.poll(cx) {
        // Also where a place has just come free because another request was ended.
        _ if client.is_stopping() => Poll::Ready(Err(Refusal::GatewayStopped.into())),
        Poll::Ready(Ok(reserved)) => Poll::Ready(Ok(reserved)),
        Poll::Ready(Err(Denial::NoReplica(none))) => Poll::Ready(Err(Refusal::NoReplica(none).into())),
        Poll::Ready(Err(Denial::QueueFull { retry_after })) => {
            Poll::Ready(Err(Refusal::QueueFull { retry_after }.into()))
        }
        Poll::Ready(Err(Denial::QueueTimeout { retry_after })) => {
            Poll::Ready(Err(Refusal::QueueTimeout { retry_after }.into()))
        }
        Poll::Pending if client.poll_gone(cx) => Poll::Ready(Err(NoAnswer::ClientGone { queued: true })),
        Poll::Pending if clock::now() >= out.deadline => Poll::Ready(Err(Refusal::Timeout.into())),
        Poll::Pending => Poll::Pending,
    })
    .await
}
