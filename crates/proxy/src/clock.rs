//! The only reader of the clock.

use std::cell::Cell;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluicegate_core::{Calendar, Time};

static ORIGIN: OnceLock<Instant> = OnceLock::new();

thread_local! {
    /// The moment at which the poll that runs on this thread began, while one of [`Moments`] does.
    static MOMENT: Cell<Option<Time>> = const { Cell::new(None) };
}

/// The moment now, since the process first asked. Inside of [`Moments`]: when this poll began.
pub(crate) fn now() -> Time {
    MOMENT.get().unwrap_or_else(read)
}

/// The moment now, whatever moment [`Moments`] keep: for what another thread may have done within this poll, on its
/// own time.
pub(crate) fn within_poll() -> Time {
    read()
}

fn read() -> Time {
    let nanos = ORIGIN.get_or_init(Instant::now).elapsed().as_nanos();
    Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A future for which time moves between its polls only: a request asks for the time a dozen times, and most of them
/// within a few microseconds of each other. Nothing in it may work long between two awaits.
pub(crate) struct Moments<F>(Pin<Box<F>>);

impl<F: Future> Moments<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Box::pin(future))
    }
}

impl<F: Future> Future for Moments<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        /// Also when the poll panics.
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                MOMENT.set(None);
            }
        }
        MOMENT.set(Some(read()));
        let _end = End;
        self.0.as_mut().poll(cx)
    }
}

/// Wall clock time, for usage lines only.
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// `at` as the timer wheel of tokio understands it.
pub(crate) fn tokio_instant(at: Time) -> tokio::time::Instant {
    let origin = *ORIGIN.get_or_init(Instant::now);
    tokio::time::Instant::from_std(origin + at.since(Time::ZERO))
}

/// The calendar's part in budgets, UTC.
pub(crate) fn calendar() -> Calendar {
    calendar_at(wall().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Days to year and month: H. Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
fn calendar_at(since_epoch: Duration) -> Calendar {
    const DAY: u64 = 86_400;
    let day = since_epoch.as_secs() / DAY;
    let day_left = Duration::from_secs((day + 1) * DAY).saturating_sub(since_epoch);
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Months from March.
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5;
    let year = year_of_era + era * 400;
    // January and February belong to the next year's count of months; February is the last and shortest.
    let leap_next = (year + 1) % 4 == 0 && ((year + 1) % 100 != 0 || (year + 1) % 400 == 0);
    let length = match month {
        11 => 28 + u64::from(leap_next),
        1 | 3 | 6 | 8 => 30,
        _ => 31,
    };
    let month_left = day_left + Duration::from_secs((length - day_of_month - 1) * DAY);
    Calendar {
        day: u32::try_from(day).unwrap_or(u32::MAX),
        month: u32::try_from(year * 12 + month).unwrap_or(u32::MAX),
        day_left,
        month_left,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_end_when_calendars_say_so() {
        // (seconds since 1970, days left of the month after this day)
        for (at, days) in [
            (0, 30),             // 1970-01-01
            (951_696_000, 1),    // 2000-02-28: a leap year
            (951_782_400, 0),    // 2000-02-29
            (951_868_800, 30),   // 2000-03-01
            (1_677_542_400, 0),  // 2023-02-28
            (1_704_067_199, 0),  // 2023-12-31 23:59:59
            (1_704_067_200, 30), // 2024-01-01
            (1_714_435_200, 0),  // 2024-04-30
            (4_107_456_000, 0),  // 2100-02-28: no leap year
        ] {
            let calendar = calendar_at(Duration::from_secs(at));
            assert_eq!((calendar.month_left - calendar.day_left).as_secs() / 86_400, days, "{at}");
            let next = calendar_at(Duration::from_secs(at) + calendar.month_left);
            assert_eq!(next.month, calendar.month + 1, "{at}");
            let last = calendar_at(Duration::from_secs(at) + calendar.month_left - Duration::from_secs(1));
            assert_eq!(last.month, calendar.month, "{at}");
            assert_eq!(
                calendar_at(Duration::from_secs(at) + calendar.day_left).day,
                calendar.day + 1,
                "{at}"
            );
        }
    }
}
