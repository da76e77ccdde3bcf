//! Moments as the usage line writes them: `2026-02-03T04:05:06.789Z`, whose order as text is their order in time.

use std::str::FromStr;

/// Any digit, then any other byte for itself.
const SHAPE: &[u8; 24] = b"0000-00-00T00:00:00.000Z";
/// What follows a moment given only in part: the start of that year's month, day, hour and so on.
const START: &str = "0000-01-01T00:00:00.000Z";
/// The lengths at which a moment may stop: day, hour, minute, second, millisecond.
const STOPS: [usize; 5] = [10, 13, 16, 19, 23];

/// Whether `text` has the form of the usage line's `time`; not whether the calendar has such a day.
pub(super) fn is_canonical(text: &str) -> bool {
    has_shape(text.as_bytes(), SHAPE)
}

fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let fits = |(byte, place): (&u8, &u8)| if *place == b'0' { byte.is_ascii_digit() } else { byte == place };
    text.len() == shape.len() && text.iter().zip(shape).all(fits)
}

/// A moment given on the command line, in UTC: a day, or more exactly down to the millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Moment(String);

impl Moment {
    /// In the form of the usage line.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "{text:?} is no moment in UTC; expected 2026-02-03, 2026-02-03T04:05 or 2026-02-03T04:05:06Z"
            )
        };
        let bare = text.strip_suffix('Z').unwrap_or(text).replacen(' ', "T", 1);
        let shape = SHAPE.get(..bare.len()).ok_or_else(expected)?;
        if !STOPS.contains(&bare.len()) || !has_shape(bare.as_bytes(), shape) {
            return Err(expected());
        }
        let whole = format!("{bare}{}", START.get(bare.len()..).unwrap_or_default());
        if !in_calendar(&whole) {
            return Err(format!("{text:?}: there is no such day or time"));
        }
        Ok(Self(whole))
    }
}

fn in_calendar(whole: &str) -> bool {
    let number = |from: usize, to: usize| whole.get(from..to).and_then(|digits| digits.parse::<u32>().ok());
    let (Some(year), Some(month), Some(day)) = (number(0, 4), number(5, 7), number(8, 10)) else {
        return false;
    };
    let below = |from, limit| number(from, from + 2).is_some_and(|value| value < limit);
    (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && below(11, 24)
        && below(14, 60)
        && below(17, 60)
}

const fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_given_in_part_is_its_start() {
        for (text, whole) in [
            ("2026-02-03", "2026-02-03T00:00:00.000Z"),
            ("2026-02-03Z", "2026-02-03T00:00:00.000Z"),
            ("2026-02-03T04", "2026-02-03T04:00:00.000Z"),
            ("2026-02-03 04:05", "2026-02-03T04:05:00.000Z"),
            ("2026-02-03T04:05:06Z", "2026-02-03T04:05:06.000Z"),
            ("2024-02-29T23:59:59.999Z", "2024-02-29T23:59:59.999Z"),
        ] {
            assert_eq!(text.parse::<Moment>().unwrap().as_str(), whole);
            assert!(is_canonical(whole));
        }
    }

    #[test]
    fn what_is_no_moment_in_utc_is_refused() {
        for text in [
            "",
            "2026",
            "2026-02",
            "2026-2-3",
            "2026-02-30",
            "2100-02-29",
            "2026-13-01",
            "2026-00-01",
            "2026-01-00",
            "2026-02-03T24",
            "2026-02-03T04:60",
            "2026-02-03T04:05:60",
            "2026-02-03T04:05:06+01:00",
            "2026-02-03T04:05:06.7",
            "yesterday",
            "2026-02-03T04:05:06.789ZZ",
            "２026-02-03",
            "2026-02-03T",
        ] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
