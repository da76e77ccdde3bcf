//! Faults as text (`cut:5:share=0.3`) and as JSON (`{"kind": "cut", "after": 5, "share": 0.3}`).

use super::{Fault, FaultSpec};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// A fault that was not understood: what, and how to say it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadFault(pub(crate) String);

/// A value's name, and a default where it may be left out.
type Name = (&'static str, Option<f64>);

/// Kinds, with their own values in order.
const KINDS: [(&str, &[Name]); 15] = [
    ("status", &[("status", None)]),
    ("reset", &[]),
    ("hang", &[]),
    ("cut", &[("after", None)]),
    ("error-event", &[("after", Some(0.0)), ("status", Some(503.0))]),
    ("refuse", &[]),
    ("slow", &[("factor", None)]),
    ("frozen", &[]),
    ("slow-health", &[("delay", None)]),
    ("flap", &[("alive", None), ("dead", None)]),
    ("engine-dead", &[]),
    ("sigterm", &[]),
    ("dead", &[]),
    ("loading", &[]),
    ("unreachable", &[]),
];
/// Values that faults have in common.
const SHARE: &str = "share";
const NEXT: &str = "next";
const SECONDS: &str = "seconds";
/// A day: more is a slip.
const MOST_SECONDS: f64 = 86_400.0;

type Values = BTreeMap<String, f64>;

impl FaultSpec {
    /// Reads `KIND[:VALUE..][:NAME=VALUE..]`, its values in order or by name. Times are seconds, or end in `ms` or `s`.
    ///
    /// # Errors
    /// An unknown kind or name, a missing value, or one that is none or out of its bounds.
    pub fn parse(text: &str) -> Result<Self, BadFault> {
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let names = names_of(kind)?;
        let mut in_order = names.iter().map(|(name, _)| *name);
        let mut values = Values::new();
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name, value),
                None => match in_order.next() {
                    Some(name) => (name, part),
                    None => return Err(BadFault(format!("{part:?} is one value too many; {}", form(kind)))),
                },
            };
            let number =
                number(value).ok_or_else(|| BadFault(format!("{value:?} is no number; {}", form(kind))))?;
            values.insert(name.to_owned(), number);
        }
        build(kind, &values)
    }

    /// The same, where a simulated replica behind HTTP can have it.
    ///
    /// # Errors
    /// It exists in virtual time only.
    pub fn over_http(self) -> Result<Self, BadFault> {
        match self.fault {
            Fault::Unreachable => Err(BadFault(
                "a replica on this machine cannot be unreachable: that is a fault of scenario files; hang, or dead, \
                 comes nearest"
                    .to_owned(),
            )),
            _ => Ok(self),
        }
    }

    /// Reads the members of a JSON object beside `replica`.
    pub(crate) fn from_json(fields: &Map<String, Value>) -> Result<Self, BadFault> {
        let Some(kind) = fields.get("kind").and_then(Value::as_str) else {
            return Err(BadFault(format!("\"kind\" is missing: one of {}", listed())));
        };
        let mut values = Values::new();
        for (name, value) in fields.iter().filter(|(name, _)| !["kind", "replica"].contains(&name.as_str())) {
            let number = value.as_f64().or_else(|| value.as_str().and_then(number));
            let number =
                number.ok_or_else(|| BadFault(format!("{name:?} must be a number; {}", form(kind))))?;
            values.insert(name.clone(), number);
        }
        build(kind, &values)
    }

    /// The object that [`FaultSpec::from_json`] reads.
    pub(crate) fn to_json(self) -> Value {
        let mut fields = Map::new();
        fields.insert("kind".to_owned(), json!(self.fault.kind()));
        let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        match self.fault {
            Fault::Status(status) => drop(put("status", json!(status))),
            Fault::Cut { after } => drop(put("after", json!(after))),
            Fault::ErrorEvent { after, status } => {
                put("after", json!(after));
                put("status", json!(status));
            }
            Fault::Slow { factor } => drop(put("factor", json!(factor))),
            Fault::SlowHealth(delay) => drop(put("delay", json!(delay.as_secs_f64()))),
            Fault::Flap { alive, dead } => {
                put("alive", json!(alive.as_secs_f64()));
                put("dead", json!(dead.as_secs_f64()));
            }
            _ => {}
        }
        if self.fault.hits_requests() {
            put(SHARE, json!(self.share));
            put(NEXT, json!(self.next));
        }
        put(SECONDS, json!(self.lasts.map(|time| time.as_secs_f64())));
        Value::Object(fields)
    }
}

