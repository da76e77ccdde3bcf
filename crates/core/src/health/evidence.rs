//! What speaks for and against a replica since it last entered or left service.

use crate::load::EngineLoad;
use crate::time::Time;
use std::time::Duration;

/// Silent timeouts in a row that count as a stall.
const SILENT_ROW: u32 = 3;

/// Rows of events, and when something last moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Failed scrapes in a row.
    pub(crate) failed_scrapes: u32,
    /// Upstream failures in a row.
    pub(crate) failures: u32,
    /// When a stream byte last came.
    last_byte: Option<Time>,
    /// A success or a byte came after the last failure or 503.
    progressed: bool,
    last_failure: Option<Time>,
    silent: u32,
    last_silent: Option<Time>,
    tokens: Tokens,
}

/// The engine's token counter over time.
#[derive(Clone, Copy, Debug, Default)]
struct Tokens {
    seen: Option<u64>,
    moved: Option<Time>,
    /// Since when requests have been running without any movement.
    still_since: Option<Time>,
    /// The engine ran requests at the last good scrape.
    at_work: bool,
}

impl Evidence {
    /// The rows start anew; when something last moved or failed stays known.
    pub(crate) fn clean_sheet(&mut self) {
        self.failed_scrapes = 0;
        self.failures = 0;
        self.silent = 0;
        self.tokens.still_since = None;
    }

    pub(crate) fn byte(&mut self, at: Time) {
        if self.last_byte.is_some_and(|known| known >= at) {
            return;
        }
        self.last_byte = Some(at);
        if self.last_failure.is_none_or(|failure| at > failure) {
            self.progressed = true;
        }
        if self.last_silent.is_none_or(|silent| at > silent) {
            self.silent = 0;
        }
    }

    /// An answer has begun: a byte that certainly came after everything known so far.
    pub(crate) fn answer_begun(&mut self, now: Time) {
        self.last_byte = Some(now);
        self.progressed = true;
        self.silent = 0;
    }

    pub(crate) fn success(&mut self) {
        self.failures = 0;
        self.progressed = true;
        self.silent = 0;
    }

    pub(crate) fn failure(&mut self, now: Time) {
        self.failures = self.failures.saturating_add(1);
        self.mark(now);
    }

    /// A 503. True if it has to be counted as a failure: nothing good came since the last one.
    pub(crate) fn busy_is_faulty(&mut self, now: Time) -> bool {
        let faulty = !self.progressed;
        if faulty {
            self.failures = self.failures.saturating_add(1);
        }
        self.mark(now);
        faulty
    }

    fn mark(&mut self, now: Time) {
        self.progressed = false;
        self.last_failure = Some(now);
        self.silent = 0;
    }

    /// A request sent at `sent` ended without a byte. True if that completes a row of them during which nothing moved.
    /// Tokens that the engine made meanwhile, and was still making within `stall_after`, are movement: else whoever asks
    /// for answers that take longer than their limit could have a replica ejected that is at work for nobody else.
    pub(crate) fn silent_timeout(&mut self, now: Time, sent: Time, stall_after: Duration) -> bool {
        let made = |moved: Time| moved > sent && now.since(moved) <= stall_after;
        if self.last_byte.is_some_and(|byte| byte > sent) || self.tokens.moved.is_some_and(made) {
            self.silent = 0;
            return false;
        }
        self.silent += 1;
        self.last_silent = Some(now);
        self.silent >= SILENT_ROW
    }

    /// Reads the token counter of a good scrape. True if requests run and nothing has moved for `stall_after`.
    pub(crate) fn frozen(&mut self, now: Time, load: Option<&EngineLoad>, stall_after: Duration) -> bool {
        let Some((load, total)) = load.and_then(|load| Some((load, load.tokens_total?))) else {
            self.tokens = Tokens::default();
            return false;
        };
        if self.tokens.seen.is_some_and(|seen| seen != total) {
            self.tokens.moved = Some(now);
            self.tokens.still_since = None;
        }
        self.tokens.seen = Some(total);
        self.tokens.at_work = load.running > 0;
        if load.running == 0 {
            self.tokens.still_since = None;
            return false;
        }
        let still_since = *self.tokens.still_since.get_or_insert(now);
        let silent = self.last_byte.is_none_or(|byte| now.since(byte) >= stall_after);
        self.tokens.moved.is_some() && silent && now.since(still_since) >= stall_after
    }

