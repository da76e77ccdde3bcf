//! Attempts: a replica is chosen and reserved, the request sent, and the answer awaited until it is certain enough
//! to be shown. Nothing has reached the client before this phase ends, and nothing can be retried after it: what it
//! returns holds neither the prompt nor the list of attempts.

mod ask;
mod exhausted;
mod fallback;
mod head;
mod hold;
mod reserve;
mod send;
mod stored;

use std::ops::Deref;
use std::task::Context;

use sluicegate_core::{AttemptFailure, Next, Time, Verdict};
use sluicegate_wire::{ClientFraming, Dialect, Endpoint, RequestHead};

use crate::answer::Answer;
use crate::buffers::Body;
use crate::client::Client;
use crate::clock;
use crate::credentials::Said;
use crate::keys::{Key, index_of};
use crate::pool::{LeaseGuard, Served};
use crate::rate_fields::RateFields;
use crate::record::{Chosen, Record};
use crate::refusal::Refusal;
use crate::resolve::{Resolved, Version};
use crate::upstream::Upstream;

use exhausted::exhausted;
use reserve::Search;
pub(crate) use stored::StoredAnswer;

/// A request that is ready to be sent to any replica.
pub(crate) struct Outgoing<'a, 'h> {
    pub(crate) head: &'a RequestHead<'h>,
    /// Normalised path and query.
    pub(crate) path: &'a str,
    pub(crate) request_id: &'a str,
    /// The `x-ratelimit-*` fields of the answer.
    pub(crate) rate_fields: Option<&'a RateFields>,
    pub(crate) key: Option<&'a Key>,
    pub(crate) body: Body,
    /// Two replicas have failed it alike a moment ago: only the fallback may still be sent it.
    pub(crate) suspected: bool,
    pub(crate) resolved: Resolved,
    pub(crate) endpoint: Endpoint,
    pub(crate) dialect: Dialect,
    /// The client's connection can serve a further request.
    pub(crate) keep_alive: bool,
    /// End of the whole request's time.
    pub(crate) deadline: Time,
}

/// An answer on its way to the client.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Until the answer is whole.
    pub(crate) upstream: Option<Upstream>,
    pub(crate) answer: Answer,
    pub(crate) endpoint: Endpoint,
    pub(crate) framing: ClientFraming,
    /// The head, and the body bytes that came with it, framed: to be written first.
    pub(crate) first: Vec<u8>,
    /// Body bytes in `first`.
    pub(crate) first_len: usize,
    /// An event with content is in `first`.
    pub(crate) first_content: bool,
    /// The body is complete within `first`.
    pub(crate) done: bool,
    /// The replica's connection can be used again after a whole answer.
    pub(crate) reusable: bool,
    pub(crate) status: u16,
    /// The answer is an event stream: its silence is limited.
    pub(crate) event_stream: bool,
}

/// An answer, and the place that it takes up at its replica.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) exchange: Box<Exchange>,
    pub(crate) lease: LeaseGuard,
}

/// What the attempts came to.
pub(crate) enum Answered {
    /// An answer that is shown as it comes.
    Shown(Box<Shown>),
    /// A failed replica's own error, relayed whole.
    Stored(StoredAnswer),
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    ClientGone {
        /// It waited for a slot.
        queued: bool,
    },
    Refused(Refusal),
}

/// What interrupts any wait for a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    ClientGone,
    Deadline,
    ReplicaDied,
    GatewayStopped,
}

/// How one attempt ended.
enum End {
    Answered(Box<Exchange>),
    /// An error event that is the client's to mend: shown as an answer of its own.
    Refused(StoredAnswer),
    Failed(AttemptFailure, Option<StoredAnswer>),
    /// None of the pool's credentials is good.
    CredentialRefused,
    /// The request's time is over. `silent`: the replica had the request for most of it and gave no sign.
    TimedOut {
        silent: bool,
    },
    ClientGone,
    GatewayStopped,
}

impl End {
    /// What the replica answered, in its head or in the event that came first.
    fn said(&self) -> Option<Said> {
        let said = |status, retry_after| Some(Said { status, retry_after });
        match self {
            Self::Answered(exchange) => said(exchange.status, None),
            Self::Refused(answer) => said(answer.status, None),
            Self::Failed(AttemptFailure::Status(status) | AttemptFailure::ErrorEvent(status), answer) => {
                said(*status, answer.as_ref().and_then(|answer| answer.retry_after))
            }
            Self::Failed(..)
            | Self::CredentialRefused
            | Self::TimedOut { .. }
            | Self::ClientGone
            | Self::GatewayStopped => None,
        }
    }
}

impl Interrupt {
    /// How it ends an attempt whose request had been sent completely, or not.
    fn ends(self, sent_whole: bool) -> End {
        match self {
            Self::ClientGone => End::ClientGone,
            Self::Deadline => End::TimedOut { silent: false },
            Self::ReplicaDied => End::Failed(AttemptFailure::ReplicaDied { sent_whole }, None),
            Self::GatewayStopped => End::GatewayStopped,
        }
    }
}

