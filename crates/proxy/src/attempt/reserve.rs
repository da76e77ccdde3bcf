//! A place at a replica for one attempt, or the reason why there is none.

use std::future::poll_fn;
use std::task::Poll;

use sluicegate_core::{AttemptFailure, Attempts, Denial, KeyIndex, Reason, TargetIndex};

use super::{NoAnswer, Outgoing};
use crate::client::Client;
use crate::clock;
use crate::pool::{Admitted, Places, Reserved};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::route::Way;
use crate::targets::{Spot, Targets};

/// One request's way through some of its route's targets.
pub(super) struct Search<'t> {
    pub(super) way: Way,
    pub(super) targets: &'t Targets,
    pub(super) attempts: Attempts<Spot>,
    /// The target whose share the request is.
    aim: Option<TargetIndex>,
    /// How the last attempt failed.
    pub(super) last: Option<AttemptFailure>,
}

impl<'t> Search<'t> {
    pub(super) fn new(way: Way, targets: &'t Targets, key: KeyIndex) -> Self {
        Self { way, targets, attempts: Attempts::of(key), aim: None, last: None }
    }

    /// A place for the next attempt.
    pub(super) async fn reserve(
        &mut self,
        client: &mut Client,
        out: &Outgoing<'_, '_>,
        record: &mut Record,
    ) -> Result<Reserved, NoAnswer> {
        let mut reserved = self.place(client, out, record).await?;
        if self.way == Way::Fallback {
            reserved.reason = Reason::Fallback;
        }
        Ok(reserved)
    }

    async fn place(
        &mut self,
        client: &mut Client,
        out: &Outgoing<'_, '_>,
        record: &mut Record,
    ) -> Result<Reserved, NoAnswer> {
        if client.is_stopping() {
            return Err(Refusal::GatewayStopped.into());
        }
        let asked = out.resolved.asked(self.attempts.tried());
        let refused = |none| NoAnswer::Refused(Refusal::NoReplica(none));
        if matches!(self.last, Some(AttemptFailure::Status(429) | AttemptFailure::ErrorEvent(429))) {
            // A replica that was full is given up only for one with room.
            return self.targets.pick_with_room(&asked, &mut self.aim).map_err(refused);
        }
        if out.endpoint.is_stored_response() {
            // It takes no slot: a cancel would wait for the very response that it is to end.
            return self.targets.pick(&asked).map_err(refused);
        }
        let begun = clock::now();
        match self.targets.admit(&asked, &mut self.aim, out.resolved.waiting(out.key)) {
            Admitted::Reserved(reserved) => Ok(reserved),
            Admitted::Full { retry_after } => Err(Refusal::QueueFull { retry_after }.into()),
            Admitted::No(none) => Err(refused(none)),
            Admitted::Queued(places) => {
                let granted = wait(client, out, places).await;
                record.waited(clock::within_poll().since(begun));
                granted
            }
        }
    }
}

/// Waits for a slot; the places in the queues are left on every other end.
async fn wait(client: &mut Client, out: &Outgoing<'_, '_>, mut places: Places) -> Result<Reserved, NoAnswer> {
    client.timer.set(Some(out.deadline));
    poll_fn(|cx| match places.poll(cx) {
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
