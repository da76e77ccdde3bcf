//! Lines of the Azure LLM inference traces: `TIMESTAMP,ContextTokens,GeneratedTokens`. They say nothing of prefixes: no
//! request shares any, and none has a session.

use std::collections::BTreeMap;
use std::time::Duration;

use sluicegate_core::Time;
use sluicegate_lab::fleet::Job;

use super::trace::{Reader, Recorded};

/// Whether this is such a trace's first line.
pub(super) fn is_heading(line: &[u8]) -> bool {
    line.trim_ascii().eq_ignore_ascii_case(b"TIMESTAMP,ContextTokens,GeneratedTokens")
}

#[derive(Default)]
pub(super) struct Azure {
    jobs: Vec<Job>,
    /// Seconds of the first line's moment since the year 0.
    first: Option<f64>,
}

impl Reader for Azure {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(line.trim_ascii()).map_err(|_| "it is not UTF-8")?;
        let mut fields = text.split(',');
        let (Some(time), Some(context), Some(generated), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return Err("it has not three fields".into());
        };
        let moment = seconds(time).ok_or("TIMESTAMP is no moment like 2023-11-16 18:15:46.6805900")?;
        let tokens = |field: &str| field.parse::<u32>().map_err(|error| format!("{field:?}: {error}"));
        let first = *self.first.get_or_insert(moment);
        let arrives = Time::ZERO + Duration::try_from_secs_f64((moment - first).max(0.0)).unwrap_or_default();
        self.jobs.push(Job::unique(arrives, tokens(context)?, tokens(generated)?));
        Ok(())
    }

    fn requests(self: Box<Self>) -> (Vec<Recorded>, BTreeMap<String, usize>) {
        (self.jobs.into_iter().map(Recorded::nameless).collect(), BTreeMap::new())
    }
}

/// Seconds since the year 0 of `2023-11-16 18:15:46.6805900`, in a calendar good enough for differences of hours.
fn seconds(text: &str) -> Option<f64> {
    let (date, time) = text.split_once([' ', 'T'])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let (year, month, day) = (date.next()?.ok()?, date.next()?.ok()?, date.next()?.ok()?);
    let time =
        time.trim_end_matches('Z').split_once('+').map_or(time.trim_end_matches('Z'), |(time, _)| time);
    let mut time = time.splitn(3, ':').map(str::parse::<f64>);
    let (hour, minute, second) = (time.next()?.ok()?, time.next()?.ok()?, time.next()?.ok()?);
    let on_the_clock =
        (0.0..24.0).contains(&hour) && (0.0..60.0).contains(&minute) && (0.0..61.0).contains(&second);
    let in_the_calendar = (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !(on_the_clock && in_the_calendar) {
        return None;
    }
    Some(days(year, month, day) as f64 * 86_400.0 + hour * 3_600.0 + minute * 60.0 + second)
}

/// Days since the first of March of the year 0 in the Gregorian calendar.
pub(super) fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_from_the_first() {
        assert!(is_heading(b"TIMESTAMP,ContextTokens,GeneratedTokens\r"));
        let mut reader = Box::new(Azure::default());
        reader.line(b"2023-12-31 23:59:59.5000000,374,44").unwrap();
        reader.line(b"2024-01-01 00:00:01.2500000,9,1").unwrap();
        assert!(reader.line(b"2024-01-01 00:00:01,x,1").is_err());
        assert!(reader.line(b"today,9,1").is_err());
        assert!(reader.line(b"2024-99-99 00:00:01,9,1").is_err());
        assert!(reader.line(b"2024-01-01 99:00:01,9,1").is_err());
        let jobs: Vec<Job> = reader.requests().0.into_iter().map(|recorded| recorded.job).collect();
        assert_eq!((jobs[0].arrives, jobs[0].prompt_tokens, jobs[0].output_tokens), (Time::ZERO, 374, 44));
        assert!((jobs[1].arrives.as_nanos() as f64 - 1.75e9).abs() < 1e4);
    }

    #[test]
    fn the_calendar_knows_leap_days() {
        assert_eq!(days(2024, 3, 1) - days(2024, 2, 28), 2);
        assert_eq!(days(2023, 3, 1) - days(2023, 2, 28), 1);
        assert_eq!(days(2000, 3, 1) - days(1999, 3, 1), 366);
        assert_eq!(days(2101, 1, 1) - days(2100, 1, 1), 365);
    }
}
