//! `/v1/embeddings`. vLLM has it only on an embedding model; the simulated replica is both at once.

use super::ask::{check_model, missing, object, wrong_type};
use super::body::Answer;
use super::generate::Host;
use super::problem::Problem;
use super::realtime::{Ending, Piece};
use super::tokens::{self, Tally};
use super::wall_clock::unix_seconds;
use crate::engine::Request;
use crate::rng::SeededRng;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Map, Value, json};

/// Numbers of a vector unless `dimensions` says otherwise.
const DIMENSIONS: u64 = 384;
/// More than any model has.
const MOST_DIMENSIONS: u64 = 65_536;
/// Texts of one request, at most.
const MOST_INPUTS: usize = 2048;

impl Host {
    /// One prefill for each text; the vectors follow from the texts alone.
    pub(super) async fn embed(&self, body: &[u8]) -> Result<Answer, Problem> {
        let fields = object(body)?;
        let inputs = inputs(&fields, self.config.profile.block_tokens)?;
        check_model(&fields, &self.config.model)?;
        let dimensions = match fields.get("dimensions").filter(|value| !value.is_null()) {
            None => DIMENSIONS,
            Some(value) => match value.as_u64() {
                Some(asked) if (1..=MOST_DIMENSIONS).contains(&asked) => asked,
                _ => return Err(Problem::value("dimensions must be from 1 to 65536.", "dimensions", value)),
            },
        };
        let prompt: u64 = inputs.iter().map(|tally| u64::from(tally.count())).sum();
        let packed = match fields.get("encoding_format").and_then(Value::as_str) {
            None | Some("float") => false,
            Some("base64") => true,
            Some(other) => {
                let message = "encoding_format must be float or base64.";
                return Err(Problem::value(message, "encoding_format", other));
            }
        };
        let vector = |tally: &Tally| vector(tally.fingerprint() ^ self.config.seed, dimensions, packed);
        let vectors: Vec<Value> = inputs.iter().map(vector).collect();
        self.prefill(inputs).await?;
        let data: Vec<String> = vectors
            .into_iter()
            .enumerate()
            .map(|(index, vector)| {
                format!(r#"{{"index":{index},"object":"embedding","embedding":{vector}}}"#)
            })
            .collect();
        let (name, created, model) = (self.realtime.name(), unix_seconds() as u64, json!(self.config.model));
        Ok(Answer::json(format!(
            r#"{{"id":"embd-{name}","object":"list","created":{created},"model":{model},"data":[{}],"usage":{{"prompt_tokens":{prompt},"total_tokens":{prompt},"completion_tokens":0,"prompt_tokens_details":null}}}}"#,
            data.join(",")
        )))
    }

    /// All at once, as vLLM does; each ends with its first step behind the prompt.
    async fn prefill(&self, inputs: Vec<Tally>) -> Result<(), Problem> {
        let mut tickets = Vec::with_capacity(inputs.len());
        for tally in inputs {
            let (tokens, limit) = (tally.count(), self.config.max_model_len);
            if tokens > limit {
                let message = format!("This model's maximum context length is {limit} tokens.");
                return Err(Problem::value(&message, "input_tokens", tokens));
            }
            let mut request = Request::unique(tokens, 1);
            request.block_hashes = tally.into_hashes();
            tickets.push(self.submit(request, 1)?);
        }
        for ticket in &mut tickets {
            match ticket.next().await {
                Some(Piece::Token(_)) => {}
                Some(Piece::Ended(Ending::Died)) => return Err(Problem::Dead),
                Some(Piece::Ended(Ending::Aborted)) | None => {
                    return Err(Problem::Internal("the engine stopped".to_owned()));
                }
            }
        }
        Ok(())
    }
}

/// One text, one list of tokens, or a list of either.
fn inputs(fields: &Map<String, Value>, block_tokens: u32) -> Result<Vec<Tally>, Problem> {
    let input = fields.get("input").ok_or_else(|| missing("input", fields))?;
    let is_tokens = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_u64));
    let bad = || wrong_type("input", "string_type", "Input should be a valid string", input);
    let one = |value: &Value| {
        let mut tally = Tally::new(block_tokens);
        match value {
            Value::String(text) => tokens::pieces(text).for_each(|token| tally.push(token)),
            list if is_tokens(list) => {
                list.as_array().into_iter().flatten().filter_map(Value::as_u64).for_each(|t| tally.push(t));
            }
            _ => return Err(bad()),
        }
        if tally.count() == 0 {
            let message = "The prompt must not be empty.".to_owned();
            return Err(Problem::Refused { message, param: "input" });
        }
        Ok(tally)
    };
    match input {
        Value::Array(list) if !is_tokens(input) && list.len() <= MOST_INPUTS => {
            list.iter().map(one).collect()
        }
        single => Ok(vec![one(single)?]),
    }
}

/// A vector of length 1, as a list or as the bytes of its single-precision numbers.
fn vector(seed: u64, dimensions: u64, packed: bool) -> Value {
    let mut rng = SeededRng::new(seed);
    let numbers: Vec<f64> = (0..dimensions).map(|_| rng.unit() * 2.0 - 1.0).collect();
    let length = numbers.iter().map(|number| number * number).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
    let unit = numbers.iter().map(|number| (number / length) as f32);
    if packed {
        let bytes: Vec<u8> = unit.flat_map(f32::to_le_bytes).collect();
        return json!(BASE64_STANDARD.encode(bytes));
    }
    json!(unit.collect::<Vec<_>>())
}
