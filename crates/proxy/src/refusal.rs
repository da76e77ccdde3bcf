//! The one failure vocabulary of the data plane: what a client is told when the gateway itself answers.

use std::time::Duration;

use sluicegate_core::{LimitRefusal, NoReplica};
use sluicegate_wire::{FormError, HeadError, PathError, PeekError, endpoint};

use crate::usage::Outcome;

/// Characters of a client's own text that are repeated to it at most.
const REPEATED: usize = 100;

/// Why the gateway answers a request itself. Each maps to a status, a code and an outcome here and nowhere else.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The head breaks the rules of HTTP/1.1 framing.
    #[error("bad request head: {0}")]
    BadHead(HeadError),
    /// The head did not come in time.
    #[error("the request head was not complete in time")]
    HeadTimeout,
    /// The body's chunked framing is broken.
    #[error("bad chunked body: {0}")]
    BadChunk(HeadError),
    /// The body stopped coming.
    #[error("the request body made no progress in time")]
    BodyTimeout,
    /// The body is larger than `max_body`.
    #[error("the request body is larger than the limit of {0} bytes (listen.max_body)")]
    TooLarge(usize),
    /// Large bodies take all the memory that they may.
    #[error("too many large request bodies are being read: try again")]
    NoMemory,
    /// A media type that is not understood.
    #[error("{0}")]
    Unsupported(&'static str),
    /// A content coding that is not understood, or too many of them.
    #[error(
        "this Content-Encoding is not supported: send gzip, deflate, zstd or br (at most two, one after the other), \
         or a plain body"
    )]
    UnsupportedCoding,
    /// The body is not what its `Content-Encoding` says.
    #[error("the request body cannot be decoded as {coding}: {what}")]
    BadCoding {
        /// The coding, as the field names it.
        coding: &'static str,
        /// What is wrong.
        what: &'static str,
    },
    /// The path is not in the table of routed paths.
    #[error("no such path: {path}{hint}")]
    UnknownPath {
        /// The path as asked, cut and cleaned.
        path: Box<str>,
        /// What was probably meant, or nothing.
        hint: Box<str>,
    },
    /// The path exists with another method.
    #[error("this path takes {0}")]
    WrongMethod(&'static str),
    /// The body could not be read as far as the gateway has to.
    #[error("{0}")]
    BadBody(PeekError),
    /// No key was sent.
    #[error("this gateway needs an API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`")]
    NoKey,
    /// The key is not known.
    #[error("the API key is not known")]
    BadKey,
    /// More than one key was sent. No 401: each may be good, and another one would mend nothing.
    #[error(
        "more than one API key was sent: send one, as `Authorization: Bearer KEY` or as `x-api-key: KEY`"
    )]
    TwoKeys,
    /// A limit of the key refuses.
    #[error("{0}")]
    Limit(LimitRefusal),
    /// As many requests wait for a slot as may.
    #[error("too many requests wait for this model already")]
    QueueFull {
        /// When to try again.
        retry_after: Duration,
    },
    /// It has waited for a slot for as long as its route lets it.
    #[error("no slot came free in time (queue.max_wait)")]
    QueueTimeout {
        /// When to try again.
        retry_after: Duration,
    },
    /// An identical request failed two replicas alike.
    #[error("an identical request has just failed two replicas alike: it is refused for now")]
    SuspectedPoison {
        /// For how long.
        left: Duration,
    },
    /// The form could not be read, or could be read in two ways.
    #[error("{0}")]
    BadForm(FormError),
    /// `stream` is given, and is no boolean.
    #[error("`stream` must be true or false")]
    OddStream,
    /// `model` is missing, blank or not a string.
    #[error("`model` {0}")]
    BadModel(&'static str),
    /// No route of that name.
    #[error("the model `{asked}` does not exist{hint}")]
    UnknownModel {
        /// The name as asked, cut.
        asked: Box<str>,
        /// ` (available: ...)`, or nothing.
        hint: Box<str>,
    },
    /// A response id that this gateway knows nothing of.
    #[error("no response of that id is known here")]
    UnknownResponse,
    /// No replica can take it now.
    #[error("{}", no_replica(*.0))]
    NoReplica(NoReplica),
    /// No model is known yet, because no replica has told its own.
    #[error("no model is known yet: no replica has told which models it serves")]
    NoModels,
    /// None of the replicas tried could be connected to.
    #[error("no replica could be reached")]
    Unreachable,
    /// Attempts ended without an answer that could be relayed.
    #[error("no replica gave an answer: {0}")]
    Upstream(&'static str),
    /// The last replica answered with a failure that is no JSON error.
    #[error("the replica answered {status} without a JSON error")]
    UpstreamStatus {
        /// Its status, passed on.
        status: u16,
        /// Its `Retry-After`, passed on.
        retry_after: Option<u32>,
    },
    /// The replicas know none of the pool's credentials: between them and the gateway, whatever key the client has.
    #[error("the replicas do not take this gateway's own credential: its operator has to set another one")]
    CredentialRefused,
    /// The gateway stops before an answer.
    #[error("the gateway is being stopped: try again")]
    GatewayStopped,
    /// The whole-request limit ran out before an answer.
    #[error("no answer within the time limit of this route (timeouts.total)")]
    Timeout,
}

impl Refusal {
    /// The refusal of a request line whose path is not routed.
    pub(crate) fn at_path(error: PathError, target: &str) -> Self {
        match error {
            PathError::Unknown => Self::UnknownPath { path: repeated(target), hint: path_hint(target) },
            PathError::Method { allow } => Self::WrongMethod(allow),
        }
    }

    /// HTTP status.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::BadHead(e) | Self::BadChunk(e) => match e {
                HeadError::Bad(_) => 400,
                HeadError::TooLarge => 431,
                HeadError::Coding => 501,
                HeadError::Version => 505,
                HeadError::Expectation => 417,
            },
            Self::HeadTimeout | Self::BodyTimeout => 408,
            Self::TooLarge(_) => 413,
            Self::Unsupported(_) | Self::UnsupportedCoding => 415,
            Self::UnknownPath { .. } | Self::UnknownModel { .. } | Self::UnknownResponse => 404,
            Self::WrongMethod(_) => 405,
            Self::NoKey | Self::BadKey => 401,
            Self::Limit(LimitRefusal::Exhausted { .. }) | Self::QueueFull { .. } => 429,
            Self::Limit(LimitRefusal::TooLarge { .. }) => 400,
            Self::QueueTimeout { .. } | Self::GatewayStopped => 503,
            Self::SuspectedPoison { .. } => 422,
            Self::TwoKeys
            | Self::OddStream
            | Self::BadBody(_)
            | Self::BadForm(_)
            | Self::BadModel(_)
            | Self::BadCoding { .. } => 400,
            Self::NoReplica(_) | Self::NoModels | Self::Unreachable | Self::NoMemory => 503,
            Self::Upstream(_) | Self::CredentialRefused => 502,
            Self::UpstreamStatus { status, .. } => *status,
            Self::Timeout => 504,
        }
    }

    /// The stable `code` in error bodies and usage lines.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadHead(_) => "bad_request_head",
            Self::HeadTimeout => "head_timeout",
            Self::BadChunk(_) => "bad_chunked_body",
            Self::BodyTimeout => "body_timeout",
            Self::TooLarge(_) => "request_too_large",
            Self::NoMemory => "too_many_large_bodies",
            Self::Unsupported(_) => "unsupported_media_type",
            Self::UnsupportedCoding => "unsupported_content_encoding",
            Self::BadCoding { .. } => "invalid_content_encoding",
            Self::UnknownPath { .. } => "unknown_path",
            Self::WrongMethod(_) => "method_not_allowed",
            Self::BadBody(PeekError::Doubled { .. }) | Self::BadForm(FormError::Doubled { .. }) => {
                "doubled_member"
            }
            Self::BadBody(_) => "invalid_json",
            Self::BadForm(_) => "invalid_form",
            Self::NoKey => "missing_api_key",
            Self::BadKey => "invalid_api_key",
            Self::TwoKeys => "two_api_keys",
            Self::Limit(LimitRefusal::Exhausted { .. }) => "key_limit",
            Self::Limit(LimitRefusal::TooLarge { .. }) => "key_limit_too_small",
            Self::QueueFull { .. } => "queue_full",
            Self::QueueTimeout { .. } => "queue_timeout",
            Self::SuspectedPoison { .. } => "suspected_poison",
            Self::OddStream => "invalid_stream",
            Self::BadModel(_) => "invalid_model",
            Self::UnknownModel { .. } => "model_not_found",
            Self::UnknownResponse => "response_not_found",
            Self::NoReplica(_) | Self::NoModels | Self::Unreachable => "no_healthy_instances",
            Self::Upstream(_) | Self::UpstreamStatus { .. } => "upstream_error",
            Self::CredentialRefused => "credential_refused",
            Self::GatewayStopped => "gateway_stopped",
            Self::Timeout => "timeout",
        }
    }

    /// The member of the body at fault, for `param`.
    #[must_use]
    pub fn param(&self) -> Option<&str> {
        match self {
            Self::BadModel(_) | Self::UnknownModel { .. } => Some("model"),
            Self::OddStream => Some("stream"),
            Self::BadBody(PeekError::Doubled { name, .. }) => Some(name),
            Self::BadForm(FormError::Doubled { name, .. }) => Some(name),
            _ => None,
        }
    }

    /// The sentence for people.
    #[must_use]
    pub fn message(&self) -> String {
        self.to_string()
    }

    /// Seconds for `Retry-After`.
    #[must_use]
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::NoReplica(_) | Self::NoModels | Self::Unreachable => Some(3),
            Self::Upstream(_) | Self::NoMemory | Self::GatewayStopped => Some(1),
            Self::Limit(LimitRefusal::Exhausted { retry_after, .. })
            | Self::QueueFull { retry_after }
            | Self::QueueTimeout { retry_after }
            | Self::SuspectedPoison { left: retry_after } => Some(whole_seconds(*retry_after)),
            // Busy, without a word on when it will not be.
            Self::UpstreamStatus { status: 429 | 503, retry_after: None } => Some(1),
            Self::UpstreamStatus { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// Value of `WWW-Authenticate`.
    #[must_use]
    pub fn authenticate(&self) -> Option<&'static str> {
        matches!(self, Self::NoKey | Self::BadKey).then_some("Bearer")
    }

    /// Value of `Allow`.
    #[must_use]
    pub fn allow(&self) -> Option<&'static str> {
        match self {
            Self::WrongMethod(allow) => Some(allow),
            _ => None,
        }
    }

    /// Value of `Accept-Encoding`: the codings that a request body may have (RFC 9110 section 15.5.16).
    #[must_use]
    pub fn accept_encoding(&self) -> Option<&'static str> {
        matches!(self, Self::UnsupportedCoding).then_some("gzip, deflate, zstd, br")
    }

    /// The outcome of its usage line.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::NoReplica(_) | Self::NoModels | Self::Unreachable => Outcome::NoReplica,
            Self::Upstream(_) | Self::UpstreamStatus { .. } | Self::CredentialRefused => {
                Outcome::UpstreamError
            }
            Self::Timeout => Outcome::TimeoutTotal,
            Self::GatewayStopped => Outcome::GatewayStopped,
            Self::NoKey | Self::BadKey | Self::TwoKeys => Outcome::RejectedAuth,
            Self::NoMemory => Outcome::RejectedQueue,
            Self::Limit(_) => Outcome::RejectedLimit,
            Self::QueueFull { .. } | Self::QueueTimeout { .. } => Outcome::RejectedQueue,
            Self::SuspectedPoison { .. } => Outcome::RejectedPoison,
            _ => Outcome::ClientError,
        }
    }
}

