//! One attempt: the request goes to the replica of a lease, with one credential after the other and over a kept
//! connection or a new one.

use sluicegate_core::AttemptFailure;

use super::{End, Interrupt, Sending, hold, send};
use crate::client::Client;
use crate::clock;
use crate::credentials::{Chosen, Judged, Trial};
use crate::pool::LeaseGuard;
use crate::record::Record;
use crate::upstream::Upstream;

/// One attempt at the replica of `lease`. A credential that it refuses is replaced by another: no attempt of its own,
/// as the replica is not at fault.
pub(super) async fn attempt(
    client: &mut Client,
    out: &Sending<'_, '_, '_>,
    record: &mut Record,
    lease: &LeaseGuard,
) -> End {
    let credentials = lease.pool().credentials();
    let mut trial = Trial::new(credentials);
    let mut chosen = credentials.choose(clock::now());
    loop {
        let end = match ask(client, out, record, lease, &chosen).await {
            End::Failed(AttemptFailure::Reset { sent_whole: true }, _) => {
                told_apart(client, out, record, lease).await
            }
            end => end,
        };
        let said = end.said();
        match trial.judge(&chosen, said, end, clock::now()) {
            Judged::Answered(end) => return end,
            Judged::Again(other) => chosen = other,
            Judged::Refused => return End::CredentialRefused,
        }
    }
}

/// Asks over a kept connection, else over a new one.
async fn ask(
    client: &mut Client,
    out: &Sending<'_, '_, '_>,
    record: &mut Record,
    lease: &LeaseGuard,
    credential: &Chosen,
) -> End {
    let mut sent_before = false;
    if let Some(upstream) = Upstream::idle(lease.replica().slot, clock::now()) {
        record.connect = Some(std::time::Duration::ZERO);
        match exchange(client, out, lease, credential, upstream).await {
            // A kept connection that was closed before any answer byte: the engine's idle limit, not its fault.
            hold::Held::Stale { sent_whole } => sent_before = sent_whole,
            hold::Held::End(end) => return end,
        }
    }
    let upstream = match send::connect(client, lease, out, record).await {
        Ok(upstream) => upstream,
        // Not its idle limit after all: it had the whole request when it went.
        Err(End::Failed(AttemptFailure::Refused, _)) if sent_before => {
            return End::Failed(AttemptFailure::Gone, None);
        }
        Err(End::Failed(AttemptFailure::ReplicaDied { .. }, _)) => {
            return Interrupt::ReplicaDied.ends(sent_before);
        }
        Err(end) => return end,
    };
    match exchange(client, out, lease, credential, upstream).await {
        hold::Held::Stale { sent_whole } => End::Failed(AttemptFailure::Reset { sent_whole }, None),
        hold::Held::End(end) => end,
    }
}

/// A connection ended before an answer to the whole request: one more tells whether it was the connection alone, or
/// whether the process is gone. Then it is gone for all whose connections end with it, more than a budget of retries is for.
async fn told_apart(
    client: &mut Client,
    out: &Sending<'_, '_, '_>,
    record: &mut Record,
    lease: &LeaseGuard,
) -> End {
    let took = record.connect;
    let again = send::connect(client, lease, out, record).await;
    record.connect = took;
    match again {
        Ok(upstream) => {
            upstream.keep(lease.replica(), clock::now());
            End::Failed(AttemptFailure::Reset { sent_whole: true }, None)
        }
        Err(End::Failed(AttemptFailure::Refused, _)) => End::Failed(AttemptFailure::Gone, None),
        Err(End::Failed(AttemptFailure::ReplicaDied { .. }, _)) => Interrupt::ReplicaDied.ends(true),
        Err(End::Failed(..)) => End::Failed(AttemptFailure::Reset { sent_whole: true }, None),
        Err(end) => end,
    }
}

async fn exchange(
    client: &mut Client,
    out: &Sending<'_, '_, '_>,
    lease: &LeaseGuard,
    credential: &Chosen,
    mut upstream: Upstream,
) -> hold::Held {
    match send::send(client, lease, out, credential, &mut upstream).await {
        Ok(sent_whole) => hold::await_answer(client, lease, out, upstream, sent_whole).await,
        Err(interrupt) => hold::Held::End(interrupt.ends(false)),
    }
}