/// A request on its way to one target.
struct Sending<'o, 'a, 'h> {
    out: &'o Outgoing<'a, 'h>,
    version: Version,
}

impl<'a, 'h> Deref for Sending<'_, 'a, 'h> {
    type Target = Outgoing<'a, 'h>;

    fn deref(&self) -> &Self::Target {
        self.out
    }
}

/// Makes attempts until one is answered or none is left, at the fallback target after all others. Nothing of what it
/// returns needs the prompt any more.
pub(crate) async fn run(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
) -> Result<Answered, NoAnswer> {
    let route = &out.resolved.route;
    route.budget().request(clock::now(), index_of(out.key));
    fallback::run(client, out, record).await
}

/// Makes attempts at some of the route's targets.
async fn run_attempts(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
    search: &mut Search<'_>,
) -> Result<Answered, NoAnswer> {
    let route = &out.resolved.route;
    let mut stored = None;
    loop {
        let reserved = match search.reserve(client, out, record).await {
            Ok(reserved) => reserved,
            // What the last replica said is worth more than that there is no other.
            Err(NoAnswer::Refused(refusal)) => return exhausted(search, stored, refusal),
            Err(gone) => return Err(gone),
        };
        let sending = Sending { out, version: out.resolved.version_for(&reserved.whose.target) };
        let mut lease = reserved.lease;
        search.attempts.started(reserved.whose.spot(lease.spell()));
        let (target, replica) = (reserved.whose.target, lease.replica().clone());
        record.chosen(Chosen { target, replica, reason: reserved.reason }, reserved.spilled);
        let (failure, answer) = match ask::attempt(client, &sending, record, &lease).await {
            End::Answered(exchange) => {
                begin_answer(&sending, search, &mut lease, &exchange);
                return Ok(Answered::Shown(Box::new(Shown { exchange, lease })));
            }
            End::Refused(answer) => {
                lease.settle(Verdict::Neutral, Some(Served::default()));
                return Ok(Answered::Stored(answer));
            }
            End::CredentialRefused => {
                lease.settle(Verdict::Neutral, Some(Served::default()));
                return Err(NoAnswer::Refused(Refusal::CredentialRefused));
            }
            End::ClientGone => return Err(NoAnswer::ClientGone { queued: false }),
            End::GatewayStopped => {
                record.worked = true;
                return Err(Refusal::GatewayStopped.into());
            }
            End::TimedOut { silent } => {
                record.worked = true;
                lease.settle(if silent { Verdict::SilentTimeout } else { Verdict::Neutral }, None);
                return exhausted(search, stored, Refusal::Timeout);
            }
            End::Failed(failure, answer) => (failure, answer),
        };
        let now = clock::now();
        let (verdict, next) = search.attempts.failed(now, failure, &route.plan.retry, &mut route.budget());
        // A place that the request was sent away from has cost nothing.
        lease.settle(verdict, matches!(failure, AttemptFailure::ReplicaDied { .. }).then(Served::default));
        tracing::debug!(?failure, ?next, pool = %lease.pool().name(), "attempt failed");
        // A refusal that says more is worth more than a later one that says nothing.
        stored = answer.or(stored);
        search.last = Some(failure);
        if next == Next::GiveUp || now >= out.deadline {
            return exhausted(search, stored, Refusal::Timeout);
        }
    }
}

/// Takes note of an answer that is about to be shown.
fn begin_answer(
    out: &Sending<'_, '_, '_>,
    search: &mut Search<'_>,
    lease: &mut LeaseGuard,
    exchange: &Exchange,
) {
    // An error, or a tokenizer's answer, says nothing of the engine behind the replica's front process.
    if exchange.status >= 400 || !reaches_the_engine(out.endpoint) {
        return;
    }
    if let Some((at, verdict)) = search.attempts.answered() {
        search.targets.book(at, verdict);
    }
    lease.answered();
    let replica = lease.replica();
    if exchange.event_stream {
        replica.note_byte(clock::now());
    }
    replica.note_proven(out.endpoint, &out.version.upstream_model);
}

/// Whether a good answer of this endpoint is the engine's work.
pub(crate) fn reaches_the_engine(endpoint: Endpoint) -> bool {
    !endpoint.is_stored_response()
        && !matches!(endpoint, Endpoint::Tokenize | Endpoint::Detokenize | Endpoint::CountTokens)
}

/// Looks at everything but the replica's socket. The connection's timer must be set to `deadline`.
fn interrupted(
    client: &mut Client,
    lease: &LeaseGuard,
    deadline: Time,
    cx: &mut Context<'_>,
) -> Option<Interrupt> {
    if client.poll_gone(cx) {
        Some(Interrupt::ClientGone)
    } else if lease.replica_died() {
        Some(Interrupt::ReplicaDied)
    } else if client.is_stopping() {
        Some(Interrupt::GatewayStopped)
    } else if clock::now() >= deadline {
        Some(Interrupt::Deadline)
    } else {
        None
    }
}
