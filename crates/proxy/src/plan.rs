//! The validated configuration as the data plane reads it: immutable, shared, resolved once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::{
    KeyLimits, Mode, Policies, PoolSettings, Price, QueueLimits, RetrySettings, Scoring, Shares, TargetIndex,
};

/// Everything that [`crate::Gateway::start`] needs to know.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of this gateway in usage lines.
    pub gateway_id: Arc<str>,
    /// The client side.
    pub listen: ListenPlan,
    /// The pools, each at least one replica.
    pub pools: Vec<PoolPlan>,
    /// The routes of the configuration file, or none where the models are asked from the engines.
    pub routes: RoutesPlan,
    /// Who may use the gateway.
    pub keys: KeysPlan,
}

/// Who may use the gateway.
#[derive(Debug, Clone)]
pub enum KeysPlan {
    /// Everybody who reaches the listener, without limits.
    Open,
    /// Who has one of these keys.
    Named(Vec<KeyPlan>),
}

/// One API key.
#[derive(Debug, Clone)]
pub struct KeyPlan {
    /// Name in usage lines and metrics.
    pub name: Arc<str>,
    /// Of the key.
    pub hash: KeyHash,
    /// Project in usage lines; keys of one project share warm prefixes.
    pub project: Option<Arc<str>>,
    /// The routes it may use.
    pub routes: AllowedRoutes,
    /// Its class in queues: higher goes first.
    pub priority: i32,
    /// What it may use up.
    pub limits: KeyLimits,
}

/// The routes a key may use.
#[derive(Debug, Clone)]
pub enum AllowedRoutes {
    /// Every one.
    All,
    /// Those with these public model names (an alias is not a name of its own here).
    Only(Vec<Arc<str>>),
}

/// The listener and the limits of client connections.
#[derive(Debug, Clone)]
pub struct ListenPlan {
    /// Address to bind; port 0 takes a free one.
    pub address: SocketAddr,
    /// Data-plane threads, at least 1.
    pub threads: usize,
    /// Open client connections over all threads; further ones wait in the listen backlog.
    pub max_connections: usize,
    /// Largest request body in bytes.
    pub max_body: usize,
    /// From a request's first byte (or the connection's start) to the end of its head.
    pub head_timeout: Duration,
    /// Without progress while a request body is read.
    pub body_idle_timeout: Duration,
    /// Without progress while the client does not read its answer.
    pub write_idle_timeout: Duration,
    /// How long running requests may go on after a shutdown was asked for.
    pub drain_timeout: Duration,
    /// True: a client that shut down its sending side is still served.
    pub serve_half_closed: bool,
}

/// Where the routes come from.
#[derive(Debug, Clone)]
pub enum RoutesPlan {
    /// Named in the configuration.
    Fixed(Vec<RoutePlan>),
    /// Every model that the replicas of pool 0 say they serve is a route of its own, made from this template
    /// (its names are ignored).
    AskEngines(Box<RoutePlan>),
}

/// One public model name.
#[derive(Debug, Clone)]
pub struct RoutePlan {
    /// The public model name.
    pub model: Arc<str>,
    /// Further names of it.
    pub aliases: Vec<Arc<str>>,
    /// How a target and a replica are chosen.
    pub mode: RouteMode,
    /// Where its requests go: at least one.
    pub targets: Vec<TargetPlan>,
    /// Where they go when no target can serve.
    pub fallback: Option<FallbackPlan>,
    /// The decision service that is asked for a model before a choice, where the mode's policies have one with a weight.
    pub decision: Option<DecisionPlan>,
    /// Ordered chain of session key sources; the first match wins.
    pub session_keys: Vec<SessionSource>,
    /// Bytes of decoded system prompt that the prefix key reads.
    pub prefix_chars: usize,
    /// Time limits.
    pub timeouts: Timeouts,
    /// Retries before the first byte.
    pub retry: RetrySettings,
    /// Most bytes of an answer held back before its first complete event.
    pub hold_limit: usize,
    /// Bounds of its requests that wait for a slot.
    pub queue: QueueLimits,
    /// What its tokens cost.
    pub price: Price,
    /// How long a request that failed two replicas alike is refused for.
    pub poison_ttl: Duration,
    /// How many such requests are remembered; 0 switches the guard off.
    pub poison_entries: usize,
}

