//! What a scenario file says.

use super::amount::{Amount, Span};
use super::chooser::Chooser;
use super::measure::Measure;
use crate::fault::FaultSpec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::time::Duration;

/// One scenario of one promise.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The promise's number, as in `G7`. Several scenarios may share one: then all must pass.
    pub id: String,
    /// The promise, in a few words.
    pub promise: String,
    /// Where it runs.
    #[serde(default)]
    pub stage: Stage,
    /// The modes it runs in.
    #[serde(default = "all_modes")]
    pub modes: Vec<Chooser>,
    /// When the run ends.
    pub run_for: Span,
    /// The replicas and the gateway's settings.
    #[serde(default)]
    pub fleet: FleetSpec,
    /// Open-loop traffic: requests at given times.
    #[serde(default)]
    pub requests: Vec<Requests>,
    /// Closed-loop traffic: conversations, each turn after the answer to the one before.
    #[serde(default)]
    pub sessions: Vec<Sessions>,
    /// What goes wrong with replicas.
    #[serde(default)]
    pub faults: Vec<Planned>,
    /// Load on replicas that others send: it shows in scrapes only.
    #[serde(default)]
    pub elsewhere: Vec<Elsewhere>,
    /// Name of the traffic that is played a second time, all alone, for measures that compare.
    pub alone: Option<String>,
    /// The ranges.
    #[serde(default)]
    pub allowed: Vec<Allowed>,
}

fn all_modes() -> Vec<Chooser> {
    Chooser::ALL.to_vec()
}

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// On modelled replicas, in virtual time, decided by the core.
    #[default]
    Virtual,
    /// Through the real gateway in this process, to simulated replicas, over HTTP.
    InProcess,
    /// Not yet anywhere.
    Pending,
}

/// The replicas and the gateway's settings.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetSpec {
    /// How many.
    pub replicas: usize,
    /// What each can do: a name that [`Profile::named`](crate::engine::Profile::named) knows.
    pub profile: String,
    /// Requests of one step, in the profile's place.
    pub max_num_seqs: Option<u32>,
    /// Slots of each, where the gateway is to know them.
    pub slots: Option<u32>,
    /// Requests that wait at most.
    pub queue_length: usize,
    /// The longest wait.
    pub queue_wait: Span,
}

impl Default for FleetSpec {
    fn default() -> Self {
        Self {
            replicas: 4,
            profile: "h100".into(),
            max_num_seqs: None,
            slots: None,
            queue_length: 1000,
            queue_wait: Span(Duration::from_secs(60)),
        }
    }
}

/// Requests that come whatever becomes of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// What measures call them.
    pub name: String,
    /// When the first arrives.
    pub at: Span,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Time between two: none, and they come at once.
    #[serde(default)]
    pub every: Span,
    /// That time is drawn, exponentially with this mean.
    #[serde(default)]
    pub random: bool,
    /// Tokens of the prompt beside the system prompt.
    #[serde(default = "some_tokens")]
    pub prompt_tokens: Amount,
    /// Tokens of the answer.
    #[serde(default = "few_tokens")]
    pub output_tokens: Amount,
    /// Tokens of the system prompt, which all traffic with one shares; 0: none.
    #[serde(default)]
    pub system_tokens: u32,
    /// Each is the first turn of a session of its own.
    #[serde(default)]
    pub new_session: bool,
    /// Who asks.
    #[serde(default)]
    pub key: u32,
    /// Whether the answer is a stream.
    #[serde(default = "yes")]
    pub stream: bool,
    /// The part of them whose clients leave early, 0 to 1.
    #[serde(default)]
    pub leaving: f64,
    /// Milliseconds after which those leave.
    #[serde(default = "some_millis")]
    pub leave_after_ms: Amount,
    /// Each ends the process of a replica that takes it, which is back after this time.
    pub crashes_for: Option<Span>,
    /// Each is answered by every replica with this status.
    pub answered_with: Option<u16>,
    /// They are the same to the byte.
    #[serde(default)]
    pub identical: bool,
}

