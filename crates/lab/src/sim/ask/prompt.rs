//! The prompt of a request.

use super::super::problem::Problem;
use super::super::tokens;
use super::{Dialect, missing, wrong_type};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The prompt as the body holds it.
pub(in super::super) enum Prompt<'a> {
    Chat { messages: Cow<'a, [Value]>, tools: Option<&'a Value> },
    Text(&'a str),
    Tokens(Vec<u64>),
}

impl<'a> Prompt<'a> {
    pub(in super::super) fn of(dialect: Dialect, fields: &'a Map<String, Value>) -> Result<Self, Problem> {
        match dialect {
            Dialect::Chat => Self::chat(fields, None),
            Dialect::Text => Self::text(fields),
            Dialect::Messages => Self::chat(fields, fields.get("system")),
            Dialect::Responses => Self::response(fields),
        }
    }

    /// `system`: where the dialect has it outside of the messages.
    fn chat(fields: &'a Map<String, Value>, system: Option<&'a Value>) -> Result<Self, Problem> {
        let tools = fields.get("tools");
        match fields.get("messages") {
            Some(Value::Array(messages)) => Ok(Self::Chat { messages: led(system, messages), tools }),
            None => Err(missing("messages", fields)),
            Some(value) => Err(wrong_type("messages", "list_type", "Input should be a valid list", value)),
        }
    }

    fn response(fields: &'a Map<String, Value>) -> Result<Self, Problem> {
        let (instructions, tools) = (fields.get("instructions"), fields.get("tools"));
        let messages = match fields.get("input") {
            None => return Err(missing("input", fields)),
            Some(Value::Array(items)) => led(instructions, items),
            Some(text @ Value::String(_)) => {
                let mut messages = led(instructions, &[]).into_owned();
                messages.push(json!({"role": "user", "content": text}));
                Cow::Owned(messages)
            }
            Some(value) => {
                return Err(wrong_type("input", "string_type", "Input should be a valid string", value));
            }
        };
        Ok(Self::Chat { messages, tools })
    }

    fn text(fields: &'a Map<String, Value>) -> Result<Self, Problem> {
        let several = || Problem::Refused {
            message: "prompt must be one string or one list of tokens".into(),
            param: "prompt",
        };
        match fields.get("prompt") {
            None => Err(missing("prompt", fields)),
            Some(Value::String(text)) => Ok(Self::Text(text)),
            Some(Value::Array(items)) => match items.as_slice() {
                [Value::String(text)] => Ok(Self::Text(text)),
                items => items
                    .iter()
                    .map(Value::as_u64)
                    .collect::<Option<_>>()
                    .map(Self::Tokens)
                    .ok_or_else(several),
            },
            Some(_) => Err(several()),
        }
    }

    /// The same behind an earlier conversation.
    pub(super) fn behind(self, earlier: Option<Vec<Value>>) -> Self {
        match (self, earlier) {
            (Self::Chat { messages, tools }, Some(mut all)) => {
                all.extend(messages.into_owned());
                Self::Chat { messages: Cow::Owned(all), tools }
            }
            (same, _) => same,
        }
    }

    pub(super) fn into_messages(self) -> Option<Vec<Value>> {
        match self {
            Self::Chat { messages, .. } => Some(messages.into_owned()),
            Self::Text(_) | Self::Tokens(_) => None,
        }
    }

    pub(in super::super) fn feed(&self, push: &mut impl FnMut(u64)) {
        match self {
            Self::Chat { messages, tools } => tokens::chat(messages, *tools, push),
            Self::Text(text) => tokens::pieces(text).for_each(push),
            Self::Tokens(tokens) => tokens.iter().copied().for_each(push),
        }
    }
}

fn led<'a>(system: Option<&Value>, messages: &'a [Value]) -> Cow<'a, [Value]> {
    match system.filter(|system| !system.is_null()) {
        None => Cow::Borrowed(messages),
        Some(system) => {
            let first = json!({"role": "system", "content": system});
            Cow::Owned([&[first], messages].concat())
        }
    }
}
