//! One request, phase by phase. Each phase is a file beside this one:
//!
//! head -> endpoint -> key -> body -> resolve (peek, route, affinity) -> the key's limits -> decision
//!      -> attempt (pick + lease, or wait; send, hold) -> relay -> record

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use sluicegate_wire::{Dialect, Endpoint, HeadError, RequestFraming, RequestHead, endpoint, parse_request};

use crate::attempt::{self, Answered, NoAnswer, Outgoing, Shown, StoredAnswer};
use crate::body;
use crate::buffers::Body;
use crate::client::Client;
use crate::coding::{self, Codings};
use crate::decide;
use crate::gateway::Gateway;
use crate::keys::Key;
use crate::local;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::relay;
use crate::request_id;
use crate::resolve::{Resolved, Sources, dialect_of, resolve};
use crate::respond;
use crate::route::Way;
use crate::usage::Outcome;

/// A longer body takes a moment to be read through.
const LONG_BODY: usize = 256 * 1024;

/// What is to become of the client's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It can serve a further request.
    Keep,
    /// It is closed; what the client still sends is read and dropped for a moment, so that it sees the answer.
    Close,
}

/// How an answer of any kind has to look for this client.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) dialect: Dialect,
    pub(crate) http11: bool,
    /// The connection can serve a further request after this one.
    pub(crate) keep_alive: bool,
    /// HEAD: no body is sent.
    pub(crate) head_only: bool,
}

/// What is ready to be sent to the client.
enum Ready {
    Shown(Box<Shown>, relay::Limits),
    Stored(StoredAnswer),
    Local(Vec<u8>),
}

/// Serves the request whose head is `head`.
pub(crate) async fn serve(gateway: &Arc<Gateway>, client: &mut Client, head: Vec<u8>) -> After {
    let mut record = Record::new(gateway);
    let mut manner = Manner { dialect: Dialect::OpenAi, http11: true, keep_alive: false, head_only: false };
    // Boxed, as refusals are, so that a stream that is being relayed does not carry the room of what it is not.
    let ready = Box::pin(until_answer(gateway, client, head, &mut record, &mut manner)).await;
    let write_idle = gateway.plan.listen.write_idle_timeout;
    let sent = match ready {
        Ok(Ready::Shown(shown, limits)) => {
            record.head_is_made();
            relay::run(client, shown, &mut record, limits).await
        }
        Ok(Ready::Stored(answer)) => respond::stored(client, &manner, &answer, &mut record, write_idle).await,
        Ok(Ready::Local(json)) => respond::json(client, &manner, &json, &mut record, write_idle).await,
        Err(NoAnswer::Refused(refusal)) => {
            let refusal = record.count_refused(refusal);
            record.turned_away(&refusal);
            Box::pin(respond::refuse(client, &manner, &refusal, &mut record, write_idle)).await
        }
        Err(NoAnswer::ClientGone { queued }) => {
            let outcome = if queued { Outcome::ClientGoneQueued } else { Outcome::ClientGone };
            record.ended(outcome, Some(Cow::Borrowed("client_gone")));
            // A replica may have worked on the prompt: never silently nothing.
            record.unanswered(record.attempts > 0 && !queued);
            false
        }
    };
    if sent && manner.keep_alive && !client.is_half_closed() { After::Keep } else { After::Close }
}

async fn until_answer(
    gateway: &Arc<Gateway>,
    client: &mut Client,
    head: Vec<u8>,
    record: &mut Record,
    manner: &mut Manner,
) -> Result<Ready, NoAnswer> {
    let head = match parse_request(&head) {
        Ok(Some(head)) => head,
        other => {
            gateway.counters.refused_heads.fetch_add(1, Ordering::Relaxed);
            record.request_id = request_id::make();
            let error = other.err().unwrap_or(HeadError::Bad("it is not complete"));
            return refused(Refusal::BadHead(error));
        }
    };
    record.request_id = request_id::of(&head.headers);
    manner.http11 = head.http11;
    manner.head_only = head.method == "HEAD";
    let keep_alive = head.keep_alive && !gateway.is_draining();
    // Without a body the connection is in step with its client already.
    manner.keep_alive = keep_alive && head.framing == RequestFraming::None;
    let (endpoint, path) = match endpoint(head.method, head.target) {
        Ok(found) => found,
        Err(e) => {
            manner.dialect = dialect_of(head.target);
            return refused(Refusal::at_path(e, head.target));
        }
    };
    record.endpoint = Some(endpoint);
    manner.dialect = endpoint.dialect();
    record.key = gateway.keys.authenticate(&head.headers)?;
    body::check_length(&gateway.plan.listen, &head)?;
    if !body::is_here(client, &head) {
        record.refuse_unread()?;
    }
    let share = record.key.as_deref().map(|key| &key.bodies);
    let end = record.start + gateway.longest_total;
    let body = body::read(&gateway.plan.listen, client, &head, share, end).await?;
    record.body_read(body.len());
    manner.keep_alive = keep_alive;
    match endpoint {
        Endpoint::Models => return Ok(Ready::Local(local::models(gateway, record.key.as_deref()))),
        Endpoint::Model => {
            return local::model(gateway, record.key.as_deref(), &path)
                .map(Ready::Local)
                .map_err(NoAnswer::Refused);
        }
        _ => {}
    }
    let request = Received { head: &head, path: &path, endpoint, body };
    answer(gateway, client, request, record, manner).await
}

