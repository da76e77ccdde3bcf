//! Keys that take one of a few words, the words of later versions among them.

use std::num::NonZero;
use std::path::PathBuf;

use serde_json::{Value as Json, json};
use sluicegate_core::{AffinityMode, LoadSource, Policy, WaitingCounts};
use sluicegate_proxy::plan::{Slots, StatusClass};
use toml::de::DeValue;

use super::diagnostics::Origin;
use super::nearest::nearest;
use super::read::{Node, Reader, Set, Value};
use super::values::{Refusal, Text};

/// Gives a type its words. A word after `later` is refused as not supported yet.
macro_rules! choices {
    ($($kind:ty, $what:literal {
        $first:literal => $first_value:expr, $($word:literal => $value:expr,)*
    } later { $($later:literal),* })+) => { $(
        impl Text for $kind {
            const KIND: &'static str = concat!("\"", $first, "\"", $(" or \"", $word, "\""),*);
            const EXAMPLE: &'static str = concat!("\"", $first, "\"");

            fn parse(text: &str) -> Result<Self, Refusal> {
                match text {
                    $first => Ok($first_value),
                    $($word => Ok($value),)*
                    $($later => Err(Refusal::NotYet(concat!("\"", $later, "\"").into())),)*
                    _ => Err(unknown($what, text, &[$first, $($word),*])),
                }
            }

            fn text(&self) -> String {
                $(if *self == $value { return $word.into(); })*
                $first.into()
            }

            fn text_schema() -> Json {
                json!({ "type": "string", "enum": [$first, $($word),*] })
            }
        }
    )+ };
}

pub(super) use choices;

choices! {
    HalfClose, "way to treat a half-closed client" {
        "abort" => HalfClose::Abort,
        "serve" => HalfClose::Serve,
    } later {}
    Engine, "engine" {
        "auto" => Engine::Auto,
        "vllm" => Engine::Vllm,
        "sglang" => Engine::Sglang,
        "llama_cpp" => Engine::LlamaCpp,
        "tgi" => Engine::Tgi,
        "openai" => Engine::Openai,
    } later {}
    LoadSource, "load source" {
        "both" => LoadSource::Both,
        "engine" => LoadSource::Engine,
    } later {}
    WaitingCounts, "way to count" {
        "requests" => WaitingCounts::Requests,
        "weight" => WaitingCounts::Weight,
    } later {}
    AffinityMode, "affinity mode" {
        "pins" => AffinityMode::Pins,
        "consistent" => AffinityMode::Consistent,
        "off" => AffinityMode::Off,
    } later {}
    Mode, "mode" {
        "predictive" => Mode::Predictive,
        "adaptive" => Mode::Adaptive,
        "weighted" => Mode::Weighted,
        "policy" => Mode::Policy,
        "round_robin" => Mode::RoundRobin,
    } later {}
    Policy, "policy" {
        "session_affinity" => Policy::SessionAffinity,
        "least_inflight" => Policy::LeastInflight,
        "queue_depth" => Policy::QueueDepth,
        "kv_headroom" => Policy::KvHeadroom,
        "prefix_cache" => Policy::PrefixCache,
        "predicted_ttft" => Policy::PredictedTtft,
        "decision_service" => Policy::DecisionService,
    } later {}
    StatusClass, "class of statuses" {
        "5xx" => StatusClass::Server,
        "4xx" => StatusClass::Client,
    } later {}
    OnFull, "way to treat a full writer" {
        "drop" => OnFull::Drop,
        "wait" => OnFull::Wait,
    } later {}
}

/// What happens to a client that shut down its sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HalfClose {
    Abort,
    Serve,
}

/// Whose metric names a pool's replicas use, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Engine {
    Auto,
    Vllm,
    Sglang,
    LlamaCpp,
    Tgi,
    /// A provider's API: nothing but requests is asked of it.
    Openai,
}

/// How a replica is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Predictive,
    Adaptive,
    Weighted,
    Policy,
    RoundRobin,
}

/// What the usage writer does when it cannot keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFull {
    /// Lines are dropped and counted.
    Drop,
    /// The request's end waits for the writer.
    Wait,
}

