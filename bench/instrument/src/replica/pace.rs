//! When each stream's next token is due. All streams have the same delay to the first token and the same step between
//! tokens, so two queues are sorted as they are: no heap, no wheel.

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
    first: Duration,
    step: Duration,
    beginning: VecDeque<Due>,
    running: VecDeque<Due>,
    last_id: u64,
}

impl Pace {
    /// `first`: from a request to its first token. `step`: from one token to the next.
    pub(super) fn new(first: Duration, step: Duration) -> Self {
        Self { first, step, beginning: VecDeque::new(), running: VecDeque::new(), last_id: 0 }
    }

    /// Streams that wait for a token.
    pub(super) fn len(&self) -> usize {
        self.beginning.len() + self.running.len()
    }

    /// A new stream; its id.
    pub(super) fn begin(&mut self, key: usize, now: Instant) -> u64 {
        self.last_id += 1;
        self.beginning.push_back(Due { at: now + self.first, key, stream_id: self.last_id });
        self.last_id
    }

    /// The next token, if it is due.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Due> {
        self.earliest_mut()?.pop_front_if(|due| due.at <= now)
    }

    /// One more token, one step after the last one was due: a late token does not delay those after it.
    pub(super) fn again(&mut self, due: Due) {
        self.running.push_back(Due { at: due.at + self.step, ..due });
    }

    /// How long there is nothing to do, unless there are no streams.
    pub(super) fn until_next(&self, now: Instant) -> Option<Duration> {
        let heads = [self.beginning.front(), self.running.front()];
        heads.into_iter().flatten().map(|due| due.at.saturating_duration_since(now)).min()
    }

    /// The queue whose head is due first.
    fn earliest_mut(&mut self) -> Option<&mut VecDeque<Due>> {
        let queues = [&mut self.beginning, &mut self.running];
        let waiting = queues.into_iter().filter(|queue| !queue.is_empty());
        waiting.min_by_key(|queue| queue.front().map(|due| due.at))
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::{Duration, Instant};

    #[test]
    fn tokens_are_due_a_step_apart_however_late_they_were_taken() {
        let (start, step) = (Instant::now(), Duration::from_millis(40));
        let mut pace = Pace::new(step, step);
        pace.begin(7, start);
        assert!(pace.pop(start).is_none());
        let due = pace.pop(start + step + step / 2).expect("the first token is due");
        pace.again(due);
        assert_eq!(pace.until_next(start + step), Some(step));
        assert_eq!(pace.pop(start + 2 * step).map(|due| due.key), Some(7));
    }

    #[test]
    fn a_first_token_has_its_own_delay_and_overtakes() {
        let (start, first, step) =
            (Instant::now(), Duration::from_millis(50), Duration::from_millis(200));
        let mut pace = Pace::new(first, step);
        pace.begin(1, start);
        let due = pace.pop(start + first).expect("the first token is due");
        pace.again(due);
        pace.begin(2, start + first);
        assert_eq!(pace.len(), 2);
        assert_eq!(pace.until_next(start + first), Some(first));
        assert_eq!(pace.pop(start + first + step).map(|due| due.key), Some(2));
        assert_eq!(pace.pop(start + first + step).map(|due| due.key), Some(1));
    }
}
