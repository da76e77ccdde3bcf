//! Reads a generation request, with vLLM's checks in vLLM's order.

mod prompt;

pub(super) use prompt::Prompt;

use super::answer::Echo;
use super::problem::Problem;
use super::stored::Stored;
use super::tokens::Tally;
use serde_json::{Map, Value};

/// Which API asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/completions`
    Text,
    /// `/v1/messages`
    Messages,
    /// `/v1/responses`
    Responses,
}

/// What the checks need to know of the replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits<'a> {
    pub(super) model: &'a str,
    pub(super) max_model_len: u32,
    pub(super) block_tokens: u32,
    pub(super) stored: &'a Stored,
}

/// A request that will be served.
#[derive(Debug)]
pub(super) struct Ask {
    pub(super) dialect: Dialect,
    pub(super) stream: bool,
    pub(super) include_usage: bool,
    pub(super) continuous_usage: bool,
    pub(super) ignore_eos: bool,
    /// Tokens of the answer at most; prompt and answer together fit the model.
    pub(super) max_tokens: u32,
    pub(super) prompt: Tally,
    /// Of `/v1/responses` only.
    pub(super) response: Option<ResponseParts>,
}

/// What a response repeats, and the conversation to keep it with.
#[derive(Debug)]
pub(super) struct ResponseParts {
    pub(super) echo: Echo,
    /// `None` for `store: false`.
    pub(super) messages: Option<Vec<Value>>,
}

/// vLLM's default for `/v1/completions`; chat answers may fill the context.
const TEXT_MAX_TOKENS: u32 = 16;

impl Ask {
    pub(super) fn parse(dialect: Dialect, body: &[u8], limits: Limits<'_>) -> Result<Self, Problem> {
        let fields = object(body)?;
        let prompt = Prompt::of(dialect, &fields)?;
        let stream = boolean(&fields, "stream")?;
        let options = stream_options(dialect, &fields, stream)?;
        check_model(&fields, limits.model)?;
        check_sampling(&fields)?;
        let stated = stated_max_tokens(dialect, &fields, limits.max_model_len)?;
        let prompt = prompt.behind(previous(dialect, &fields, limits.stored)?);
        let mut tally = Tally::new(limits.block_tokens);
        prompt.feed(&mut |token| tally.push(token));
        let response = match dialect {
            Dialect::Responses => Some(response_parts(&fields, prompt)?),
            _ => None,
        };
        Ok(Self {
            dialect,
            stream,
            include_usage: boolean(&options, "include_usage")?,
            continuous_usage: boolean(&options, "continuous_usage_stats")?,
            ignore_eos: boolean(&fields, "ignore_eos")?,
            max_tokens: fit(dialect, tally.count(), stated, limits.max_model_len)?,
            prompt: tally,
            response,
        })
    }
}

fn stream_options(
    dialect: Dialect,
    fields: &Map<String, Value>,
    stream: bool,
) -> Result<Map<String, Value>, Problem> {
    if matches!(dialect, Dialect::Messages | Dialect::Responses) {
        return Ok(Map::new());
    }
    match fields.get("stream_options") {
        Some(Value::Object(options)) if stream => Ok(options.clone()),
        None | Some(Value::Null) => Ok(Map::new()),
        Some(value) if stream => {
            Err(wrong_type("stream_options", "dict_type", "Input should be a valid dictionary", value))
        }
        Some(_) => {
            let message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)";
            Err(Problem::Refused { message: message.to_owned(), param: "stream_options" })
        }
    }
}

/// The conversation that a response goes on with.
fn previous(
    dialect: Dialect,
    fields: &Map<String, Value>,
    stored: &Stored,
) -> Result<Option<Vec<Value>>, Problem> {
    match fields.get("previous_response_id") {
        Some(Value::String(id)) if dialect == Dialect::Responses => {
            stored.messages(id).map(Some).ok_or_else(|| Problem::UnknownResponse { id: id.clone() })
        }
        _ => Ok(None),
    }
}

fn response_parts(fields: &Map<String, Value>, prompt: Prompt<'_>) -> Result<ResponseParts, Problem> {
    let field = |name: &str| fields.get(name).cloned().unwrap_or_default();
    let number = |name: &str| fields.get(name).and_then(Value::as_f64);
    let echo = Echo {
        instructions: field("instructions"),
        metadata: field("metadata"),
        temperature: number("temperature"),
        top_p: number("top_p"),
        previous: field("previous_response_id"),
    };
    let unasked = fields.get("store").is_none_or(Value::is_null);
    let store = unasked || boolean(fields, "store")?;
    Ok(ResponseParts { echo, messages: prompt.into_messages().filter(|_| store) })
}

/// The body as a JSON object.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Problem> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(other) => {
            Err(wrong_type("", "model_attributes_type", "Input should be a valid dictionary", &other))
        }
        Err(error) => {
            let before = body.split_inclusive(|&byte| byte == b'\n').take(error.line().saturating_sub(1));
            let position = before.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
            let reason = if error.is_eof() { "Unterminated value" } else { "Expecting value" };
            Err(Problem::BadJson { position, reason })
        }
    }
}

