//! Wall-clock moments as RFC 3339 text in UTC with milliseconds.

use std::time::{SystemTime, UNIX_EPOCH};

/// Appends `time` as `2026-02-03T04:05:06.789Z`. Moments before 1970 are written as 1970, later than 9999 as they
/// fall in their year modulo 10,000.
pub(super) fn append_time(out: &mut Vec<u8>, time: SystemTime) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil_from_days(days);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    digits(&mut text[0..4], year % 10_000);
    digits(&mut text[5..7], month);
    digits(&mut text[8..10], day);
    digits(&mut text[11..13], second / 3600);
    digits(&mut text[14..16], second / 60 % 60);
    digits(&mut text[17..19], second % 60);
    digits(&mut text[20..23], u64::from(since.subsec_millis()));
    out.extend_from_slice(&text);
}

fn digits(places: &mut [u8], mut value: u64) {
    for place in places.iter_mut().rev() {
        *place = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

/// (year, month, day) of a day counted from 1970-01-01, in the proleptic Gregorian calendar. The algorithm is
/// `civil_from_days` of Howard Hinnant's "chrono-Compatible Low-Level Date Algorithms", for days after the epoch.
const fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_written_in_utc_with_milliseconds() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_251_199_001, "2024-02-29T23:59:59.001Z"),
            (1_770_091_506_789, "2026-02-03T04:05:06.789Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            let mut out = Vec::new();
            append_time(&mut out, UNIX_EPOCH + Duration::from_millis(millis));
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn a_clock_set_before_1970_is_written_as_1970() {
        let mut out = Vec::new();
        append_time(&mut out, UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(out, b"1970-01-01T00:00:00.000Z");
    }
}