/// Whether there is a fault of that name.
pub(crate) fn is_kind(kind: &str) -> bool {
    names_of(kind).is_ok()
}

fn names_of(kind: &str) -> Result<&'static [Name], BadFault> {
    let known = KINDS.iter().find(|(name, _)| *name == kind);
    known
        .map(|(_, names)| *names)
        .ok_or_else(|| BadFault(format!("there is no fault {kind:?}; there are {}", listed())))
}

/// The names of all faults.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|(name, _)| *name)
}

fn listed() -> String {
    kinds().collect::<Vec<_>>().join(", ")
}

/// How a fault of that kind is written.
fn form(kind: &str) -> String {
    let own = names_of(kind).unwrap_or_default();
    let own: String = own
        .iter()
        .map(|(name, default)| match default {
            None => format!(":{}", name.to_uppercase()),
            Some(_) => format!("[:{}]", name.to_uppercase()),
        })
        .collect();
    format!("it is written {kind}{own}, with :share=PART, :next=COUNT or :seconds=TIME behind it")
}

fn number(text: &str) -> Option<f64> {
    let (digits, unit) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1e-3),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    digits.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| number * unit)
}

fn build(kind: &str, values: &Values) -> Result<FaultSpec, BadFault> {
    let names = names_of(kind)?;
    let common = [SHARE, NEXT, SECONDS];
    if let Some(name) = values
        .keys()
        .find(|name| !common.contains(&name.as_str()) && !names.iter().any(|(own, _)| own == name))
    {
        return Err(BadFault(format!("{kind} has no value {name:?}; {}", form(kind))));
    }
    let read = Reading { kind, names, values };
    let fault = match kind {
        "status" => Fault::Status(read.status()?),
        "reset" => Fault::Reset,
        "hang" => Fault::Hang,
        "cut" => Fault::Cut { after: read.count("after")? },
        "error-event" => Fault::ErrorEvent { after: read.count("after")?, status: read.status()? },
        "refuse" => Fault::Refuse,
        "slow" => Fault::Slow { factor: read.within("factor", 0.001, 1e6)? },
        "frozen" => Fault::Frozen,
        "slow-health" => Fault::SlowHealth(read.time("delay", 0.0)?),
        "flap" => Fault::Flap { alive: read.time("alive", 0.001)?, dead: read.time("dead", 0.001)? },
        "engine-dead" => Fault::EngineDead,
        "sigterm" => Fault::Sigterm,
        "dead" => Fault::Dead,
        "loading" => Fault::Loading,
        _ => Fault::Unreachable,
    };
    let given = |name: &str| values.contains_key(name);
    if !fault.hits_requests() && (given(SHARE) || given(NEXT)) {
        return Err(BadFault(format!("{kind} befalls the whole replica: share and next have no meaning")));
    }
    Ok(FaultSpec {
        fault,
        share: if given(SHARE) { read.within(SHARE, 0.0, 1.0)? } else { 1.0 },
        next: given(NEXT).then(|| read.count(NEXT)).transpose()?,
        lasts: given(SECONDS).then(|| read.time(SECONDS, 0.001)).transpose()?,
    })
}

struct Reading<'a> {
    kind: &'a str,
    names: &'static [Name],
    values: &'a Values,
}

impl Reading<'_> {
    fn within(&self, name: &str, least: f64, most: f64) -> Result<f64, BadFault> {
        let default = || self.names.iter().find(|(own, _)| *own == name).and_then(|(_, default)| *default);
        let Some(value) = self.values.get(name).copied().or_else(default) else {
            return Err(BadFault(format!("{} needs {name:?}; {}", self.kind, form(self.kind))));
        };
        if (least..=most).contains(&value) {
            Ok(value)
        } else {
            Err(BadFault(format!("{name:?} of {} must be from {least} to {most}, not {value}", self.kind)))
        }
    }

    fn count(&self, name: &str) -> Result<u32, BadFault> {
        // In bounds, so the cast loses only what is behind the point.
        self.within(name, 0.0, f64::from(u32::MAX)).map(|count| count as u32)
    }

    fn status(&self) -> Result<u16, BadFault> {
        self.within("status", 400.0, 599.0).map(|status| status as u16)
    }

    fn time(&self, name: &str, least: f64) -> Result<Duration, BadFault> {
        self.within(name, least, MOST_SECONDS).map(Duration::from_secs_f64)
    }
}

#[cfg(test)]
mod tests;
