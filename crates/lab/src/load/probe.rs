//! What has to be known of a server before load is sent: its model, and how long our words are for its tokenizer.

use super::talk::words;
use super::{Kind, LoadConfig};
use crate::client::{Endpoint, Outcome, Whole};
use crate::rng::SeededRng;
use serde_json::{Value, json};
use tokio::time::timeout;

/// Words of the two probes.
const FEW: usize = 32;
const MANY: usize = 288;
/// Characters of a server's words that are repeated.
const MOST_REASON: usize = 300;

/// The server is none that load can be sent to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// It did not answer.
    #[error("{path}: {outcome}")]
    NoAnswer {
        /// What was asked for.
        path: &'static str,
        /// How that ended.
        outcome: Outcome,
    },
    /// It answered, but not with 200.
    #[error("{path} answers {status}: {reason}")]
    Refused {
        /// What was asked for.
        path: &'static str,
        /// The status.
        status: u16,
        /// What the server says.
        reason: String,
    },
    /// It has no model.
    #[error("/v1/models names no model: say which with --model NAME")]
    NoModel,
}

/// A served model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name.
    pub name: String,
    /// Models that the server names.
    pub of: usize,
    /// Tokens of prompt and answer together, where the server says so.
    pub max_model_len: Option<u32>,
}

/// The first model that the server names.
///
/// # Errors
/// See [`ProbeError`].
pub async fn first_model(endpoint: &Endpoint) -> Result<Model, ProbeError> {
    const PATH: &str = "/v1/models";
    let answer = good(PATH, endpoint.get(PATH).await)?;
    let models = answer.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
    let first = models.first().ok_or(ProbeError::NoModel)?;
    let name = first.get("id").and_then(Value::as_str).ok_or(ProbeError::NoModel)?.to_owned();
    let length = first.get("max_model_len").and_then(Value::as_u64);
    Ok(Model { name, of: models.len(), max_model_len: length.and_then(|length| length.try_into().ok()) })
}

/// Tokens of one of our words, from the usage of two small requests; 1 where the server reports none.
///
/// # Errors
/// See [`ProbeError`]: a request that fails here would fail a thousand times.
pub async fn probe(endpoint: &Endpoint, config: &LoadConfig) -> Result<f64, ProbeError> {
    let path = config.kind.path();
    let mut tokens = [0.0; 2];
    for (tokens, count) in tokens.iter_mut().zip([FEW, MANY]) {
        let text = words(&mut SeededRng::new(count as u64), count);
        let mut body = json!({"model": config.model, "max_tokens": 1});
        let (name, value) = match config.kind {
            Kind::Chat => ("messages", json!([{"role": "user", "content": text}])),
            Kind::Text => ("prompt", json!(text)),
        };
        if let Some(body) = body.as_object_mut() {
            body.insert(name.to_owned(), value);
        }
        let asked = endpoint.post(path, body.to_string().into());
        let answer = timeout(config.timeout, asked).await.unwrap_or(Err(Outcome::TimedOut));
        let answer = good(path, answer)?;
        *tokens = answer.pointer("/usage/prompt_tokens").and_then(Value::as_f64).unwrap_or(0.0);
    }
    let per_word = (tokens[1] - tokens[0]) / (MANY - FEW) as f64;
    Ok(if per_word > 0.0 { per_word } else { 1.0 })
}

fn good(path: &'static str, answer: Result<Whole, Outcome>) -> Result<Value, ProbeError> {
    let Whole { status, body } = answer.map_err(|outcome| ProbeError::NoAnswer { path, outcome })?;
    let value: Value = serde_json::from_slice(&body).unwrap_or_default();
    if status == 200 {
        return Ok(value);
    }
    let told = ["/error/message", "/detail"].iter().find_map(|at| value.pointer(at)?.as_str());
    let reason: String = told.unwrap_or("no reason given").chars().take(MOST_REASON).collect();
    Err(ProbeError::Refused { path, status, reason })
}
