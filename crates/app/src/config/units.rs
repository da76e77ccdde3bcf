//! Durations and sizes: a whole number and a unit.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::values::{Refusal, Text};

/// A duration, zero allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

/// A duration above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Period(pub(super) Duration);

const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

impl Text for Span {
    const KIND: &'static str = "a duration";
    const EXAMPLE: &'static str = r#""3s""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = || {
            let what = format!("\"{text}\" is not a duration");
            Refusal::wrong(what, "a whole number and a unit: \"250ms\", \"3s\", \"10m\" or \"1h\"")
        };
        let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let millis = match &text[unit..] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(bad()),
        };
        let number: u64 = text[..unit].parse().map_err(|_| bad())?;
        let duration = number.checked_mul(millis).map(Duration::from_millis);
        duration.filter(|d| *d <= LONGEST).map(Self).ok_or_else(|| {
            Refusal::wrong(format!("\"{text}\" is longer than a year"), "durations go up to \"8784h\"")
        })
    }

    fn text(&self) -> String {
        let millis = self.0.as_millis();
        match millis {
            0 => "0s".into(),
            _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
            // One minute is better known as 60 seconds.
            _ if millis.is_multiple_of(60_000) && millis > 60_000 => format!("{}m", millis / 60_000),
            _ if millis.is_multiple_of(1000) => format!("{}s", millis / 1000),
            _ => format!("{millis}ms"),
        }
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" })
    }
}

impl Text for Period {
    const KIND: &'static str = "a duration above zero";
    const EXAMPLE: &'static str = Span::EXAMPLE;

    fn parse(text: &str) -> Result<Self, Refusal> {
        let span = Span::parse(text)?;
        if span.0.is_zero() {
            return Err(Refusal::wrong("zero makes no sense here", "any duration from \"1ms\" on"));
        }
        Ok(Self(span.0))
    }

    fn text(&self) -> String {
        Span(self.0).text()
    }

    fn text_schema() -> Json {
        Span::text_schema()
    }
}

/// A size in bytes, above zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl Text for Size {
    const KIND: &'static str = "a size above zero";
    const EXAMPLE: &'static str = r#""64MiB""#;

    fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = || {
            let what = format!("\"{text}\" is not a size");
            Refusal::wrong(what, "a whole number and a unit: \"512B\", \"64KiB\", \"100MiB\" or \"1GiB\"")
        };
        let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (_, factor) = UNITS.iter().find(|(name, _)| *name == &text[unit..]).ok_or_else(bad)?;
        let number: u64 = text[..unit].parse().map_err(|_| bad())?;
        match number.checked_mul(*factor) {
            Some(0) => Err(Refusal::wrong("zero makes no sense here", "any size from \"1B\" on")),
            Some(bytes) if bytes <= 1 << 40 => Ok(Self(bytes)),
            _ => Err(Refusal::wrong(format!("\"{text}\" is too large"), "sizes go up to \"1024GiB\"")),
        }
    }

    fn text(&self) -> String {
        let fitting = UNITS.iter().find(|(_, factor)| self.0.is_multiple_of(*factor));
        let (unit, factor) = fitting.unwrap_or(&("B", 1));
        format!("{}{unit}", self.0 / factor)
    }

    fn text_schema() -> Json {
        json!({ "type": "string", "pattern": "^[0-9]+(B|KiB|MiB|GiB)$" })
    }
}