/// Conversations. A turn's prompt is the whole talk so far and a new message.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    /// What measures call them.
    pub name: String,
    /// When the first begins.
    pub at: Span,
    /// How many.
    #[serde(default = "one")]
    pub count: u32,
    /// Their beginnings lie evenly in this time.
    #[serde(default)]
    pub over: Span,
    /// Turns of each.
    pub turns: u32,
    /// Pause between an answer and the next turn.
    pub think: Span,
    /// That pause is drawn, exponentially with this mean.
    #[serde(default)]
    pub random: bool,
    /// Tokens of the system prompt, which all traffic with one shares; 0: none.
    #[serde(default)]
    pub system_tokens: u32,
    /// Tokens of each new message.
    #[serde(default = "some_tokens")]
    pub message_tokens: Amount,
    /// Tokens of each answer.
    #[serde(default = "few_tokens")]
    pub output_tokens: Amount,
    /// A talk that would grow beyond so many tokens begins anew, under the same session.
    #[serde(default = "much")]
    pub compact_at: u32,
    /// Who asks.
    #[serde(default)]
    pub key: u32,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn some_tokens() -> Amount {
    Amount::Fixed(200)
}

fn few_tokens() -> Amount {
    Amount::Fixed(20)
}

fn some_millis() -> Amount {
    Amount::Between([0, 5_000])
}

fn much() -> u32 {
    60_000
}

/// Which replica.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a replica's number, counted from 0, or the name of traffic")]
pub enum Target {
    /// By number, from 0.
    Number(u32),
    /// Where the last request of this traffic was sent, when the time comes.
    LastOf(String),
}

/// A fault that is to come. A replica has one at a time: the next takes the place of the one before.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Planned {
    /// When.
    pub at: Span,
    /// Which.
    pub replica: Target,
    /// What it becomes, as [`FaultSpec::parse`] reads it.
    #[serde(deserialize_with = "without_time")]
    pub becomes: FaultSpec,
    /// Then all is well again after this time.
    pub lasting: Option<Span>,
    /// And it becomes so again after this time of being well, over and over.
    pub again_after: Option<Span>,
    /// Until then.
    pub until: Option<Span>,
}

/// A fault as `sluicegate sim --fault` takes it, without its time.
fn without_time<'de, D: Deserializer<'de>>(text: D) -> Result<FaultSpec, D::Error> {
    let spec = FaultSpec::parse(&String::deserialize(text)?).map_err(D::Error::custom)?;
    match spec.lasts {
        None => Ok(spec),
        Some(_) => {
            Err(D::Error::custom("in a scenario the time of a fault is its key `lasting`, not `seconds`"))
        }
    }
}

/// Load that others send.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elsewhere {
    /// When it begins.
    pub at: Span,
    /// When it ends.
    pub until: Span,
    /// Where.
    pub replica: Target,
    /// Requests that run.
    #[serde(default)]
    pub running: u32,
    /// Requests that wait.
    #[serde(default)]
    pub waiting: u32,
}

/// A range for something measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    /// What is measured.
    pub measure: Measure,
    /// Of which traffic; without it of all.
    pub of: Option<String>,
    /// The other traffic of a measure that sets two against each other.
    pub beside: Option<String>,
    /// A reason of the choice, of an ejection, or an outcome, for measures that count them.
    pub what: Option<String>,
    /// A moment, for measures that look at one.
    pub at: Option<Span>,
    /// Which pins, for the measure that counts them.
    pub pins: Option<PinKind>,
    /// The least that passes.
    pub min: Option<f64>,
    /// The most that passes.
    pub max: Option<f64>,
    /// Only in these modes.
    pub modes: Option<Vec<Chooser>>,
}

/// A kind of pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PinKind {
    /// Of a session.
    Session,
    /// Of a prompt prefix.
    Prefix,
}
