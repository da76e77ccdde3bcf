//! Durations with a unit, and numbers that may be a range.

use crate::rng::SeededRng;
use serde::Deserialize;
use serde::de::Error as _;
use sluicegate_core::Time;
use std::time::Duration;

/// A duration as in `"250ms"`, `"10s"`, `"6m"` or `"2h"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

impl Span {
    /// That long after the run's beginning.
    #[must_use]
    pub fn time(self) -> Time {
        Time::ZERO + self.0
    }
}

/// The longest that is read: a week, of which an hour takes seconds. Longer ones would be run for as good as ever.
const MOST_MILLIS: u64 = 7 * 24 * 3_600_000;

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let scale = match unit {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" | "min" => Some(60_000),
            "h" => Some(3_600_000),
            _ => None,
        };
        let millis = digits.parse::<u64>().ok().zip(scale).and_then(|(n, scale)| n.checked_mul(scale));
        match millis {
            Some(millis) if millis <= MOST_MILLIS => Ok(Self(Duration::from_millis(millis))),
            Some(_) => Err(D::Error::custom(format!("{text:?} is too long: at most \"168h\", a week"))),
            None => Err(D::Error::custom(format!(
                "{text:?} is no duration: write digits and one of ms, s, m, h, as in \"250ms\" or \"6m\""
            ))),
        }
    }
}

/// A number, or a range to draw from: `200` or `[100, 300]`, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a whole number, or two as in [100, 300]")]
pub enum Amount {
    /// Always the same.
    Fixed(u32),
    /// Drawn uniformly, the ends included.
    Between([u32; 2]),
}

impl Amount {
    pub(super) fn draw(self, rng: &mut SeededRng) -> u32 {
        match self {
            Self::Fixed(number) => number,
            Self::Between([least, most]) => {
                let width = u64::from(most.saturating_sub(least)) + 1;
                least.saturating_add(u32::try_from(rng.below(width)).unwrap_or(0))
            }
        }
    }
}
