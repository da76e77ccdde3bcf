//! The configuration file key by key: the only place where a key's name, kind, meaning and default stand. Defaults
//! of decisions are the core's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZero;

use serde_json::Value as Json;
use sluicegate_core::{
    AffinityMode, AffinitySettings, HealthSettings, LoadSource, Micros, Policy, PoolSettings, QueueLimits,
    RetrySettings, WaitingCounts,
};
use sluicegate_proxy::plan::{KeyHash, ReplicaUrl, SessionSource, Slots, StatusClass};

use super::amounts::{Budget, Count, Money};
use super::choices::{Engine, HalfClose, Memory, Mode, OnFull, Output, Outputs};
use super::discover::Discover;
use super::docs;
use super::headers::Headers;
use super::names::{Name, Words};
use super::read::{KeyDoc, Node, Reader, Required, SectionDoc, Set, Value, joined, sections};
use super::secret::Secret;
use super::session_keys;
use super::units::{Period, Size, Span};
use super::values::{Later, ServerError};

sections! {
    /// Keys above the first section.
    File {
        /// Name of this gateway in usage lines. None: the host name.
        gateway_id: Option<Name> = None,
        /// The client side.
        listen: Listen = Listen::default(),
        /// The admin side.
        admin: Admin = Admin::default(),
        /// Sets of replicas.
        pools: Vec<Set<Pool>> = Vec::new(),
        /// Public model names.
        routes: Vec<Set<Route>> = Vec::new(),
        /// API keys of clients. None: everybody who reaches the listener may use the gateway.
        keys: Vec<Set<Key>> = Vec::new(),
        /// Where limits are kept.
        limits: Limits = Limits::default(),
        /// Usage lines.
        usage: Usage = Usage::default(),
    }

    /// The client side: the address that clients connect to, and the limits of their connections.
    Listen {
        /// Address to listen on; port 0 takes a free one. Other than loopback needs `[[keys]]` or `open = true`.
        address: SocketAddr = local(8080),
        /// Data-plane threads; 0: one per core.
        threads: u32 = 0,
        /// Lets everybody who reaches the address use the gateway. Not together with `[[keys]]`.
        open: bool = false,
        /// TLS towards clients.
        tls: Later = Later,
        /// Open client connections over all threads; further ones wait in the listen backlog.
        max_connections: NonZero<u32> = at_least_one(20_000),
        /// Largest request body, decoded where it came coded; a larger one is answered 413.
        max_body: Size = Size(64 << 20),
        /// Longest time from a request's first byte to the end of its head.
        head_timeout: Period = seconds(10),
        /// Longest time without progress while a request body is read.
        body_idle_timeout: Period = seconds(60),
        /// How long running requests may go on after a shutdown was asked for; 0s: not at all.
        drain_timeout: Span = Span(seconds(300).0),
        /// Longest time without progress while a client does not read its answer.
        write_idle_timeout: Period = seconds(60),
        /// A client that shut down its sending side: `abort` counts it as gone, `serve` still answers it.
        half_close: HalfClose = HalfClose::Abort,
    }

    /// The admin side: `/metrics`, `/healthz`, `/readyz` and `/api`.
    Admin {
        /// Address to listen on; port 0 takes a free one. Other than loopback needs a token.
        address: SocketAddr = local(9090),
        /// Bearer token that admin requests must carry, all but `/healthz` and `/readyz`.
        token: Option<Secret> = None,
    }

    /// A set of replicas that serve the same model.
    Pool {
        /// Name of the pool, in routes, usage lines and metrics.
        name: Required<Name> = Required(None),
        /// Base URLs of the replicas, `http://host[:port][/prefix]` or `https://...`; with `discover` those that stay
        /// whatever it finds.
        replicas: Vec<Set<ReplicaUrl>> = Vec::new(),
        /// Where further replicas are learned from while the gateway runs.
        discover: Discover = Discover::default(),
        /// Kind of engine. `openai` is a provider's API and is never scraped; all known metric names are read of any
        /// other kind, whichever is named.
        engine: Engine = Engine::Auto,
        /// Concurrent requests per replica, the rest waits here. `auto` asks the engine: llama.cpp and SGLang tell. None, or none told: nobody waits here.
        slots: Slots = Slots::Unknown,
        /// Bearer tokens for the replicas, scrapes included. Several rotate, and one that is refused rests.
        credentials: Vec<Set<Secret>> = Vec::new(),
        /// Further header fields of the requests to the replicas.
        headers: Headers = Headers::default(),
        /// Asks streams for token usage and takes the extra event out again (it stays in a stream that the engine
        /// codes).
        usage_injection: bool = true,
        /// Where load is read: `both` the engine's metrics and own requests; `engine` where several gateways share
        /// the replicas.
        load_source: LoadSource = PoolSettings::default().load_source,
        /// How own requests count as waiting: by `requests` or by prompt `weight`.
        waiting_counts: WaitingCounts = PoolSettings::default().waiting_counts,
        /// When a replica is taken out and comes back.
        health: Health = Health::default(),
        /// Which replica holds a session's or a prompt prefix's warm cache.
        affinity: Affinity = Affinity::default(),
    }

    /// When a replica is taken out and comes back.
    Health {
        /// Time from one scrape of a replica to the next.
        scrape_interval: Period = Period(health().scrape_interval),
        /// Longest time of one scrape.
        scrape_timeout: Period = seconds(2),
        /// Failed scrapes in a row that eject a replica.
        eject_after_failures: NonZero<u32> = at_least_one(health().eject_after_failures),
        /// Upstream failures (5xx, resets) in a row that eject a replica.
        eject_after_5xx: NonZero<u32> = at_least_one(health().eject_after_5xx),
        /// Good scrapes in a row, after the cooldown, that let an ejected replica be probed.
        recover_after_successes: NonZero<u32> = at_least_one(health().recover_after_successes),
        /// How long a probed replica must do well to be live again.
        probing_window: Span = Span(health().probing_window),
        /// Concurrent requests a probed replica takes at most.
        probing_max_inflight: u32 = health().probing_max_inflight,
        /// Shortest time out of service after a first ejection; doubles with each further one of a streak.
        cooldown: Period = Period(health().cooldown),
        /// Longest cooldown.
        cooldown_max: Period = Period(health().cooldown_max),
        /// An ejection that comes within this time of the previous one makes the streak grow.
        flap_window: Span = Span(health().flap_window),
        /// Unbroken time in service that ends a streak.
        forgive_after: Span = Span(health().forgive_after),
        /// An engine with running requests whose token counters stand still for this long is stalled.
        stall_after: Period = Period(health().stall_after),
    }

    /// Which replica holds a session's or a prompt prefix's warm cache. Decides in the modes `adaptive` and `weighted`; in
    /// `predictive` pins of sessions break ties, and the keys of prefixes and re-binding do nothing.
    Affinity {
        /// `pins` remembers; `consistent` computes, the same in several gateways; `off` does neither.
        mode: AffinityMode = affinity().mode,
        /// Lifetime of a session's pin without use.
        session_ttl: Period = Period(affinity().session_ttl),
        /// Lifetime of a prompt prefix's pin without use.
        prefix_ttl: Period = Period(affinity().prefix_ttl),
        /// Bytes of the decoded system prompt that make the prefix key.
        prefix_chars: NonZero<u32> = at_least_one(4096),
        /// How many running requests more than the least loaded replica a session's pin may have.
        session_slack: u32 = affinity().session_slack,
        /// The same for a prompt prefix's pin.
        prefix_slack: u32 = affinity().prefix_slack,
        /// Spills in a row after which a session is bound to where it went.
        rebind_after_spills: NonZero<u32> = at_least_one(affinity().rebind_after_spills),
        /// Lead in running requests at which a session is bound anew at once.
        force_rebind_gap: NonZero<u32> = at_least_one(affinity().force_rebind_gap),
        /// Pins kept at most; the least recently used go first.
        max_pins: NonZero<u32> = at_least_one(u32::try_from(affinity().max_pins).unwrap_or(u32::MAX)),
    }

    /// A public model name. Without any route, every model that the only pool's replicas serve is one.
    Route {
        /// The model name that clients ask for.
        model: Required<Name> = Required(None),
        /// Further names of it. An answer's `model` is the name that the engine knows, whichever name was asked for.
        aliases: Vec<Set<Name>> = Vec::new(),
        /// How a target and a replica are chosen: see [routing](routing.md). Left out, it follows from what else there
        /// is: `weighted` where targets have weights, `policy` where there are policies, `adaptive` where the
        /// `affinity.mode` of the first target's pool is not `pins`.
        mode: Mode = Mode::Predictive,
        /// Late binding of mode `predictive`: while every candidate has more prefill queued than this (1ms to 10s), requests
        /// wait in the gateway under `queue`, the shorter ones first. None: they do not wait for that.
        hold: Option<Period> = None,
        /// Where the session key is looked for; the first match counts. The default of mode `policy` is another one.
        session_keys: Vec<Set<SessionSource>> = session_keys::of_most_modes(),
        /// Where the requests go; at least one.
        targets: Vec<Set<Target>> = Vec::new(),
        /// Target for when no other can serve.
        fallback: Option<Fallback> = None,
        /// Scoring policies of mode `policy`.
        policies: Vec<Set<ScoringPolicy>> = Vec::new(),
        /// Time limits.
        timeouts: Timeouts = Timeouts::default(),
        /// Retries before the first byte of an answer.
        retry: Retry = Retry::default(),
        /// Waiting, for a slot in pools with `slots`, or because of `hold`.
        queue: Queue = Queue::default(),
        /// Price per million tokens.
        price: Price = Price::default(),
    }

    /// Where a route's requests go.
    Target {
        /// Name of the pool.
        pool: Required<Name> = Required(None),
        /// The engine's name of the model. None: as the client asked.
        upstream_model: Option<Name> = None,
        /// Its share of the requests in mode `weighted`, whatever its number of replicas; 0: no new requests.
        weight: Option<u32> = None,
        /// What the target's model is good at, for a decision service.
        description: Option<Words> = None,
    }

    /// Where requests go when no target can serve: none is healthy, queues are full or waits too long, or every attempt
    /// has failed. Left out, there is no fallback.
    Fallback {
        /// Name of the pool.
        pool: Required<Name> = Required(None),
        /// The engine's name of the model. None: as the client asked.
        upstream_model: Option<Name> = None,
        /// Answers of these classes are not shown either, as long as the fallback does better.
        on: Vec<Set<StatusClass>> = vec![Set::unset(StatusClass::Server)],
    }

    /// One policy of mode `policy`. Each spreads its weight over the replicas by its scores, and the largest total wins.
    ScoringPolicy {
        /// Which one. `prefix_cache` and `predicted_ttft` go by what the pool has learned of its own requests.
        kind: Required<Policy> = Required(None),
        /// What it counts. `decision_service`: 10 unless said otherwise, and 0 asks nobody.
        weight: f64 = 1.0,
        /// `decision_service`: base URL of the service, before `/v1/systemone`. This and all below: see [decision
        /// service](decision-service.md).
        base_url: Option<ReplicaUrl> = None,
        /// `decision_service`: longest time of one question; then the policy abstains.
        timeout: Period = seconds(3),
        /// `decision_service`: how long an answer is used again; 0s: not at all.
        cache_ttl: Span = Span(seconds(60).0),
        /// `decision_service`: most bytes of a conversation that it is told, from 256 to 262144.
        max_state_bytes: NonZero<u32> = at_least_one(65_536),
        /// `decision_service`: bearer tokens. Where one is refused the next is used, and it rests for 30 s.
        tokens: Vec<Set<Secret>> = Vec::new(),
        /// `decision_service`: its own model.
        model: Name = Name("jev-latest".into()),
        /// `decision_service`: what it is to go by.
        instructions: Words = Words("Pick the smallest model that can do it well.".into()),
    }

    /// Time limits of a request.
    Timeouts {
        /// To connect to a replica.
        connect: Period = seconds(2),
        /// Between bytes of a stream, after its first.
        stream_silence: Period = seconds(60),
        /// The whole request, from its head to its last byte.
        total: Period = seconds(600),
    }

    /// Retries on another replica, before the first byte of an answer.
    Retry {
        /// Attempts per request, the first included.
        attempts: NonZero<u32> = at_least_one(retry().attempts),
        /// Statuses of a replica that are retried.
        on_status: Vec<Set<ServerError>> = on_status(),
        /// Retries as a share of the requests of the last 10 s, 0 to 1; a few per second are always allowed.
        budget: f64 = retry().budget,
        /// Tries a 429 once more at a replica with room.
        spill_429: bool = retry().spill_429,
        /// How long a request that failed two replicas alike is refused.
        poison_ttl: Period = seconds(60),
        /// Such requests remembered at most; 0: such requests are not refused.
        poison_entries: u32 = 1000,
        /// Most bytes of an answer held back before its first complete event.
        hold_limit: Size = Size(64 << 10),
    }

    /// Waiting for a slot, where the pool has `slots`.
    Queue {
        /// Requests of the route that wait at most; 0: nobody waits. The next one is answered 429, or takes the place of
        /// the newest of a lower class, or of a key that has at least two more waiting: then that one is.
        max_length: u32 = u32::try_from(QueueLimits::default().max_length).unwrap_or(u32::MAX),
        /// Longest wait; then the answer is 503.
        max_wait: Period = Period(QueueLimits::default().max_wait),
    }

    /// Price per million tokens, for the usage line and for budgets. At most six decimals, kept exactly.
    Price {
        /// Prompt tokens that were not cached.
        prompt: Money = Money(Micros(0)),
        /// Prompt tokens that were cached.
        cached: Money = Money(Micros(0)),
        /// Generated tokens.
        completion: Money = Money(Micros(0)),
    }

    /// An API key of a client. The file holds its hash and never the key itself.
    Key {
        /// Name in usage lines and metrics.
        name: Required<Name> = Required(None),
        /// SHA-256 of the key, printed by `sluicegate key new` or `sluicegate key hash`.
        hash: Required<KeyHash> = Required(None),
        /// Project in usage lines; keys of one project share warm prompt prefixes.
        project: Option<Name> = None,
        /// The routes it may use, by model name or alias; `*`: every one.
        routes: Vec<Set<Name>> = vec![Set::unset(Name("*".into()))],
        /// Its class in queues: higher goes first, whatever waits below.
        priority: i32 = 0,
        /// Requests at the same time. This and all limits below: none, no limit.
        max_concurrent: Option<Count> = None,
        /// Requests begun in any 60 s, whatever their end.
        requests_per_minute: Option<Count> = None,
        /// Prompt and generated tokens in any 60 s.
        tokens_per_minute: Option<Count> = None,
        /// Prompt and generated tokens in a calendar day (UTC).
        tokens_per_day: Option<Count> = None,
        /// Prompt and generated tokens in a calendar month (UTC).
        tokens_per_month: Option<Count> = None,
        /// Cost at the routes' prices in a calendar day (UTC).
        cost_per_day: Option<Budget> = None,
        /// Cost at the routes' prices in a calendar month (UTC).
        cost_per_month: Option<Budget> = None,
    }

    /// Limits of keys.
    Limits {
        /// `memory`, or a Redis URL to share limits between gateways (not supported yet).
        store: Memory = Memory,
    }

    /// Usage lines: one JSON line per request.
    Usage {
        /// Where they are written; a list for both.
        output: Outputs = Outputs(vec![Set::unset(Output::Stdout)]),
        /// Size at which the file is put aside and a new one begun.
        rotate: Size = Size(100 << 20),
        /// When the writer cannot keep up: `drop` counts the lost lines, `wait` slows requests down.
        on_full: OnFull = OnFull::Drop,
    }
}

fn health() -> HealthSettings {
    HealthSettings::default()
}

fn affinity() -> AffinitySettings {
    AffinitySettings::default()
}

fn retry() -> RetrySettings {
    RetrySettings::default()
}

fn on_status() -> Vec<Set<ServerError>> {
    retry().on_status.into_iter().map(|status| Set::unset(ServerError(status))).collect()
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

fn seconds(n: u64) -> Period {
    Period(std::time::Duration::from_secs(n))
}

/// `n` where the file can hold it; the core's own defaults are above zero.
fn at_least_one(n: u32) -> NonZero<u32> {
    NonZero::new(n).unwrap_or(NonZero::<u32>::MIN)
}
