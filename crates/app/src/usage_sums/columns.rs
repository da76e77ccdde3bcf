//! The columns of every form of output: one list, so that table, CSV and JSON tell the same.

use super::sums::{Class, Sums};

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Count(u64),
    Bytes(u64),
    /// 0..=1
    Share(Option<f64>),
    /// In millionths.
    Money(Option<u64>),
    Millis(Option<f64>),
}

impl Value {
    /// Whether there is anything to see: the table leaves out columns without.
    pub(super) fn is_blank(self) -> bool {
        match self {
            Self::Count(count) | Self::Bytes(count) => count == 0,
            Self::Share(share) => share.is_none_or(|share| share == 0.0),
            Self::Money(money) => money.is_none(),
            Self::Millis(millis) => millis.is_none(),
        }
    }

    /// The value as a number, None where it is not known: shares with six decimals, milliseconds with three.
    pub(super) fn number(self) -> Option<Number> {
        let rounded = |value: f64, unit: f64| Number::Decimal((value * unit).round() / unit);
        match self {
            Self::Count(count) | Self::Bytes(count) => Some(Number::Whole(count)),
            Self::Share(share) => share.map(|share| rounded(share, 1e6)),
            Self::Money(money) => money.map(|money| Number::Decimal(money as f64 / 1e6)),
            Self::Millis(millis) => millis.map(|millis| rounded(millis, 1e3)),
        }
    }
}

/// A number as CSV and JSON write it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(u64),
    Decimal(f64),
}

/// A column: its name in CSV and JSON (a promise to readers), its heading in the table, its value.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    pub(super) value: fn(&Sums) -> Value,
}

macro_rules! columns {
    ($($name:literal $heading:literal $value:expr;)+) => {
        &[$(Column { name: $name, heading: $heading, value: $value }),+]
    };
}

/// All columns in their order.
pub(super) const COLUMNS: &[Column] = columns! {
    "requests" "requests" |sums| Value::Count(sums.requests);
    "ok" "ok" |sums| Value::Count(sums.ended(Class::Ok));
    "client_error" "client err" |sums| Value::Count(sums.ended(Class::ClientError));
    "rejected" "rejected" |sums| Value::Count(sums.ended(Class::Rejected));
    "upstream" "upstream" |sums| Value::Count(sums.ended(Class::Upstream));
    "client_gone" "gone" |sums| Value::Count(sums.ended(Class::ClientGone));
    "timeout" "timeout" |sums| Value::Count(sums.ended(Class::Timeout));
    "no_replica" "no replica" |sums| Value::Count(sums.ended(Class::NoReplica));
    "gateway_stopped" "stopped" |sums| Value::Count(sums.ended(Class::GatewayStopped));
    "unknown_outcome" "unknown" |sums| Value::Count(sums.ended(Class::Unknown));
    "prompt_tokens" "prompt" |sums| Value::Count(sums.prompt_tokens);
    "cached_tokens" "cached" |sums| Value::Count(sums.cached_tokens);
    "completion_tokens" "completion" |sums| Value::Count(sums.completion_tokens);
    "reasoning_tokens" "reasoning" |sums| Value::Count(sums.reasoning_tokens);
    "estimated_share" "estimated" |sums| Value::Share(sums.estimated_share());
    "cost" "cost" |sums| Value::Money(sums.cost);
    "ttft_p50_ms" "ttft p50" |sums| Value::Millis(sums.ttft.at(0.5));
    "ttft_p95_ms" "ttft p95" |sums| Value::Millis(sums.ttft.at(0.95));
    "total_p50_ms" "total p50" |sums| Value::Millis(sums.total.at(0.5));
    "total_p95_ms" "total p95" |sums| Value::Millis(sums.total.at(0.95));
    "bytes_in" "in" |sums| Value::Bytes(sums.bytes_in);
    "bytes_out" "out" |sums| Value::Bytes(sums.bytes_out);
};

/// Instead of a name that is `null`.
pub(super) const NO_NAME: &str = "-";
/// Instead of the names of the groups beyond the bound.
pub(super) const OTHER: &str = "(other)";
