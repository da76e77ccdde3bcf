//! When each stream's next token is due. All streams have the same step, so a queue is sorted as it is: no heap, no wheel.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A token that is due.
pub(super) struct Due {
    at: Instant,
    pub(super) key: usize,
    /// Tells a stream from an earlier one in the same place.
    pub(super) stream_id: u64,
}

/// The open streams of a replica.
pub(super) struct Pace {
    step: Duration,
    queue: VecDeque<Due>,
    last_id: u64,
}

impl Pace {
    pub(super) fn new(step: Duration) -> Self {
        Self { step, queue: VecDeque::new(), last_id: 0 }
    }

    /// Streams that wait for a token.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// A new stream, whose first token is due in one step; its id.
    pub(super) fn begin(&mut self, key: usize, now: Instant) -> u64 {
        self.last_id += 1;
        self.queue.push_back(Due { at: now + self.step, key, stream_id: self.last_id });
        self.last_id
    }

    /// The next token, if it is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Due> {
        self.queue.pop_front_if(|due| due.at <= now)
    }

    /// One more token, one step after the last one was due: a late token does not delay those after it.
    pub(super) fn again(&mut self, due: Due) {
        self.queue.push_back(Due { at: due.at + self.step, ..due });
    }

    /// How long there is nothing to do, unless there are no streams.
    pub(super) fn until_next(&self, now: Instant) -> Option<Duration> {
        self.queue.front().map(|due| due.at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::{Duration, Instant};

    #[test]
    fn tokens_are_due_a_step_apart_however_late_they_were_taken() {
        let (start, step) = (Instant::now(), Duration::from_millis(40));
        let mut pace = Pace::new(step);
        pace.begin(7, start);
        assert!(pace.pop(start).is_none());
        let due = pace.pop(start + step + step / 2).expect("the first token is due");
        pace.again(due);
        assert_eq!(pace.until_next(start + step), Some(step));
        assert_eq!(pace.pop(start + 2 * step).map(|due| due.key), Some(7));
    }
}
