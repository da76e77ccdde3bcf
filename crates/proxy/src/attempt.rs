//! Attempts: a replica is chosen and reserved, the request sent, and the answer awaited until it is certain enough
//! to be shown. Nothing has reached the client before this phase ends, and nothing can be retried after it: what it
//! returns holds neither the prompt nor the list of attempts.

mod hold;
mod send;
mod stored;

use std::sync::Arc;

use sluicegate_core::{AttemptFailure, Attempts, Next, Time, Verdict};
use sluicegate_wire::{ClientFraming, Dialect, RequestHead, StreamKind};

use crate::answer::Answer;
use crate::buffers::Body;
use crate::client::Client;
use crate::clock;
use crate::pool::{LeaseGuard, Replica, Room};
use crate::record::Record;
use crate::refusal::Refusal;
use crate::resolve::Resolved;
use crate::upstream::Upstream;

pub(crate) use stored::StoredAnswer;

/// A request that is ready to be sent to any replica.
pub(crate) struct Outgoing<'a, 'h> {
    pub(crate) head: &'a RequestHead<'h>,
    /// Normalised path and query.
    pub(crate) path: &'a str,
    pub(crate) request_id: &'a str,
    pub(crate) body: Body,
    pub(crate) resolved: Resolved,
    pub(crate) kind: StreamKind,
    pub(crate) dialect: Dialect,
    /// The client's connection can serve a further request.
    pub(crate) keep_alive: bool,
    /// End of the whole request's time.
    pub(crate) deadline: Time,
}

/// An answer on its way to the client.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) upstream: Upstream,
    pub(crate) lease: LeaseGuard,
    pub(crate) answer: Answer,
    pub(crate) kind: StreamKind,
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

/// What the attempts came to.
pub(crate) enum Answered {
    /// An answer that is shown as it comes.
    Exchange(Box<Exchange>),
    /// A failed replica's own error, relayed whole.
    Stored(StoredAnswer),
}

/// Why there is no answer.
pub(crate) enum NoAnswer {
    ClientGone,
    Refused(Refusal),
}

/// What interrupts any wait for a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    ClientGone,
    Deadline,
    ReplicaDied,
}

/// How one attempt ended.
enum End {
    Answered(Box<Exchange>),
    /// An error event that is the client's to mend: shown as an answer of its own.
    Refused(StoredAnswer),
    Failed(AttemptFailure, Option<StoredAnswer>),
    ClientGone,
}

impl From<Interrupt> for End {
    fn from(interrupt: Interrupt) -> Self {
        match interrupt {
            Interrupt::ClientGone => Self::ClientGone,
            Interrupt::Deadline => Self::Failed(AttemptFailure::Timeout, None),
            Interrupt::ReplicaDied => Self::Failed(AttemptFailure::ReplicaDied, None),
        }
    }
}

/// Makes attempts until one is answered or none is left. The prompt is freed on return.
pub(crate) async fn run(
    client: &mut Client,
    out: Outgoing<'_, '_>,
    record: &mut Record,
) -> Result<Answered, NoAnswer> {
    let mut attempts = Attempts::new();
    let route = Arc::clone(&out.resolved.route);
    route.budget().request(clock::now());
    let result = run_attempts(client, &out, record, &mut attempts).await;
    attempts.ended();
    book_due(&out, &mut attempts);
    result
}

async fn run_attempts(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
    attempts: &mut Attempts,
) -> Result<Answered, NoAnswer> {
    let route = &out.resolved.route;
    let mut last: Option<(AttemptFailure, Option<StoredAnswer>)> = None;
    loop {
        // A replica that was full is given up only for one with room.
        let after_429 =
            matches!(last, Some((AttemptFailure::Status(429) | AttemptFailure::ErrorEvent(429), _)));
        let request = out.resolved.pick_request(attempts.tried());
        let reserved = match route.pool.pick(&request, if after_429 { Room::Needed } else { Room::Any }) {
            Ok(reserved) => reserved,
            Err(none) => return exhausted(last, Refusal::NoReplica(none)),
        };
        let lease = reserved.lease;
        attempts.started(lease.replica().id);
        record.chosen(lease.replica(), reserved.reason, reserved.spilled);
        let mut lease = Some(lease);
        match attempt(client, out, record, &mut lease).await {
            End::Answered(exchange) => {
                // Somebody else's good answer is what makes an earlier failure the replica's own.
                if exchange.status < 400 {
                    attempts.answered();
                }
                return Ok(Answered::Exchange(exchange));
            }
            End::Refused(answer) => {
                release(lease, Verdict::Neutral);
                return Ok(Answered::Stored(answer));
            }
            End::ClientGone => {
                release(lease, Verdict::Neutral);
                return Err(NoAnswer::ClientGone);
            }
            End::Failed(failure, answer) => {
                let (verdict, next) =
                    attempts.failed(clock::now(), failure, &route.plan.retry, &mut route.budget());
                release(lease, verdict);
                book_due(out, attempts);
                tracing::debug!(?failure, ?next, pool = %route.pool.name(), "attempt failed");
                // A refusal that says more is worth more than a later one that says nothing.
                last = Some((failure, answer.or_else(|| last.and_then(|(_, a)| a))));
                if next == Next::GiveUp {
                    return exhausted(last, Refusal::Upstream("its connection failed"));
                }
            }
        }
    }
}