/// Requests that one replica serves at the same time: a number, or `auto`.
impl Value for Slots {
    fn kind() -> String {
        "a whole number, 1 or more, or `\"auto\"`".into()
    }

    fn schema() -> Json {
        json!({ "anyOf": [NonZero::<u32>::schema(), { "type": "string", "enum": ["auto"] }] })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let number = node.get_ref().as_integer();
        let number = number.and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok());
        match (node.get_ref(), number) {
            (DeValue::String(text), _) if text == "auto" => Some(Self::Ask),
            (DeValue::Integer(_), Some(n @ 1..)) => Some(Self::Fixed(n)),
            _ => {
                let hint = "a number such as 16, \"auto\" to ask the engine, or leave slots out for no queue";
                reader.wrong_type::<Self>(node).hint(hint);
                None
            }
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Unknown => "none".into(),
            Self::Fixed(n) => n.to_string(),
            Self::Ask => "\"auto\"".into(),
        }
    }
}

/// Where limits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Memory;

impl Text for Memory {
    const KIND: &'static str = "\"memory\"";
    const EXAMPLE: &'static str = Self::KIND;

    fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "memory" => Ok(Self),
            // The rest of the URL may hold a password.
            _ if text.starts_with("redis://") => Err(Refusal::NotYet("redis://".into())),
            _ => Err(unknown("store", text, &["memory"])),
        }
    }

    fn text(&self) -> String {
        "memory".into()
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "enum": ["memory"] })
    }
}

/// One place for usage lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Output {
    Stdout,
    Off,
    File(PathBuf),
}

impl Text for Output {
    const KIND: &'static str = "\"stdout\" or \"file:PATH\" or \"off\"";
    const EXAMPLE: &'static str = r#""file:/var/log/usage.jsonl""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "stdout" => Ok(Self::Stdout),
            "off" => Ok(Self::Off),
            _ => match text.strip_prefix("file:") {
                Some("") => {
                    Err(Refusal::wrong("the path is empty", "for example \"file:/var/log/usage.jsonl\""))
                }
                Some(path) => Ok(Self::File(path.into())),
                None => Err(unknown("output", text, &["stdout", "file:PATH", "off"])),
            },
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Stdout => "stdout".into(),
            Self::Off => "off".into(),
            Self::File(path) => format!("file:{}", path.display()),
        }
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "pattern": "^(stdout|off|file:.+)$" })
    }
}

impl Output {
    /// As it is written after `--usage`, where a path may stand by itself.
    pub(super) fn of_flag(text: &str) -> Result<Self, Refusal> {
        match text {
            "-" => Ok(Self::Stdout),
            "off" | "stdout" => Self::parse(text),
            _ => Self::parse(&format!("file:{}", text.strip_prefix("file:").unwrap_or(text))),
        }
    }
}

/// One place or a list of places.
#[derive(Debug, Clone)]
pub(super) struct Outputs(pub(super) Vec<Set<Output>>);

impl Value for Outputs {
    fn kind() -> String {
        format!("{}, or a list of them", Output::KIND)
    }

    fn schema() -> Json {
        json!({ "anyOf": [Output::schema(), Vec::<Set<Output>>::schema()] })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        if let DeValue::Array(_) = node.get_ref() {
            return Vec::read(node, reader).map(Self);
        }
        let value = Output::read(node, reader)?;
        Some(Self(vec![Set { value, origin: Origin::File(node.span()), sound: true }]))
    }

    fn show(&self) -> String {
        match self.0.as_slice() {
            [one] => one.value.show(),
            _ => self.0.show(),
        }
    }
}

pub(super) fn unknown(what: &str, text: &str, words: &[&str]) -> Refusal {
    let quoted: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
    let hint = match nearest(text, words.iter().copied()) {
        Some(word) => format!("did you mean \"{word}\"? Known: {}", quoted.join(", ")),
        None => format!("known: {}", quoted.join(", ")),
    };
    Refusal::wrong(format!("unknown {what} \"{text}\""), hint)
}
