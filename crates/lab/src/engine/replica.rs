//! The scheduler: requests in, tokens out, one next deadline.

use super::blocks::BlockPool;
use super::sequence::Sequence;
use super::{Counters, FinishReason, Output, Profile, Progress, Request, RequestId, StepCost, SubmitError};
use std::collections::VecDeque;
use std::time::Duration;

/// One vLLM replica in virtual time.
///
/// Moments passed in never go backwards. Call [`Replica::advance`] when [`Replica::next_deadline`] is due; if it is called
/// late, the missed steps are made up for at their own times. Read [`Replica::poll_output`] until it is empty.
#[derive(Debug)]
pub struct Replica {
    profile: Profile,
    pool: BlockPool,
    /// In order of admission. At most one prefill is cut by the token budget, and it is the youngest.
    running: Vec<Sequence>,
    waiting: VecDeque<Sequence>,
    step_ends: Option<Duration>,
    /// Of the step under way or the last one.
    step_length: Duration,
    /// Requests that the last step had to leave in the queue.
    left_over: usize,
    /// No step ends.
    frozen: bool,
    outputs: VecDeque<Output>,
    totals: Counters,
}

impl Replica {
    /// An idle replica with an empty cache. Limits of 0 that would stop it are taken as 1.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        let profile = Profile {
            block_tokens: profile.block_tokens.max(1),
            max_num_batched_tokens: profile.max_num_batched_tokens.max(1),
            max_num_seqs: profile.max_num_seqs.max(1),
            ..profile
        };
        Self {
            pool: BlockPool::new(profile.kv_blocks),
            profile,
            running: Vec::new(),
            waiting: VecDeque::new(),
            step_ends: None,
            step_length: Duration::ZERO,
            left_over: 0,
            frozen: false,
            outputs: VecDeque::new(),
            totals: Counters::default(),
        }
    }

    /// Queues a request; an idle replica begins a step with it at once.
    ///
    /// # Errors
    /// See [`SubmitError`]; nothing is queued then.
    pub fn submit(&mut self, now: Duration, id: RequestId, request: Request) -> Result<(), SubmitError> {
        self.advance(now);
        let in_flight = self.running.len() + self.waiting.len();
        if self.profile.max_num_queued.is_some_and(|limit| in_flight >= limit as usize) {
            self.totals.refused += 1;
            return Err(SubmitError::QueueFull);
        }
        let tokens = request.prompt_tokens.max(1).saturating_add(request.output_tokens.max(1));
        let (needed, available) = (self.profile.blocks_of(tokens), self.pool.capacity());
        if needed > available {
            return Err(SubmitError::TooLarge { needed, available });
        }
        if self.running.iter().chain(&self.waiting).any(|sequence| sequence.id == id) {
            return Err(SubmitError::DuplicateId);
        }
        self.waiting.push_back(Sequence::new(id, request, now));
        if self.step_ends.is_none() {
            self.begin_step(now);
        }
        Ok(())
    }

    /// Ends a request at once and frees what it holds; tokens of it that are still to be polled stay. False where it is
    /// not (or no longer) in flight.
    pub fn abort(&mut self, now: Duration, id: RequestId) -> bool {
        self.advance(now);
        let running =
            self.running.iter().position(|sequence| sequence.id == id).map(|at| self.running.remove(at));
        let waiting = |waiting: &mut VecDeque<Sequence>| {
            waiting.iter().position(|sequence| sequence.id == id).and_then(|at| waiting.remove(at))
        };
        let Some(mut sequence) = running.or_else(|| waiting(&mut self.waiting)) else {
            return false;
        };
        sequence.release(&mut self.pool);
        self.totals.aborted += 1;
        true
    }

    /// While frozen, no step ends; the one under way ends when that is over, at the earliest.
    pub fn set_frozen(&mut self, now: Duration, frozen: bool) {
        self.advance(now);
        if self.frozen && !frozen {
            self.step_ends = self.step_ends.map(|end| end.max(now));
        }
        self.frozen = frozen;
    }

    /// When the step under way ends; `None` while idle or frozen.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        self.step_ends.filter(|_| !self.frozen)
    }

    /// Completes every step that ends at or before `now`.
    pub fn advance(&mut self, now: Duration) {
        while let Some(end) = self.next_deadline().filter(|end| *end <= now) {
            self.complete_step(end);
            self.begin_step(end);
        }
    }

    /// The oldest token not read yet.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// There are tokens to be read.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.outputs.is_empty()
    }

    /// What the replica would report now.
    #[must_use]
    pub fn counters(&self) -> Counters {
        Counters {
            running: self.running.len() as u32,
            waiting: self.waiting.len() as u32,
            kv_blocks_used: self.pool.capacity() - self.pool.free(),
            kv_blocks: self.pool.capacity(),
            ..self.totals
        }
    }

    /// Requests that wait by the engine's metrics: those that the last step had no room for. One that came since has not
    /// been looked at yet, and vLLM, which writes its numbers down once a step, does not show it as waiting.
    #[must_use]
    pub fn shown_waiting(&self) -> u32 {
        self.left_over.min(self.waiting.len()) as u32
    }

    /// How long steps take from the next one on.
    pub fn set_cost(&mut self, cost: StepCost) {
        self.profile.cost = cost;
    }

    /// How many of the leading blocks are in the prefix cache now.
    #[must_use]
    pub fn cached_blocks(&self, hashes: &[u64]) -> usize {
        self.pool.find(hashes).len()
    }

    /// How long the step under way takes in all; while idle that of the last one.
    #[must_use]
    pub fn step_length(&self) -> Duration {
        self.step_length
    }

    /// How far each request here has come: those in the batch in order of admission, then the queue.
    pub fn progress(&self) -> impl Iterator<Item = Progress> {
        let running = self.running.iter().map(|sequence| (sequence, true));
        let waiting = self.waiting.iter().map(|sequence| (sequence, false));
        running.chain(waiting).map(|(sequence, running)| {
            let cached = sequence.cacheable(self.profile.block_tokens);
            let computed = if running {
                sequence.computed()
            } else {
                self.pool.find(cached).len() as u32 * self.profile.block_tokens
            };
            Progress { known: sequence.known(), computed, running, decoding: sequence.is_decoding() }
        })
    }

    fn begin_step(&mut self, now: Duration) {
        let mut budget = self.profile.max_num_batched_tokens;
        // Blocks are short when a request had to go: admitting another would only throw out the next one.
        if !self.schedule_running(&mut budget) {
            self.admit(now, &mut budget);
        }
        self.left_over = self.waiting.len();
        let cost = &self.profile.cost;
        let in_step = self.running.iter().filter(|sequence| sequence.scheduled > 0);
        let (mut work_ns, mut tokens) = (0.0, 0_u32);
        for sequence in in_step {
            tokens += sequence.scheduled;
            work_ns += if sequence.is_decoding() {
                cost.decode_ns(sequence.computed())
            } else {
                cost.prefill_ns(sequence.scheduled, sequence.computed())
            };
        }
        debug_assert!(tokens <= self.profile.max_num_batched_tokens);
        debug_assert!(self.running.len() <= self.profile.max_num_seqs as usize);
        self.step_length = cost.step(work_ns);
        self.step_ends = (tokens > 0).then(|| now.saturating_add(self.step_length));
        if tokens > 0 {
            self.totals.steps += 1;
            self.totals.step_tokens += u64::from(tokens);
        }
    }

    /// One token of each decoding request, or the next chunk, oldest first. Where blocks run out the youngest goes back to
    /// the head of the queue. True if one did.
    fn schedule_running(&mut self, budget: &mut u32) -> bool {
        let mut preempted = false;
        let mut next = 0;
        while *budget > 0 {
            let Some(sequence) = self.running.get_mut(next) else { break };
            let tokens = sequence.missing().min(*budget);
            if sequence.schedule(tokens, self.profile.block_tokens, &mut self.pool) {
                *budget -= tokens;
                next += 1;
            } else {
                // The youngest has no part in the step yet: it is this one or one after it.
                self.preempt_youngest();
                preempted = true;
            }
        }
        preempted
    }

    fn preempt_youngest(&mut self) {
        if let Some(mut sequence) = self.running.pop() {
            sequence.release(&mut self.pool);
            self.totals.preemptions += 1;
            self.waiting.push_front(sequence);
        }
    }

    /// Takes requests from the queue, strictly in order, while there is budget, a seat, and room for the whole prompt
    /// (vLLM's default: no prompt is begun that would have to be thrown out for its own second half).
    fn admit(&mut self, now: Duration, budget: &mut u32) {
        let block_tokens = self.profile.block_tokens;
        while *budget > 0 && self.running.len() < self.profile.max_num_seqs as usize {
            let Some(head) = self.waiting.front() else { break };
            let hits = self.pool.find(head.cacheable(block_tokens));
            let fresh = self.profile.blocks_of(head.known()) - hits.len() as u32;
            if fresh + self.pool.unheld(&hits) > self.pool.free() {
                break;
            }
            let Some(mut sequence) = self.waiting.pop_front() else { break };
            hits.iter().for_each(|&block| self.pool.hold(block));
            let first_time = !sequence.was_admitted();
            sequence.admit(now, hits, block_tokens);
            if first_time {
                self.totals.prefix_queries += u64::from(sequence.prompt_tokens());
                self.totals.prefix_hits += u64::from(sequence.cached_tokens());
            }
            let tokens = sequence.missing().min(*budget);
            let fits = sequence.schedule(tokens, block_tokens, &mut self.pool);
            debug_assert!(fits, "room for the whole prompt was checked");
            *budget -= tokens;
            self.running.push(sequence);
        }
    }

    fn complete_step(&mut self, at: Duration) {
        let Self { running, pool, outputs, totals, .. } = self;
        running.retain_mut(|sequence| {
            if sequence.scheduled == 0 {
                return true;
            }
            let Some(output) = sequence.complete(at) else { return true };
            totals.generation_tokens += 1;
            if output.generated == 1 {
                totals.prompt_tokens += u64::from(sequence.prompt_tokens());
                totals.prompt_tokens_cached += u64::from(output.cached_tokens);
            }
            match output.finish {
                Some(FinishReason::Stop) => totals.finished_stop += 1,
                Some(FinishReason::Length) => totals.finished_length += 1,
                None => {}
            }
            outputs.push_back(output);
            if output.finish.is_some() {
                sequence.release(pool);
            }
            output.finish.is_none()
        });
        self.step_ends = None;
    }

    /// Blocks and requests add up; called by the tests after every event.
    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.pool
            .check_invariants(self.running.iter().flat_map(|sequence| sequence.blocks().iter().copied()));
        for sequence in &self.waiting {
            assert!(sequence.blocks().is_empty() && sequence.scheduled == 0, "who waits holds nothing");
        }
        let work = !self.running.is_empty() || !self.waiting.is_empty();
        assert!(!work || self.step_ends.is_some(), "a replica with work has a deadline");
        let older = self.running.split_last().map_or(&[][..], |(_, older)| older);
        let cut = older
            .iter()
            .filter(|sequence| sequence.missing() > 1 && sequence.missing() != sequence.scheduled);
        assert_eq!(cut.count(), 0, "only the youngest prefill is cut");
    }
}
