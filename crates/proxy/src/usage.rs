//! What is known of a request when it has ended: the data of one usage line.

use std::time::{Duration, SystemTime};

use sluicegate_core::Micros;
use sluicegate_wire::Usage;

/// How a request ended. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// A whole good answer was delivered.
    Ok,
    /// The request itself was at fault: refused here, or a 4xx of the engine.
    ClientError,
    /// No key, or none that is known.
    RejectedAuth,
    /// A limit of the key is used up.
    RejectedLimit,
    /// The queue was full, or the wait too long.
    RejectedQueue,
    /// An identical request failed two replicas alike.
    RejectedPoison,
    /// The replica's failure was relayed, or no attempt succeeded.
    UpstreamError,
    /// The answer broke off after its first byte.
    UpstreamAborted,
    /// The client left, or stopped reading.
    ClientGone,
    /// The client left while it waited for a slot.
    ClientGoneQueued,
    /// A stream fell silent.
    TimeoutSilence,
    /// The whole-request limit ran out.
    TimeoutTotal,
    /// No replica could take it.
    NoReplica,
    /// The gateway was stopped before it ended.
    GatewayStopped,
}

impl Outcome {
    /// Every outcome, for metrics that start at 0.
    pub const ALL: [Self; 14] = [
        Self::Ok,
        Self::ClientError,
        Self::RejectedAuth,
        Self::RejectedLimit,
        Self::RejectedQueue,
        Self::RejectedPoison,
        Self::UpstreamError,
        Self::UpstreamAborted,
        Self::ClientGone,
        Self::ClientGoneQueued,
        Self::TimeoutSilence,
        Self::TimeoutTotal,
        Self::NoReplica,
        Self::GatewayStopped,
    ];

    /// The name in usage lines and metric labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ClientError => "client_error",
            Self::RejectedAuth => "rejected_auth",
            Self::RejectedLimit => "rejected_limit",
            Self::RejectedQueue => "rejected_queue",
            Self::RejectedPoison => "rejected_poison",
            Self::UpstreamError => "upstream_error",
            Self::UpstreamAborted => "upstream_aborted",
            Self::ClientGone => "client_gone",
            Self::ClientGoneQueued => "client_gone_queued",
            Self::TimeoutSilence => "timeout_silence",
            Self::TimeoutTotal => "timeout_total",
            Self::NoReplica => "no_replica",
            Self::GatewayStopped => "gateway_stopped",
        }
    }
}

/// Where the token counts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UsageSource {
    /// The engine reported them.
    Engine,
    /// Estimated from the prompt's size and the events seen.
    Estimated,
    /// Unknown.
    None,
}

impl UsageSource {
    /// The name in usage lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Estimated => "estimated",
            Self::None => "none",
        }
    }
}

/// One ended request. Texts a client chose (`model`, `request_id`) are bounded here; the writer escapes them.
#[derive(Debug, Clone)]
pub struct UsageLine<'a> {
    /// The client's `x-request-id` where usable, else made here.
    pub request_id: &'a str,
    /// When the request's head was complete.
    pub time: SystemTime,
    /// Name of the key; None without keys, or where it was not known.
    pub key: Option<&'a str>,
    /// Its project.
    pub project: Option<&'a str>,
    /// The model as asked, cut to 256 bytes; None where it was not read.
    pub model: Option<&'a str>,
    /// The route's public name; None where none was found (so unknown names never become labels).
    pub route: Option<&'a str>,
    /// The model name sent to the engine.
    pub upstream_model: Option<&'a str>,
    /// Pool of the last attempt.
    pub pool: Option<&'a str>,
    /// Base URL of the replica of the last attempt.
    pub replica: Option<&'a str>,
    /// Path as routed, from the closed table; None where the path is unknown.
    pub endpoint: Option<&'static str>,
    /// The client asked for a stream.
    pub stream: bool,
    /// Status sent to the client; None where none was sent.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Outcome,
    /// The error's code: ours, or the engine's.
    pub error_type: Option<&'a str>,
    /// Why the replica was chosen.
    pub reason: Option<&'static str>,
    /// `session` or `prefix` where a pin was followed.
    pub affinity: Option<&'static str>,
    /// A pin existed and was not followed.
    pub spilled: bool,
    /// Attempts made.
    pub attempts: u32,
    /// Waiting for slots, over all attempts; None where it never waited.
    pub queued: Option<Duration>,
    /// Connecting, of the last attempt; zero on a kept connection, None without an attempt.
    pub connect: Option<Duration>,
    /// From the complete request to the first event with content; streams only.
    pub ttft: Option<Duration>,
    /// From the head to the end.
    pub total: Duration,
    /// Request body bytes.
    pub bytes_in: u64,
    /// Answer body bytes sent to the client.
    pub bytes_out: u64,
    /// Token counts where known.
    pub usage: Option<Usage>,
    /// Where they come from.
    pub usage_source: UsageSource,
    /// What the tokens cost, where the route has a price.
    pub cost: Option<Micros>,
    /// Of the first choice.
    pub finish_reason: Option<&'a str>,
    /// Events with data relayed; streams only.
    pub events: Option<u64>,
}

/// Takes one line per request. Called on data-plane threads: must not block.
pub trait UsageSink: Send + Sync {
    /// Takes `line`; whatever is kept is copied.
    fn write(&self, line: &UsageLine<'_>);
}