/// How a route chooses.
#[derive(Debug, Clone, PartialEq)]
pub enum RouteMode {
    /// By load and warm caches, over all targets.
    Adaptive,
    /// A target by its share, then as in `Adaptive`.
    Weighted(Shares),
    /// By predicted cost, over all targets. Their pools' settings must ask for predictions.
    Predictive {
        /// Late binding: requests wait while every candidate has more prefill queued than this.
        hold: Option<Duration>,
    },
    /// By scores.
    Policy(Policies),
    /// One LIVE replica after the other.
    RoundRobin,
}

impl RouteMode {
    /// Its name in configurations.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Weighted(_) => "weighted",
            Self::Predictive { .. } => "predictive",
            Self::Policy(_) => "policy",
            Self::RoundRobin => "round_robin",
        }
    }

    /// The weight of a target; None: the mode knows none.
    #[must_use]
    pub fn weight(&self, target: TargetIndex) -> Option<u32> {
        match self {
            Self::Weighted(shares) => Some(shares.of(target)),
            Self::Adaptive | Self::Predictive { .. } | Self::Policy(_) | Self::RoundRobin => None,
        }
    }

    /// What is to be queued everywhere for requests to wait.
    #[must_use]
    pub fn hold(&self) -> Option<Duration> {
        match self {
            Self::Predictive { hold } => *hold,
            Self::Adaptive | Self::Weighted(_) | Self::Policy(_) | Self::RoundRobin => None,
        }
    }

    /// The mode as the decision core takes it.
    #[must_use]
    pub fn of_request(&self) -> Mode<'_> {
        match self {
            Self::Adaptive => Mode::Adaptive,
            Self::Weighted(shares) => Mode::Weighted(shares),
            Self::Predictive { .. } => Mode::Predictive,
            Self::Policy(policies) => Mode::Policy(Scoring { policies, decision: None }),
            Self::RoundRobin => Mode::RoundRobin,
        }
    }
}

/// One (pool, model) of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetPlan {
    /// Index into [`Plan::pools`].
    pub pool: usize,
    /// The engine's name of the model, where it differs from what the client asked for.
    pub upstream_model: Option<Arc<str>>,
    /// What the target is good at: the criterion that a decision service is told.
    pub description: Option<Arc<str>>,
}

/// What the data plane has to know of a decision service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecisionPlan {
    /// Its number, as [`crate::Decisions`] knows it.
    pub service: usize,
    /// Most bytes of a conversation that it is told.
    pub max_state_bytes: usize,
}

/// Where requests go when no target can serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FallbackPlan {
    /// Never a candidate otherwise.
    pub target: TargetPlan,
    /// Answers of these classes are not shown while the fallback can do better.
    pub on: Vec<StatusClass>,
}

/// The first digit of a status, of an answer that is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusClass {
    /// 400 to 499: the client's to mend.
    Client,
    /// 500 to 599.
    Server,
}

impl StatusClass {
    /// The class of a status; `None` where it is no error.
    #[must_use]
    pub fn of(status: u16) -> Option<Self> {
        match status {
            400..=499 => Some(Self::Client),
            500..=599 => Some(Self::Server),
            _ => None,
        }
    }
}

/// One source of a session key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSource {
    /// A request header, name in lower case.
    Header(Box<str>),
    /// A top-level string member of the body.
    Body(Box<str>),
    /// The same, on `/v1/responses` and `/v1/messages` alone.
    BodyOfTalks(Box<str>),
    /// `auto:conversation`: the talk's own first words.
    Conversation,
}

/// Time limits of one route.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// To connect to a replica.
    pub connect: Duration,
    /// Between bytes of a stream, after its first.
    pub stream_silence: Duration,
    /// The whole request, from its head to its last byte.
    pub total: Duration,
}

/// One pool of replicas.
#[derive(Debug, Clone)]
pub struct PoolPlan {
    /// Name in usage lines and metrics.
    pub name: Arc<str>,
    /// Base URLs of the replicas that it always has; others come by [`crate::Pool::set_replicas`].
    pub replicas: Vec<ReplicaUrl>,
    /// Decision settings: health, affinity, load.
    pub settings: PoolSettings,
    /// Time limit of one scrape.
    pub scrape_timeout: Duration,
    /// Ask streams for usage and take the extra event out again.
    pub usage_injection: bool,
    /// Sent to the replicas as a bearer token, scrapes included. Several rotate, and one that is refused rests.
    pub credentials: Vec<Credential>,
    /// Further header fields of every request to the replicas: names in lower case, none of them one that the gateway
    /// writes itself.
    pub headers: Vec<(Arc<str>, Credential)>,
    /// Requests that one replica serves at the same time.
    pub slots: Slots,
    /// A provider's API rather than an engine of our own: never scraped.
    pub hosted: bool,
}

