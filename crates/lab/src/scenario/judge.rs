//! What was measured against what is allowed.

use super::chooser::Chooser;
use super::seen::Seen;
use super::spec::{Allowed, Scenario};
use std::fmt;

/// One range and what was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was measured, in words.
    pub what: String,
    /// The number; `None`: there was nothing to measure, which is a failure.
    pub measured: Option<f64>,
    /// The least that passes.
    pub min: Option<f64>,
    /// The most that passes.
    pub max: Option<f64>,
    /// Whether it lies in the range.
    pub passed: bool,
}

impl Finding {
    /// A number against its range.
    #[must_use]
    pub fn new(what: String, measured: Option<f64>, min: Option<f64>, max: Option<f64>) -> Self {
        let within = |number: f64| min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max);
        Self { what, measured, min, max, passed: measured.is_some_and(within) }
    }

    /// The range in words.
    #[must_use]
    pub fn range(&self) -> String {
        match (self.min, self.max) {
            (Some(min), Some(max)) if min.total_cmp(&max).is_eq() => format!("{}", Number(min)),
            (Some(min), Some(max)) => format!("{} to {}", Number(min), Number(max)),
            (Some(min), None) => format!(">= {}", Number(min)),
            (None, Some(max)) => format!("<= {}", Number(max)),
            (None, None) => "anything".into(),
        }
    }

    /// The number in words.
    #[must_use]
    pub fn number(&self) -> String {
        self.measured.map_or_else(|| "nothing seen".into(), |number| Number(number).to_string())
    }
}

/// A number with as many decimals as it needs, two at most.
struct Number(f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.2}", self.0);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Every range that holds in this mode.
#[must_use]
pub fn judge(scenario: &Scenario, chooser: Chooser, seen: &Seen) -> Vec<Finding> {
    let ranges = scenario.allowed.iter().filter(|allowed| allowed.holds_in(chooser));
    let finding = |allowed: &Allowed| {
        let measured = allowed.measure.take(seen, allowed);
        Finding::new(words(allowed), measured, allowed.min, allowed.max)
    };
    ranges.map(finding).collect()
}

fn words(allowed: &Allowed) -> String {
    let mut words = allowed.measure.meaning().to_owned();
    for (before, part) in [(" of ", &allowed.of), (" beside ", &allowed.beside), (": ", &allowed.what)] {
        if let Some(part) = part {
            words.push_str(before);
            words.push_str(part);
        }
    }
    if let Some(at) = allowed.at {
        words.push_str(&format!(" after {} s", at.0.as_secs()));
    }
    words
}
