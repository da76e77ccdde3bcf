//! Counts as JSON writes them.

use crate::text::unescape;

/// Largest whole number up to which every whole number has its own `f64`.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A whole number from zero to `u64::MAX`, also written as `16.0` or `1e3`. Anything else is `None`.
pub(crate) fn whole(raw: &[u8]) -> Option<u64> {
    if raw.iter().all(u8::is_ascii_digit) {
        let digits = |sum: u64, digit: &u8| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'));
        return if raw.is_empty() { None } else { raw.iter().try_fold(0, digits) };
    }
    if !raw.first()?.is_ascii_digit() {
        return None;
    }
    let number: f64 = str::from_utf8(raw).ok()?.parse().ok()?;
    (number.fract() == 0.0 && (0.0..=EXACT).contains(&number)).then_some(number as u64)
}

/// Longest text that is read as a number, decoded.
const LONGEST: usize = 64;

/// A maximum as a request may state it, at least as much as an engine may take it for: also written as text, as lax
/// readers allow (`"100"`, ` +1_00.0 `); a fraction is rounded up, what fits no count is `u64::MAX`. `None` where it is
/// less than nothing or no number.
pub(crate) fn stated(raw: &[u8]) -> Option<u64> {
    if raw.first() != Some(&b'"') {
        return at_least(raw);
    }
    let mut text = String::new();
    unescape(raw, &(0..raw.len()), LONGEST, &mut text);
    let digits = text.trim();
    at_least(digits.strip_prefix('+').unwrap_or(digits).replace('_', "").as_bytes())
}

/// Whether [`stated`] would be less than nothing.
pub(crate) fn is_negative(raw: &[u8]) -> bool {
    let mut text = String::new();
    let raw = if raw.first() == Some(&b'"') {
        unescape(raw, &(0..raw.len()), LONGEST, &mut text);
        text.trim().as_bytes()
    } else {
        raw
    };
    raw.strip_prefix(b"-").is_some_and(|digits| at_least(digits).is_some_and(|count| count > 0))
}

fn at_least(raw: &[u8]) -> Option<u64> {
    if !raw.first()?.is_ascii_digit() {
        return None;
    }
    // A cast of a float that is too large is the largest count.
    whole(raw).or_else(|| str::from_utf8(raw).ok()?.parse().ok().map(|number: f64| number.ceil() as u64))
}

#[cfg(test)]
mod tests {
    use super::{stated, whole};

    #[test]
    fn only_whole_numbers_that_fit_are_counts() {
        let cases: &[(&str, Option<u64>)] = &[
            ("0", Some(0)),
            ("16", Some(16)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("99999999999999999999999999999999999999999999", None),
            ("16.0", Some(16)),
            ("1e3", Some(1000)),
            ("1.5", None),
            ("1e300", None),
            ("1e999", None),
            ("-1", None),
            ("-0", None),
            ("NaN", None),
            ("Infinity", None),
            ("null", None),
            ("", None),
            ("\"16\"", None),
        ];
        for (raw, count) in cases {
            assert_eq!(whole(raw.as_bytes()), *count, "{raw}");
        }
    }

    #[test]
    fn a_maximum_is_read_as_lax_engines_read_it() {
        let cases: &[(&str, Option<u64>)] = &[
            ("16", Some(16)),
            ("1e3", Some(1000)),
            ("1.5", Some(2)),
            ("18446744073709551616", Some(u64::MAX)),
            ("1e999", Some(u64::MAX)),
            ("-1", None),
            ("-0.5", None),
            ("null", None),
            ("true", None),
            ("[16]", None),
            ("", None),
            (r#""16""#, Some(16)),
            (r#"" +1_000.0\t""#, Some(1000)),
            (r#""\u0031\u0036""#, Some(16)),
            (r#""1e3""#, Some(1000)),
            (r#""99999999999999999999""#, Some(u64::MAX)),
            (r#""-1""#, None),
            (r#""inf""#, None),
            (r#""0x10""#, None),
            (r#""sixteen""#, None),
            (r#""""#, None),
            ("\"", None),
        ];
        for (raw, count) in cases {
            assert_eq!(stated(raw.as_bytes()), *count, "{raw}");
        }
    }
}
