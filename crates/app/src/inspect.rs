//! What the admin side may ask a running gateway. The seam lets metrics and admin API be tested on plain data.

use std::pin::Pin;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sluicegate_core::{Health, KeyLimits, KeyUsage, Micros, NoReplica, PoolSnapshot};

/// A running gateway, read and steered from outside the data plane.
pub trait Inspect: Send + Sync + 'static {
    /// Every pool's name and state now.
    fn pools(&self) -> Vec<(Arc<str>, PoolSnapshot)>;
    /// Every pool's queue now, in the order of the pools.
    fn queues(&self) -> Vec<QueueView>;
    /// Every key's limits and what it has used, in the order of the configuration; none where the gateway is open.
    fn keys(&self) -> Vec<KeyState>;
    /// Every route now, sorted by its public model name.
    fn routes(&self) -> Vec<RouteState>;
    /// Whether requests are welcome.
    fn readiness(&self) -> Readiness;
    /// Connections and requests now.
    fn gauges(&self) -> GaugesView;
    /// What would be done with a request, reserving nothing.
    ///
    /// # Errors
    /// The request would be refused before a replica is chosen.
    fn explain<'a>(&'a self, request: &'a ExplainRequest) -> Explaining<'a>;
    /// Drains a replica, or ends its drain.
    ///
    /// # Errors
    /// There is no such pool or replica.
    fn set_draining(&self, pool: &str, replica: &str, draining: bool) -> Result<(), NotFound>;
}

/// An explanation on its way: a decision service may have to be waited for.
pub type Explaining<'a> = Pin<Box<dyn Future<Output = Result<ExplainedView, RefusedView>> + Send + 'a>>;

/// Name of the route to engines that have no list of models: it takes every name.
pub const ANY_MODEL: &str = "*";

/// A route and where it leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteState {
    /// Its public model name, or [`ANY_MODEL`].
    pub model: String,
    /// Its mode.
    pub mode: &'static str,
    /// Where its requests go.
    pub targets: Vec<TargetState>,
    /// Where they go when no target can serve: pool, `/`, model.
    pub fallback: Option<String>,
}

/// A target of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TargetState {
    /// Pool, `/`, model; without a model where it is asked for whatever the client asks for.
    pub name: String,
    /// Its share, where the route has shares.
    pub weight: Option<u32>,
}

/// Whether requests are welcome; a refusal has its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Every pool can take a request.
    Ready,
    /// A shutdown was asked for.
    Draining,
    /// These pools have no replica that can take a request.
    NoReplica(Vec<Arc<str>>),
    /// The engines have not yet told which models they serve.
    NoModel,
}

impl Readiness {
    /// Why requests are not welcome.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Ready => None,
            Self::Draining => Some("shutting down".into()),
            Self::NoReplica(pools) => Some(format!("no replica can take a request in: {}", pools.join(", "))),
            Self::NoModel => Some("no model is known yet".into()),
        }
    }
}

/// What a drain could not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// No pool of that name.
    #[error("there is no pool of that name")]
    Pool,
    /// No replica of that name in the pool.
    #[error("the pool has no replica of that name (a replica's name is its base URL)")]
    Replica,
}

/// Connections and requests; all but the totals are 0 on an idle gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GaugesView {
    /// Client connections open now.
    pub open_connections: u64,
    /// Requests between head and end.
    pub open_requests: u64,
    /// Client connections accepted so far.
    pub accepted_total: u64,
    /// Request heads refused before they had a route or a usage line.
    pub refused_heads_total: u64,
}

/// One API key: what it may do and what it has used. Neither the key nor its hash is shown to anybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyState {
    /// Its name.
    pub name: Arc<str>,
    /// Its project.
    pub project: Option<Arc<str>>,
    /// The routes that it may use; None: every one.
    pub routes: Option<Vec<Arc<str>>>,
    /// Its class in queues.
    pub priority: i32,
    /// What it may use up.
    pub limits: KeyLimits,
    /// What it has used, estimates of running requests included.
    pub usage: KeyUsage,
}

/// The requests of one pool that wait, and what became of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct QueueView {
    /// The pool's name.
    pub pool: String,
    /// Waiting requests of all routes.
    pub waiting: usize,
    /// Of those: held back by their route's `hold` alone.
    pub held: usize,
    /// How long the oldest of them has waited; 0 where none waits.
    pub oldest_seconds: f64,
    /// Every route of the pool, also those that nobody waits for.
    pub routes: Vec<RouteQueueView>,
    /// Keys that wait, those with the most waiting requests first: the first 100.
    pub keys: Vec<KeyQueueView>,
    /// Places given to requests that had waited, so far.
    pub grants_total: u64,
    /// Requests turned away because as many waited as may, so far.
    pub refused_total: u64,
    /// Requests that had waited too long, so far.
    pub timeouts_total: u64,
    /// Waiting requests whose last possible replica went away, so far.
    pub denied_total: u64,
    /// Clients that left while their request waited, so far.
    pub left_total: u64,
    /// Requests that went on before `hold` allowed it, since the queue was full or their wait at its end, so far.
    pub sent_on_total: u64,
}

/// A route's waiting requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouteQueueView {
    /// Public model name; empty for what still waits for a route that is gone.
    pub route: String,
    /// Waiting requests of all classes.
    pub waiting: usize,
    /// Of those: held back by `hold` alone.
    pub held: usize,
    /// How long the oldest of them has waited.
    pub oldest_seconds: f64,
    /// Those of each class, where any wait.
    pub classes: Vec<ClassQueueView>,
}

/// A route's waiting requests of one class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassQueueView {
    /// The class: higher goes first.
    pub priority: i32,
    /// Waiting requests.
    pub waiting: usize,
    /// Of those: held back by `hold` alone.
    pub held: usize,
    /// How long the oldest of them has waited.
    pub oldest_seconds: f64,
}