/// One replica as a source of replicas tells of it. Its name is that of its URL: [`ReplicaUrl::text`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaPlan {
    /// Base URL.
    pub url: ReplicaUrl,
    /// Header fields of every request to this replica, besides the pool's: names in lower case.
    pub headers: Vec<(Arc<str>, Credential)>,
}

/// A secret that is sent to replicas. Its `Debug` form does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential(pub Arc<str>);

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(...)")
    }
}

/// Whether a header field of this name (in lower case) says who asks.
#[must_use]
pub fn carries_a_secret(name: &str) -> bool {
    ["authorization", "key", "token", "secret", "password", "cookie"].iter().any(|part| name.contains(part))
}

/// SHA-256 of a client's key. It does not show in debug output: a key that was not made by chance can be guessed from it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash(pub [u8; 32]);

impl std::fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHash(...)")
    }
}

/// Requests that one replica serves at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slots {
    /// Not known: nobody waits here.
    Unknown,
    /// Stated.
    Fixed(u32),
    /// Asked of engines that tell.
    Ask,
}

/// A parsed `http[s]://host[:port][/prefix]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ReplicaUrl {
    /// Host name or address (no brackets).
    pub host: Arc<str>,
    /// Port, 80 (with TLS 443) where the URL has none.
    pub port: u16,
    /// TLS is spoken.
    pub tls: bool,
    /// `Host` field: `host[:port]` as in the URL.
    pub authority: Arc<str>,
    /// Path prefix without a trailing slash; usually empty.
    pub prefix: Arc<str>,
    /// The URL as given, without a trailing slash: the replica's name.
    pub text: Arc<str>,
}

/// Why a replica URL was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No scheme or an unknown one.
    #[error("a replica URL starts with http:// or https:// (for example http://10.0.0.11:8000)")]
    Scheme,
    /// Empty host, user info, bad port or the like.
    #[error("the host or port cannot be read")]
    Host,
    /// A query or fragment.
    #[error("a replica URL has no query or fragment")]
    Tail,
}

impl std::str::FromStr for ReplicaUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (tls, rest) = match text.split_once("://") {
            Some((s, rest)) if s.eq_ignore_ascii_case("http") => (false, rest),
            Some((s, rest)) if s.eq_ignore_ascii_case("https") => (true, rest),
            _ => return Err(UrlError::Scheme),
        };
        let rest = rest.trim_end_matches('/');
        if rest.contains(['?', '#']) {
            return Err(UrlError::Tail);
        }
        let (authority, prefix) = match rest.find('/') {
            Some(i) => rest.split_at(i),
            None => (rest, ""),
        };
        let parsed: http::uri::Authority = authority.parse().map_err(|_| UrlError::Host)?;
        if parsed.host().is_empty() || authority.contains('@') || prefix.contains([' ', '\r', '\n']) {
            return Err(UrlError::Host);
        }
        if authority.len() > parsed.host().len() && parsed.port_u16().is_none() {
            return Err(UrlError::Host);
        }
        Ok(Self {
            host: parsed.host().trim_start_matches('[').trim_end_matches(']').into(),
            port: parsed.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            tls,
            authority: authority.into(),
            prefix: prefix.into(),
            text: text.trim_end_matches('/').into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replica_urls_are_taken_apart() {
        for (text, host, port, prefix) in [
            ("http://10.0.0.11:8000", "10.0.0.11", 8000, ""),
            ("http://10.0.0.11:8000/", "10.0.0.11", 8000, ""),
            ("http://engine", "engine", 80, ""),
            ("HTTP://[::1]:9/a/b/", "::1", 9, "/a/b"),
            ("https://api.example.com/v2", "api.example.com", 443, "/v2"),
        ] {
            let url: ReplicaUrl = text.parse().unwrap();
            assert_eq!((&*url.host, url.port, &*url.prefix), (host, port, prefix), "{text}");
        }
    }

    #[test]
    fn odd_replica_urls_are_refused() {
        for (text, error) in [
            ("10.0.0.11:8000", UrlError::Scheme),
            ("ftp://x", UrlError::Scheme),
            ("http://", UrlError::Host),
            ("http://:80", UrlError::Host),
            ("http://u:p@x", UrlError::Host),
            ("http://x:99999", UrlError::Host),
            ("http://x:", UrlError::Host),
            ("http://x?a", UrlError::Tail),
        ] {
            assert_eq!(text.parse::<ReplicaUrl>(), Err(error), "{text}");
        }
    }
}