/// One attempt at the replica of `lease`, which is left in place unless the answer took it along.
async fn attempt(
    client: &mut Client,
    out: &Outgoing<'_, '_>,
    record: &mut Record,
    lease: &mut Option<LeaseGuard>,
) -> End {
    let Some(replica) = lease.as_ref().map(|l| Arc::clone(l.replica())) else {
        return End::Failed(AttemptFailure::ConnectFailed, None);
    };
    let watch = Watch { epoch: replica.abort_epoch(), replica: &replica, deadline: out.deadline };
    let mut fresh_only = false;
    loop {
        let kept = if fresh_only { None } else { Upstream::idle(replica.slot, clock::now()) };
        let mut upstream = match kept {
            Some(upstream) => upstream,
            None => match send::connect(client, &watch, out, record).await {
                Ok(upstream) => upstream,
                Err(end) => return end,
            },
        };
        let sent = match send::send(client, &watch, out, record, &mut upstream).await {
            Ok(sent) => sent,
            Err(interrupt) => return interrupt.into(),
        };
        match hold::await_answer(client, &watch, out, upstream, lease, sent).await {
            // A kept connection that was closed before any answer byte: the engine's idle limit, not its fault.
            hold::Held::Stale if !fresh_only => fresh_only = true,
            hold::Held::Stale => return End::Failed(AttemptFailure::Reset { sent_whole: sent }, None),
            hold::Held::End(end) => return end,
        }
    }
}

/// What is watched during every wait for a replica.
struct Watch<'a> {
    replica: &'a Replica,
    epoch: u64,
    deadline: Time,
}

impl Watch<'_> {
    /// Looks at everything but the replica's socket. The connection's timer must be set to the deadline.
    fn interrupted(&self, client: &mut Client, cx: &mut std::task::Context<'_>) -> Option<Interrupt> {
        if client.poll_gone(cx) {
            Some(Interrupt::ClientGone)
        } else if self.replica.abort_epoch() != self.epoch {
            Some(Interrupt::ReplicaDied)
        } else if clock::now() >= self.deadline {
            Some(Interrupt::Deadline)
        } else {
            None
        }
    }
}

fn release(lease: Option<LeaseGuard>, verdict: Verdict) {
    if let Some(mut lease) = lease {
        lease.settle(verdict);
    }
}

fn book_due(out: &Outgoing<'_, '_>, attempts: &mut Attempts) {
    while let Some((replica, verdict)) = attempts.due() {
        out.resolved.route.pool.book(replica, verdict);
    }
}

/// No attempt is left: the last replica's own error where it gave one, else ours.
fn exhausted(
    last: Option<(AttemptFailure, Option<StoredAnswer>)>,
    otherwise: Refusal,
) -> Result<Answered, NoAnswer> {
    match last {
        None => Err(NoAnswer::Refused(otherwise)),
        Some((AttemptFailure::Timeout, _)) => Err(NoAnswer::Refused(Refusal::Timeout)),
        Some((_, Some(answer))) if answer.is_relayable() => Ok(Answered::Stored(answer)),
        Some((AttemptFailure::Status(status), answer)) => {
            let retry_after = answer.and_then(|a| a.retry_after);
            Err(NoAnswer::Refused(Refusal::UpstreamStatus { status, retry_after }))
        }
        Some((failure, _)) => Err(NoAnswer::Refused(Refusal::Upstream(match failure {
            AttemptFailure::Refused => "it refused the connection",
            AttemptFailure::ConnectFailed => "it could not be connected to",
            AttemptFailure::ReplicaDied => "it died while the request waited there",
            _ => "it closed the connection before its answer",
        }))),
    }
}
