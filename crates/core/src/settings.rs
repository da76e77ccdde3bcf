//! What can be configured. Each `Default` is the default of the routing design, written once, here.

use std::time::Duration;

/// The health rules' numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthSettings {
    /// Longest time between two scrapes of a replica; the jitter only shortens it.
    pub scrape_interval: Duration,
    /// Failed scrapes in a row that eject a LIVE replica.
    pub eject_after_failures: u32,
    /// Upstream failures in a row that eject a LIVE replica.
    pub eject_after_5xx: u32,
    /// Good scrapes in a row that an EJECTED replica needs to return.
    pub recover_after_successes: u32,
    /// How long a PROBING replica must stay without a fault.
    pub probing_window: Duration,
    /// Requests in flight that a PROBING replica may hold.
    pub probing_max_inflight: u32,
    /// Cooldown of the first ejection of a streak; doubled by each further one.
    pub cooldown: Duration,
    /// The longest cooldown.
    pub cooldown_max: Duration,
    /// An ejection that follows the previous one within this time lengthens the streak.
    pub flap_window: Duration,
    /// Unbroken LIVE time that ends a streak.
    pub forgive_after: Duration,
    /// How long a busy engine may show no progress before it counts as stalled.
    pub stall_after: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            scrape_interval: Duration::from_secs(3),
            eject_after_failures: 2,
            eject_after_5xx: 3,
            recover_after_successes: 2,
            probing_window: Duration::from_secs(15),
            probing_max_inflight: 1,
            cooldown: Duration::from_secs(30),
            cooldown_max: Duration::from_secs(300),
            flap_window: Duration::from_secs(600),
            forgive_after: Duration::from_secs(600),
            stall_after: Duration::from_secs(60),
        }
    }
}

/// How sessions and prompt prefixes find their warm replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AffinityMode {
    /// A table remembers where each key went.
    Pins,
    /// No table: the rendezvous-hash winner, the same at every gateway.
    Consistent,
    /// Load alone decides.
    Off,
}

/// The affinity rules' numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct AffinitySettings {
    /// Table, hash or nothing.
    pub mode: AffinityMode,
    /// Lifetime of a session pin without use.
    pub session_ttl: Duration,
    /// Lifetime of a prefix pin without use.
    pub prefix_ttl: Duration,
    /// How many requests a session's replica may be above the least loaded one and still be followed.
    pub session_slack: u32,
    /// The same for a prefix pin.
    pub prefix_slack: u32,
    /// Spills in a row that re-bind a session.
    pub rebind_after_spills: u32,
    /// Requests above the least loaded replica from which a pin is re-bound at once.
    pub force_rebind_gap: u32,
    /// Most pins of both kinds held; the least recently used go first. Zero holds none.
    pub max_pins: usize,
}

impl Default for AffinitySettings {
    fn default() -> Self {
        Self {
            mode: AffinityMode::Pins,
            session_ttl: Duration::from_secs(3600),
            prefix_ttl: Duration::from_secs(300),
            session_slack: 1,
            prefix_slack: 0,
            rebind_after_spills: 3,
            force_rebind_gap: 3,
            max_pins: 200_000,
        }
    }
}

/// How own requests beyond what the engine reports as running count as waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitingCounts {
    /// By number, and only beyond the replica's slots.
    #[default]
    Requests,
    /// By weight: the literal published formula.
    Weight,
}

/// Where the load numbers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadSource {
    /// The larger of the engine's numbers and our own: one gateway.
    #[default]
    Both,
    /// The engine's numbers and what was sent since: several gateways share the replicas.
    Engine,
}

/// Everything one pool is configured with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolSettings {
    /// Health rules.
    pub health: HealthSettings,
    /// Affinity rules.
    pub affinity: AffinitySettings,
    /// Form of the waiting estimate.
    pub waiting_counts: WaitingCounts,
    /// Source of the running estimate.
    pub load_source: LoadSource,
    /// Learn what it takes to predict costs: some route of the pool chooses by them.
    pub predict: bool,
}

/// When a failed attempt may be followed by another.
#[derive(Clone, Debug, PartialEq)]
pub struct RetrySettings {
    /// Most attempts of one request, the first included.
    pub attempts: u32,
    /// Replica statuses that are retried. A 4xx in this list has no effect.
    pub on_status: Vec<u16>,
    /// Share of the last 10 s of requests that may be retries.
    pub budget: f64,
    /// Retries per second that are always allowed.
    pub budget_per_second: u32,
    /// A 429 is tried once at a replica with room.
    pub spill_429: bool,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            attempts: 3,
            on_status: vec![500, 502, 503, 504],
            budget: 0.2,
            budget_per_second: 10,
            spill_429: true,
        }
    }
}
