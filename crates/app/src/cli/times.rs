//! Times on the command line: `500ms`, `30s`, `5m`, `2h`.

use std::time::Duration;

pub(super) fn parse(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "expected a time, as 500ms, 30s, 5m or 2h";
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let (digits, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit))).ok_or(EXPECTED)?;
    let number: f64 = digits.trim_end().parse().map_err(|_| EXPECTED)?;
    Duration::try_from_secs_f64(number * unit).map_err(|_| EXPECTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let ms = Duration::from_millis;
        for (text, time) in [
            ("500ms", Some(ms(500))),
            ("1.5s", Some(ms(1500))),
            ("5m", Some(ms(300_000))),
            ("2h", Some(ms(7_200_000))),
            ("30", None),
            ("s", None),
            ("-1s", None),
            ("infs", None),
        ] {
            assert_eq!(parse(text).ok(), time, "{text}");
        }
    }
}