    /// Busy is not dead: bytes came while the scrape was out (or within an interval before it), or the token counter
    /// was seen moving within `stall_after` by an engine that had work when it was last seen. One that was idle has
    /// no reason to be late, whatever it counted before.
    pub(crate) fn excuses_timeout(
        &self,
        now: Time,
        sent: Time,
        interval: Duration,
        stall_after: Duration,
    ) -> bool {
        let delivers = self.last_byte.is_some_and(|byte| byte + interval >= sent);
        let moves =
            self.tokens.at_work && self.tokens.moved.is_some_and(|moved| now.since(moved) <= stall_after);
        delivers || moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Scrapes as (second, running, tokens, last byte); the frozen verdict of each.
    #[test]
    fn frozen_needs_a_counter_that_has_moved_and_a_whole_minute_of_running_still() {
        type Row = (u64, u32, Option<u64>, Option<u64>, bool);
        let cases: [(&str, &[Row]); 6] = [
            ("never moved", &[(0, 1, Some(5), None, false), (300, 1, Some(5), None, false)]),
            (
                "moved, then still",
                &[
                    (0, 1, Some(5), None, false),
                    (3, 1, Some(6), None, false),
                    (62, 1, Some(6), None, false),
                    (63, 1, Some(6), None, true),
                ],
            ),
            (
                "a byte reached us",
                &[
                    (0, 1, Some(5), None, false),
                    (3, 1, Some(6), None, false),
                    (63, 1, Some(6), Some(50), false),
                    (110, 1, Some(6), None, true),
                ],
            ),
            (
                "idle in between",
                &[
                    (0, 1, Some(5), None, false),
                    (3, 1, Some(6), None, false),
                    (60, 0, Some(6), None, false),
                    (63, 1, Some(6), None, false),
                    (123, 1, Some(6), None, true),
                ],
            ),
            ("no counter", &[(0, 1, None, None, false), (300, 1, None, None, false)]),
            (
                "a restarted counter moves",
                &[(0, 1, Some(9), None, false), (3, 1, Some(1), None, false), (63, 1, Some(1), None, true)],
            ),
        ];
        for (name, rows) in cases {
            let mut evidence = Evidence::default();
            for (second, running, tokens_total, byte, frozen) in rows {
                if let Some(byte) = byte {
                    evidence.byte(at(*byte));
                }
                let load =
                    EngineLoad { running: *running, tokens_total: *tokens_total, ..EngineLoad::default() };
                assert_eq!(
                    evidence.frozen(at(*second), Some(&load), STALL),
                    *frozen,
                    "{name}, at {second} s"
                );
            }
        }
    }

    #[test]
    fn a_silent_row_is_broken_by_any_byte() {
        let mut evidence = Evidence::default();
        assert!(!evidence.silent_timeout(at(60), at(0), STALL));
        assert!(!evidence.silent_timeout(at(61), at(1), STALL));
        evidence.byte(at(62));
        assert!(!evidence.silent_timeout(at(123), at(63), STALL), "the row starts anew");
        assert!(!evidence.silent_timeout(at(124), at(61), STALL), "a byte came while this one waited");
        for (end, sent, stalled) in [(200, 140, false), (201, 141, false), (202, 142, true)] {
            assert_eq!(evidence.silent_timeout(at(end), at(sent), STALL), stalled);
        }
    }

    /// The engine's token counter as (second, count); the row of three that were sent at 10 s and end at 600 s.
    #[test]
    fn a_silent_row_is_broken_by_tokens_that_the_engine_goes_on_making() {
        type Row = (&'static str, &'static [(u64, u64)], bool);
        let cases: [Row; 5] = [
            ("no counter", &[], true),
            ("still", &[(3, 5), (300, 5), (599, 5)], true),
            ("moved before", &[(3, 5), (6, 6), (599, 6)], true),
            ("moved, then still", &[(3, 5), (300, 6), (599, 6)], true),
            ("moving", &[(3, 5), (300, 6), (599, 7)], false),
        ];
        for (name, counts, stalled) in cases {
            let mut evidence = Evidence::default();
            for (second, total) in counts {
                let load = EngineLoad { running: 3, tokens_total: Some(*total), ..EngineLoad::default() };
                evidence.frozen(at(*second), Some(&load), STALL);
            }
            let row = [600, 601, 602].map(|end| evidence.silent_timeout(at(end), at(10), STALL));
            assert_eq!(row, [false, false, stalled], "{name}");
        }
    }
}