pub(super) fn missing(field: &'static str, fields: &Map<String, Value>) -> Problem {
    Problem::Field {
        field,
        kind: "missing",
        says: "Field required",
        input: format!("<dict of {} items>", fields.len()),
    }
}

pub(super) fn wrong_type(
    field: &'static str,
    kind: &'static str,
    says: &'static str,
    value: &Value,
) -> Problem {
    // Enough to recognise it; the body may be large.
    Problem::Field { field, kind, says, input: value.to_string().chars().take(64).collect() }
}

pub(super) fn check_model(fields: &Map<String, Value>, served: &str) -> Result<(), Problem> {
    match fields.get("model") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(model)) if model == served => Ok(()),
        Some(Value::String(model)) => {
            Err(Problem::UnknownModel { asked: model.clone(), served: served.to_owned() })
        }
        Some(value) => Err(wrong_type("model", "string_type", "Input should be a valid string", value)),
    }
}

fn check_sampling(fields: &Map<String, Value>) -> Result<(), Problem> {
    if let Some(temperature) = fields.get("temperature").and_then(Value::as_f64).filter(|value| *value < 0.0)
    {
        let message = format!("temperature must be non-negative, got {temperature:?}.");
        return Err(Problem::value(&message, "temperature", format_args!("{temperature:?}")));
    }
    match fields.get("n") {
        None | Some(Value::Null) => Ok(()),
        Some(n) if n.as_u64() == Some(1) => Ok(()),
        Some(n) => Err(Problem::value("this simulated engine gives one answer, n must be 1.", "n", n)),
    }
}

fn stated_max_tokens(
    dialect: Dialect,
    fields: &Map<String, Value>,
    max_model_len: u32,
) -> Result<Option<u32>, Problem> {
    // A chat's newer name wins over its older one.
    let names: &[&'static str] = match dialect {
        Dialect::Chat => &["max_completion_tokens", "max_tokens"],
        Dialect::Text | Dialect::Messages => &["max_tokens"],
        Dialect::Responses => &["max_output_tokens"],
    };
    let stated =
        names.iter().find_map(|&name| Some((name, fields.get(name).filter(|value| !value.is_null())?)));
    let (name, value) = match stated {
        Some(stated) => stated,
        None if dialect == Dialect::Messages => return Err(missing("max_tokens", fields)),
        None => return Ok(None),
    };
    // The names under which vLLM's own check knows it.
    let param = match dialect {
        Dialect::Chat | Dialect::Text => "max_tokens",
        Dialect::Messages => "max_completion_tokens",
        Dialect::Responses => "max_output_tokens",
    };
    let Some(number) = value.as_i64() else {
        return Err(wrong_type(name, "int_type", "Input should be a valid integer", value));
    };
    match u32::try_from(number) {
        Ok(0) | Err(_) if number < 1 => {
            Err(Problem::value(&format!("{param} must be at least 1, got {number}."), param, number))
        }
        Ok(tokens) if tokens <= max_model_len => Ok(Some(tokens)),
        _ => {
            let message = format!(
                "{param}={number} cannot be greater than max_model_len={max_model_len}. Please request fewer output \
                 tokens."
            );
            Err(Problem::value(&message, param, number))
        }
    }
}

/// The answer's limit beside a prompt of that many tokens.
fn fit(dialect: Dialect, prompt: u32, stated: Option<u32>, max_model_len: u32) -> Result<u32, Problem> {
    if prompt == 0 {
        return Err(Problem::Refused {
            message: "The prompt must not be empty.".to_owned(),
            param: "prompt",
        });
    }
    let limit = format!("This model's maximum context length is {max_model_len} tokens. However, ");
    if prompt > max_model_len {
        // vLLM stops counting one token above the limit.
        let counted = u64::from(max_model_len) + 1;
        let message = format!(
            "{limit}your prompt contains at least {counted} input tokens, which exceeds this limit even without any output \
             tokens. Please reduce the length of the input prompt."
        );
        return Err(Problem::value(&message, "input_tokens", counted));
    }
    let room = max_model_len - prompt;
    let default = if dialect == Dialect::Text { TEXT_MAX_TOKENS.min(room) } else { room };
    let asked = stated.unwrap_or(default).max(1);
    if asked <= room {
        return Ok(asked);
    }
    let total = u64::from(asked) + u64::from(prompt);
    let message = format!(
        "{limit}you requested {asked} output tokens and your prompt contains at least {prompt} input tokens, for a total of \
         at least {total} tokens. Please reduce the length of the input prompt or the number of requested output tokens."
    );
    Err(Problem::value(&message, "input_tokens", prompt))
}

fn boolean(fields: &Map<String, Value>, name: &'static str) -> Result<bool, Problem> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(value) => Err(wrong_type(name, "bool_type", "Input should be a valid boolean", value)),
    }
}
