//! Full buffers on their way from the threads that write lines to the writer, and how their way ends when the output
//! takes nothing any more.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::WAITING;
use super::buffers::Chunk;

/// At most [`WAITING`] chunks. It knows of every line that has left its thread's buffer and is not yet written, so
/// that none is forgotten in the count of lost lines.
#[derive(Debug, Default)]
pub(super) struct Handover {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Chunk>,
    /// Lines that the writer has taken and not yet written.
    in_hand: u64,
    /// Grows with each chunk that the outputs have taken or refused.
    progress: u64,
    phase: Phase,
    /// Somebody did not want to wait for the output.
    at_once: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Whoever may wait for room waits as long as it takes.
    #[default]
    Open,
    /// Nobody waits longer than its patience for an output that takes nothing.
    Ending,
    /// No chunk comes any more; those there are written.
    Closed,
    /// The output takes nothing: what is left stays unwritten.
    GivenUp,
    /// The writer has ended.
    Ended,
}

/// What the writer finds.
#[derive(Debug)]
pub(super) enum Next {
    Chunk(Chunk),
    /// Nothing came.
    Nothing,
    /// Nothing will come.
    End,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Left {
    /// Lines that were not written.
    pub(super) lines: u64,
    /// The writer has ended; otherwise it hangs in a write.
    pub(super) ended: bool,
    /// A call of [`Handover::at_once`] is why.
    pub(super) at_once: bool,
}

impl Handover {
    /// Takes the chunk where there is room for it now.
    pub(super) fn offer(&self, chunk: Chunk) -> bool {
        self.push(self.lock(), chunk)
    }

    /// Waits for room. Once it is [`ending`](Self::ending), only as long as the output takes something within `patience`.
    pub(super) fn wait_for_room(&self, chunk: Chunk, patience: Duration) -> bool {
        let mut state = self.lock();
        while state.phase < Phase::Closed && state.chunks.len() >= WAITING {
            if state.phase == Phase::Open {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                state = self.wait_for_progress(state, patience);
            }
        }
        self.push(state, chunk)
    }

    fn push(&self, mut state: MutexGuard<'_, State>, chunk: Chunk) -> bool {
        let takes = state.phase < Phase::Closed && state.chunks.len() < WAITING;
        if takes {
            state.chunks.push_back(chunk);
            self.changed.notify_all();
        }
        takes
    }

    /// The writer's next chunk, waited for at most `wait`.
    pub(super) fn next(&self, wait: Duration) -> Next {
        let idle = |state: &mut State| state.chunks.is_empty() && state.phase < Phase::Closed;
        let waited = self.changed.wait_timeout_while(self.lock(), wait, idle);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.phase >= Phase::GivenUp {
            return Next::End;
        }
        match state.chunks.pop_front() {
            Some(chunk) => {
                state.in_hand += chunk.lines;
                self.changed.notify_all();
                Next::Chunk(chunk)
            }
            None if state.phase == Phase::Closed => Next::End,
            None => Next::Nothing,
        }
    }

    /// Puts what `collect` finds into the writer's hands.
    pub(super) fn collect(&self, collect: impl FnOnce() -> Vec<Chunk>) -> Vec<Chunk> {
        let mut state = self.lock();
        if state.phase >= Phase::GivenUp {
            return Vec::new();
        }
        let chunks = collect();
        state.in_hand += lines(&chunks);
        chunks
    }

    /// The outputs have taken or refused that many lines. False: they came too late and are counted as left.
    pub(super) fn done(&self, lines: u64) -> bool {
        let mut state = self.lock();
        state.progress += 1;
        let rest = state.in_hand.checked_sub(lines);
        state.in_hand = rest.unwrap_or(0);
        self.changed.notify_all();
        rest.is_some()
    }

    /// The writer has ended, however it did.
    pub(super) fn ended(&self) {
        self.lock().phase = Phase::Ended;
        self.changed.notify_all();
    }

    /// From now on nobody waits for an output that takes nothing.
    pub(super) fn ending(&self) {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Ending);
        self.changed.notify_all();
    }

    /// Ends the wait of [`close`](Self::close), if there is one.
    pub(super) fn at_once(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            state.phase = Phase::GivenUp;
            state.at_once = true;
            self.changed.notify_all();
        }
    }

    /// Takes no chunk any more and waits for the writer to end, as long as the outputs take something within
    /// `patience`. `rest` closes the buffers and finds what still was in them.
    pub(super) fn close(&self, patience: Duration, rest: impl FnOnce() -> Vec<Chunk>) -> Left {
        let mut state = self.lock();
        state.phase = state.phase.max(Phase::Closed);
        self.changed.notify_all();
        while state.phase < Phase::GivenUp {
            state = self.wait_for_progress(state, patience);
        }
        let waiting = state.chunks.drain(..).map(|chunk| chunk.lines).sum::<u64>();
        let lines = std::mem::take(&mut state.in_hand) + waiting + lines(&rest());
        Left { lines, ended: state.phase == Phase::Ended, at_once: state.at_once }
    }

    /// Gives up where there is none within `patience`.
    fn wait_for_progress<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        patience: Duration,
    ) -> MutexGuard<'a, State> {
        let (progress, phase) = (state.progress, state.phase);
        let none = |state: &mut State| state.progress == progress && state.phase == phase;
        let waited = self.changed.wait_timeout_while(state, patience, none);
        let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            state.phase = Phase::GivenUp;
            self.changed.notify_all();
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lines(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| chunk.lines).sum()
}
