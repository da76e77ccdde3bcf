//! Counts and money. Money is read digit by digit into millionths: no number passes through a float.

use serde_json::{Value as Json, json};
use sluicegate_core::Micros;
use toml::de::DeValue;

use super::diagnostics::Origin;
use super::read::{Node, Reader, Value};

/// How many of something, 1 or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Count(pub(super) u64);

impl Value for Count {
    fn kind() -> String {
        "a whole number, 1 or more".into()
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 1 })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(number) = node.get_ref().as_integer() else {
            reader.wrong_type::<Self>(node).hint("write digits, without quotes");
            return None;
        };
        let hint = match u64::from_str_radix(number.as_str(), number.radix()) {
            Ok(0) => no_zero_limit(reader.key()),
            Ok(count) if i64::try_from(count).is_ok() => return Some(Self(count)),
            _ => format!("from 1 to {}", i64::MAX),
        };
        reader.wrong_type::<Self>(node).hint(hint);
        None
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// An amount of money, zero allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Money(pub(super) Micros);

/// Whole units go up to this: a million million.
const MOST: u64 = 1_000_000_000_000;

const MILLION: u64 = 1_000_000;

impl Value for Money {
    fn kind() -> String {
        "an amount, 0 or more".into()
    }

    fn schema() -> Json {
        json!({ "type": "number", "minimum": 0, "maximum": MOST })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        money::<Self>(node, reader).map(Self)
    }

    /// As TOML, where a number without a point is another type.
    fn show(&self) -> String {
        let shown = self.0.to_string();
        if shown.contains('.') { shown } else { format!("{shown}.0") }
    }
}

/// An amount of money for a `V`, whose kind a refusal names.
fn money<V: Value>(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Micros> {
    let digits = match node.get_ref() {
        DeValue::Float(number) => number.as_str(),
        DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
        _ => {
            reader.wrong_type::<V>(node).hint("write digits, without quotes, such as 0.25");
            return None;
        }
    };
    match micros(digits) {
        Ok(micros) => return Some(micros),
        Err(Inexact::Negative | Inexact::NoNumber) => {
            reader.wrong_type::<V>(node).hint("write digits, without quotes, such as 0.25");
        }
        Err(Inexact::TooFine) => {
            let what = format!("{}: {digits} is finer than a millionth", reader.key());
            reader.problems.add(&Origin::File(node.span()), what).hint("at most six decimals");
        }
        Err(Inexact::TooLarge) => {
            let what = format!("{}: {digits} is too large", reader.key());
            reader.problems.add(&Origin::File(node.span()), what).hint(format!("at most {MOST}"));
        }
    }
    None
}

/// An amount of money above zero, as a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Budget(pub(super) Micros);

impl Value for Budget {
    fn kind() -> String {
        "an amount above 0".into()
    }

    fn schema() -> Json {
        json!({ "type": "number", "exclusiveMinimum": 0, "maximum": MOST })
    }

    fn read(node: Node<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let amount = money::<Self>(node, reader)?;
        if amount == Micros(0) {
            let hint = no_zero_limit(reader.key());
            reader.wrong_type::<Self>(node).hint(hint);
            return None;
        }
        Some(Self(amount))
    }

    fn show(&self) -> String {
        Money(self.0).show()
    }
}

fn no_zero_limit(key: &str) -> String {
    format!("leave {key} out for no limit, or the whole [[keys]] entry out to shut its holder out")
}

/// Why a number is no amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Inexact {
    NoNumber,
    Negative,
    TooFine,
    TooLarge,
}

/// The exact millionths of a decimal number, with or without an exponent.
fn micros(text: &str) -> Result<Micros, Inexact> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if text.starts_with('-') {
        return Err(Inexact::Negative);
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, decimals].concat();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Inexact::NoNumber);
    }
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Ok(Micros(0));
    }
    // The number is `significant` times ten to the power of `power`, in millionths.
    let beyond = if exponent.starts_with('-') { Inexact::TooFine } else { Inexact::TooLarge };
    let exponent: i64 = exponent.parse().map_err(|_| beyond)?;
    let shift = digits.len() - significant.len();
    let length = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let power =
        exponent.saturating_add(6).saturating_add(length(shift)).saturating_sub(length(decimals.len()));
    let power =
        u32::try_from(power).map_err(|_| if power < 0 { Inexact::TooFine } else { Inexact::TooLarge })?;
    let value: u64 = significant.parse().map_err(|_| Inexact::TooLarge)?;
    10_u64
        .checked_pow(power)
        .and_then(|factor| value.checked_mul(factor))
        .filter(|micros| *micros <= MOST * MILLION)
        .map(Micros)
        .ok_or(Inexact::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_exact_to_the_millionth_or_refused() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("-0.0", Err(Inexact::Negative)),
            ("0.0", Ok(0)),
            ("0e99", Ok(0)),
            ("10.0", Ok(10_000_000)),
            ("+3", Ok(3_000_000)),
            ("0.1", Ok(100_000)),
            ("0.29", Ok(290_000)),
            ("1.005", Ok(1_005_000)),
            ("0.000001", Ok(1)),
            ("0.0000010", Ok(1)),
            ("0.0000001", Err(Inexact::TooFine)),
            ("1e-6", Ok(1)),
            ("1.5e-7", Err(Inexact::TooFine)),
            ("2.5E3", Ok(2_500_000_000)),
            ("123456.7e-1", Ok(12_345_670_000)),
            ("1000000000000", Ok(1_000_000_000_000_000_000)),
            ("1000000000000.000001", Err(Inexact::TooLarge)),
            ("1e13", Err(Inexact::TooLarge)),
            ("1e99999999999999999999", Err(Inexact::TooLarge)),
            ("1e-99999999999999999999", Err(Inexact::TooFine)),
            ("99999999999999999999999", Err(Inexact::TooLarge)),
            ("inf", Err(Inexact::NoNumber)),
            ("nan", Err(Inexact::NoNumber)),
            (".", Err(Inexact::NoNumber)),
        ] {
            assert_eq!(micros(text).map(|m| m.0), expected, "{text}");
        }
    }

    #[test]
    fn an_amount_is_shown_with_the_decimals_it_has() {
        for (micros, shown) in [(0, "0.0"), (10_000_000, "10.0"), (1_005_000, "1.005"), (1, "0.000001")] {
            assert_eq!(Money(Micros(micros)).show(), shown);
        }
    }
}