/// A request that was read whole and is routed by its body.
struct Received<'a, 'h> {
    head: &'a RequestHead<'h>,
    path: &'a str,
    endpoint: Endpoint,
    body: Body,
}

async fn answer(
    gateway: &Arc<Gateway>,
    client: &mut Client,
    request: Received<'_, '_>,
    record: &mut Record,
    manner: &Manner,
) -> Result<Ready, NoAnswer> {
    let Received { head, path, endpoint, body } = request;
    let codings = Codings::of(&head.headers)?;
    let body = match codings.is_empty() {
        true => body,
        false => coding::decode(&codings, body, gateway.plan.listen.max_body).await?,
    };
    let key = record.key.clone();
    let mut resolved = if endpoint.is_stored_response() {
        gateway.responses.resolve(&gateway.routes.load(), path, key.as_deref())?
    } else {
        let sources = Sources { routes: &gateway.routes.load(), responses: &gateway.responses };
        resolve(sources, endpoint, &head.headers, &body, key.as_deref(), Some(record))?
    };
    record.resolved(&resolved);
    let suspected = suspicion(&resolved, key.as_deref(), endpoint, &body)?;
    let_time_move_on(&body).await;
    if let Some(key) = &key {
        let reserved = key.reserve(resolved.ask);
        record.rate_fields = key.rate_fields();
        record.reserved(reserved.map_err(Refusal::Limit)?);
    }
    let timeouts = resolved.route.plan.timeouts;
    let limits = relay::Limits {
        deadline: record.start + timeouts.total,
        silence: timeouts.stream_silence,
        write_idle: gateway.plan.listen.write_idle_timeout,
    };
    if let Some(question) = decide::question(&resolved, endpoint, &body).filter(|_| !suspected) {
        let asked = decide::ask(gateway, client, &resolved.route, question, limits.deadline).await?;
        resolved.decision = asked;
    }
    let request_id = Arc::clone(&record.request_id);
    let rate_fields = record.rate_fields.clone();
    let out = Outgoing {
        head,
        path,
        request_id: &request_id,
        rate_fields: rate_fields.as_deref(),
        key: key.as_deref(),
        body,
        suspected,
        resolved,
        endpoint,
        dialect: manner.dialect,
        keep_alive: manner.keep_alive,
        deadline: limits.deadline,
    };
    match attempt::run(client, &out, record).await? {
        Answered::Shown(shown) => Ok(Ready::Shown(shown, limits)),
        Answered::Stored(answer) => Ok(Ready::Stored(answer)),
    }
}

/// Time moves on between polls only. What follows on the reading of a long body would else begin in the past, and the
/// limit of a connect could be over before the socket is looked at.
async fn let_time_move_on(body: &[u8]) {
    if body.len() > LONG_BODY {
        tokio::task::yield_now().await;
    }
}

/// True: only its route's fallback may still be sent the request.
///
/// # Errors
/// Nobody may.
fn suspicion(
    resolved: &Resolved,
    key: Option<&Key>,
    endpoint: Endpoint,
    body: &[u8],
) -> Result<bool, Refusal> {
    let suspects = |way| resolved.route.suspects(way, key.map(|key| key.index), endpoint, body);
    let left = match (suspects(Way::Targets), &resolved.route.fallback) {
        (None, _) => return Ok(false),
        (Some(_), Some(_)) if resolved.bound.is_none() => suspects(Way::Fallback),
        (left, _) => left,
    };
    left.map_or(Ok(true), |left| Err(Refusal::SuspectedPoison { left }))
}

fn refused<T>(refusal: Refusal) -> Result<T, NoAnswer> {
    Err(NoAnswer::Refused(refusal))
}

impl From<Refusal> for NoAnswer {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
