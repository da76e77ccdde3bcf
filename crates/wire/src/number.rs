//! Counts as JSON writes them.

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

#[cfg(test)]
mod tests {
    use super::whole;

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
}
