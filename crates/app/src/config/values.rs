//! What a key can hold besides sections: texts of a kind, numbers, and nothing yet.

use std::num::NonZero;
use std::ops::RangeInclusive;

use serde_json::{Value as Json, json};
use toml::de::DeValue;

use super::diagnostics::Origin;
use super::read::{Node, Reader, Value};

/// A value written as text.
pub(super) trait Text: Sized {
    /// What is expected: "a duration".
    const KIND: &'static str;
    /// One that is right, in quotes.
    const EXAMPLE: &'static str;
    /// Reads it from what stands between the quotes.
    fn parse(text: &str) -> Result<Self, Refusal>;
    /// The text again.
    fn text(&self) -> String;
    /// JSON schema of it.
    fn text_schema() -> Json {
        json!({ "type": "string" })
    }
}

/// Why a text was refused.
pub(super) enum Refusal {
    /// It is wrong: what, and how to mend it.
    Wrong(String, String),
    /// It is known, and not supported by this version.
    NotYet(String),
}

impl Refusal {
    pub(super) fn wrong(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Wrong(what.into(), hint.into())
    }
}

impl<T: Text> Value for T {
    fn kind() -> String {
        T::KIND.into()
    }

    fn schema() -> Json {
        T::text_schema()
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let DeValue::String(text) = node.get_ref() else {
            reader.wrong_type::<T>(node).hint(format!("for example {}", T::EXAMPLE));
            return None;
        };
        let at = Origin::File(node.span());
        match T::parse(text) {
            Ok(value) => return Some(value),
            Err(Refusal::Wrong(what, hint)) => {
                let what = format!("{}: {what}", reader.key());
                reader.problems.add(&at, what).hint(hint);
            }
            Err(Refusal::NotYet(what)) => {
                let what = format!("{}: {what}", reader.key());
                reader.problems.not_yet(&at, what);
            }
        }
        None
    }

    fn show(&self) -> String {
        format!("\"{}\"", self.text())
    }
}

impl Value for bool {
    fn kind() -> String {
        "true or false".into()
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = node.get_ref().as_bool();
        if value.is_none() {
            reader.wrong_type::<Self>(node).hint("write true or false, without quotes");
        }
        value
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    fn kind() -> String {
        "a whole number, 0 or more".into()
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        whole::<Self>(node, reader, 0..=u32::MAX)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A whole number for a `V`, whose kind a refusal names. What is outside `sensible` and
/// fits is for the caller to judge.
fn whole<V: Value>(node: Node<'_>, reader: &mut Reader<'_>, sensible: RangeInclusive<u32>) -> Option<u32> {
    let Some(number) = node.get_ref().as_integer() else {
        reader.wrong_type::<V>(node).hint("write digits, without quotes");
        return None;
    };
    let value = u32::from_str_radix(number.as_str(), number.radix()).ok();
    if value.is_none() {
        reader.wrong_type::<V>(node).hint(format!("from {} to {}", sensible.start(), sensible.end()));
    }
    value
}

impl Value for i32 {
    fn kind() -> String {
        "a whole number".into()
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": i32::MIN, "maximum": i32::MAX })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let number = node.get_ref().as_integer();
        let value = number.and_then(|n| Self::from_str_radix(n.as_str(), n.radix()).ok());
        if value.is_none() {
            let hint = format!("digits without quotes, from {} to {}", Self::MIN, Self::MAX);
            reader.wrong_type::<Self>(node).hint(hint);
        }
        value
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Value for NonZero<u32> {
    fn kind() -> String {
        "a whole number, 1 or more".into()
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = whole::<Self>(node, reader, 1..=u32::MAX)?;
        if value == 0 {
            reader.wrong_type::<Self>(node).hint("0 would switch off what this key steers");
        }
        Self::new(value)
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

/// A number of 0 or more.
impl Value for f64 {
    fn kind() -> String {
        "a number, 0 or more".into()
    }

    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0 })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = match node.get_ref() {
            DeValue::Float(n) => n.as_str().parse::<f64>().ok(),
            DeValue::Integer(n) if n.radix() == 10 => n.as_str().parse::<f64>().ok(),
            _ => None,
        };
        let value = value.filter(|v| v.is_finite() && *v >= 0.0);
        if value.is_none() {
            reader.wrong_type::<Self>(node).hint("write digits, without quotes, such as 0.2");
        }
        value
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// A status that may be retried, 500 to 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerError(pub(super) u16);

impl Value for ServerError {
    fn kind() -> String {
        "a status from 500 to 599".into()
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 500, "maximum": 599 })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = whole::<Self>(node, reader, 500..=599)?;
        let status = u16::try_from(value).ok().filter(|s| (500..600).contains(s));
        if status.is_none() {
            let hint = match value {
                429 => "429 has a key of its own: spill_429",
                _ => "what a client did wrong is not mended by another replica",
            };
            reader.wrong_type::<Self>(node).hint(hint);
        }
        status.map(Self)
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// A key that a later version brings: any value of it is refused.
#[derive(Debug, Clone, Copy)]
pub(super) struct Later;

impl Value for Later {
    fn kind() -> String {
        "not supported yet".into()
    }

    fn schema() -> Json {
        json!({ "not": {} })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let key = reader.key();
        reader.problems.not_yet(&Origin::File(node.span()), format!("\"{key}\""));
        None
    }

    fn show(&self) -> String {
        "none".into()
    }
}