/// A key's waiting requests of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyQueueView {
    /// The key's name; None where the gateway is open.
    pub key: Option<String>,
    /// The class.
    pub priority: i32,
    /// Waiting requests, retries apart.
    pub waiting: usize,
    /// Tokens it was served beyond the key of its class that was served least.
    pub served_tokens: u64,
}

/// A request to explain, as a client would send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRequest {
    /// Method, for example `POST`.
    pub method: String,
    /// Path, for example `/v1/chat/completions`.
    pub target: String,
    /// Header names and values.
    pub headers: Vec<(String, String)>,
    /// Body bytes.
    pub body: Vec<u8>,
    /// Name of the key that sends it; None: whoever may use every route.
    pub key: Option<String>,
    /// Its decision service is asked. False: only an answer that is known already counts.
    pub decide: bool,
}

/// What would be done with a request, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedView {
    /// The route's public name.
    pub route: String,
    /// Name of the key that was asked for; None: whoever may use every route.
    pub key: Option<String>,
    /// The route's targets, its fallback last: pool, `/`, model.
    pub targets: Vec<String>,
    /// What the route's decision service says, where it is asked about such a request.
    pub decision: Option<DecisionView>,
    /// Hash of the session key, in hexadecimal digits, where there is one.
    pub session: Option<String>,
    /// Hash of the prefix key, likewise.
    pub prefix: Option<String>,
    /// Size of the prompt as estimated from its text.
    pub estimated_prompt_tokens: u64,
    /// Where it would go.
    pub outcome: OutcomeView,
    /// Every replica with the numbers seen.
    pub candidates: Vec<CandidateView>,
    /// The steps of the choice, in words.
    pub steps: Vec<String>,
}

/// What a decision service says about a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionView {
    /// Each model that it is asked about, and its probability; 0 without an answer.
    pub models: Vec<(String, f64)>,
    /// How sure it is: the policy's weight is multiplied by it.
    pub confidence: f64,
    /// Why there is no answer; `not_asked` where none is known and the explanation was not to ask.
    pub abstains: Option<String>,
}

/// Where a request would go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeView {
    /// To this replica.
    Replica {
        /// Its base URL.
        name: String,
        /// The target; None: whichever of several in its pool has its turn.
        target: Option<String>,
        /// Why it.
        reason: String,
        /// A pin existed and would not be followed.
        spilled: bool,
    },
    /// Nowhere.
    NoReplica {
        /// Why.
        reason: String,
    },
    /// It would wait for a slot.
    Waits {
        /// Requests that wait now and are served before it, if nobody else comes or leaves.
        ahead: u64,
    },
    /// It would be held back: every candidate has more prefill queued than its route's `hold`.
    Held {
        /// As in `Waits`.
        ahead: u64,
    },
    /// It would be refused with `queue_full`: as many of its route wait as may.
    QueueFull {
        /// What its `Retry-After` would say.
        retry_after_seconds: u32,
    },
}

/// One replica as the choice saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CandidateView {
    /// Base URL.
    pub name: String,
    /// Whose replica.
    pub target: String,
    /// Health state.
    pub state: String,
    /// Effective running requests (routing.md 2).
    pub effective_running: f64,
    /// Effective waiting requests (routing.md 2).
    pub effective_waiting: f64,
    /// The gateway's own open requests there.
    pub inflight: u32,
    /// Why it was left out; None for a candidate.
    pub excluded: Option<String>,
    /// Mode `policy`: what each policy adds to its total. Empty in other modes, and where it was left out.
    pub policies: Vec<PartView>,
    /// Mode `predictive`: what the request would cost there. None in other modes, and where it was left out.
    pub predicted: Option<PredictedView>,
}

/// A cost: `wait + prefill * (1 + delays) + 0.05 * slowed`, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictedView {
    /// The sum.
    pub cost: f64,
    /// Until the engine begins with the request.
    pub wait: f64,
    /// Its own prefill, without what is forgiven.
    pub prefill: f64,
    /// Prefill that does not count, for a shared beginning to spread.
    pub forgiven: f64,
    /// What a second of its prefill delays those who come after.
    pub delays: f64,
    /// By which decoding is slowed, its own and that of others.
    pub slowed: f64,
    /// Blocks of the prompt that the replica is taken to have in its cache.
    pub known_blocks: u32,
}

/// What one policy adds to a candidate's total.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartView {
    /// The policy.
    pub policy: String,
    /// Its part of the total, of as much as its weight.
    pub part: f64,
}

/// A request that would be refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedView {
    /// Status of the answer.
    pub status: u16,
    /// The error's code.
    pub code: String,
    /// The error's message.
    pub message: String,
}

/// Money in the unit that prices are configured in. Shown, never summed: 15 digits are exact.
#[must_use]
pub fn amount(money: Micros) -> f64 {
    money.0 as f64 / 1e6
}

/// Every health state, for metrics that show one series for each.
pub const HEALTH_STATES: [Health; 5] =
    [Health::Starting, Health::Live, Health::Probing, Health::Ejected, Health::Draining];

/// The state's name in metrics, API and tables.
#[must_use]
pub const fn health_name(health: Health) -> &'static str {
    match health {
        Health::Starting => "starting",
        Health::Live => "live",
        Health::Probing => "probing",
        Health::Ejected => "ejected",
        Health::Draining => "draining",
    }
}

/// The name of 'no replica' and its cause.
#[must_use]
pub const fn no_replica_name(cause: NoReplica) -> &'static str {
    match cause {
        NoReplica::NoneKnown => "none_known",
        NoReplica::NotReady => "not_ready",
        NoReplica::AllTried => "all_tried",
    }
}