/// What a client wrote, cut and cleaned so that it can be repeated to it.
pub(crate) fn repeated(text: &str) -> Box<str> {
    text.chars().filter(|c| !c.is_control()).take(REPEATED).collect()
}

/// The usual mistakes with an SDK's base URL.
fn path_hint(target: &str) -> Box<str> {
    let path = target.split('?').next().unwrap_or_default();
    let meant = match path.strip_prefix("/v1/v1/") {
        Some(rest) => format!("/v1/{rest}"),
        None => format!("/v1{path}"),
    };
    let routed = |path: &str| !matches!(endpoint("POST", path), Err(PathError::Unknown));
    if routed(&meant) {
        return format!(": did you mean {meant}? (a client's base URL ends in /v1, once)").into();
    }
    match path {
        "/health" | "/healthz" | "/readyz" | "/metrics" | "/api/state" => {
            " on this side: it is on the admin listener".into()
        }
        _ => Box::default(),
    }
}

/// `Retry-After` counts whole seconds: at least one, and never too early.
fn whole_seconds(left: Duration) -> u32 {
    u32::try_from(left.as_millis().div_ceil(1_000).max(1)).unwrap_or(u32::MAX)
}

fn no_replica(why: NoReplica) -> &'static str {
    match why {
        NoReplica::NoneKnown => "no replica is known for this model",
        NoReplica::NotReady => "no replica is ready yet: all are starting or draining",
        NoReplica::AllTried => "every replica that could serve this request has failed it",
    }
}

#[cfg(test)]
mod tests;
