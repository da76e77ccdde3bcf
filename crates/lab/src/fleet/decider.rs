//! What stands between clients and replicas: the seam for our modes and for rivals.

use super::{Host, Job, JobId, Outcome};
use sluicegate_core::{ReplicaId, Scrape, Time, Transition, Verdict};

/// Decides where requests go. Told everything that a gateway would see, in the order in which it happens; answers with
/// choices, and with [`Order`]s that are read after every call.
pub trait Decider {
    /// A request asks for a place, the first time or, with `ask.tried`, again.
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen;

    /// A request that was told [`Chosen::Waits`] leaves. No [`Order::Send`] for it may follow.
    fn left(&mut self, now: Time, job: JobId);

    /// The first byte of its answer is here.
    fn first_byte(&mut self, now: Time, job: JobId);

    /// Its attempt is over, well or not. For each place given this is called exactly once.
    fn ended(&mut self, now: Time, job: JobId, end: AttemptEnd);

    /// An order was answered, or a verdict that had been deferred is due.
    fn report(&mut self, now: Time, report: Report);

    /// The deadline has come.
    fn tick(&mut self, now: Time);

    /// When `tick` must be called next.
    fn next_deadline(&self) -> Option<Time>;

    /// The next thing to do.
    fn poll(&mut self) -> Option<Order>;
}

/// The question.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Which request.
    pub id: JobId,
    /// The request. `output_tokens` is nothing that a gateway could know.
    pub job: &'a Job,
    /// Replicas that it has failed on.
    pub tried: &'a [ReplicaId],
    /// It follows a 429: only a replica with room will do.
    pub with_room: bool,
    /// None of its route's targets can serve it: only the fallback will do. Only for routes that have one.
    pub fallback: bool,
    /// The replicas as they truly are. For the oracle, and for "fresh" metrics; no gateway can see into them.
    pub hosts: &'a [Host],
}

impl Ask<'_> {
    /// The whole blocks of the prompt, where all engines have the same block size. [`Job::blocks`] goes on into the answer,
    /// which nobody knows yet.
    #[must_use]
    pub fn prompt_blocks(&self) -> &[u64] {
        let block_tokens = self.hosts.first().map_or(1, |host| host.profile().block_tokens.max(1));
        let whole = (self.job.prompt_tokens / block_tokens) as usize;
        self.job.blocks.get(..whole).unwrap_or(&self.job.blocks)
    }
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    /// It goes there at once.
    Replica {
        /// Where.
        replica: ReplicaId,
        /// Why.
        reason: &'static str,
    },
    /// It waits for an [`Order::Send`] or an [`Order::Deny`].
    Waits,
    /// It ends.
    Refused(Outcome),
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// What that says of the replica.
    pub verdict: Verdict,
    /// Tokens that it cost, where known.
    pub served: Option<u64>,
    /// Tokens of its answer, where known.
    pub generated: Option<u32>,
    /// When a stream byte last came from that replica, on any stream.
    pub last_byte: Option<Time>,
}

/// What became of an order, and late verdicts.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// Answers [`Order::Scrape`].
    Scraped {
        /// Whose.
        replica: ReplicaId,
        /// What it said.
        scrape: Scrape,
        /// When a stream byte last came from there.
        last_byte: Option<Time>,
    },
    /// Answers [`Order::Canary`].
    Canary {
        /// Whose.
        replica: ReplicaId,
        /// Whether a byte came in time.
        answered: bool,
    },
    /// A replay has spoken: this verdict was deferred when its attempt ended.
    Booked {
        /// Whose attempt it was.
        job: JobId,
        /// Where that was.
        replica: ReplicaId,
        /// The verdict.
        verdict: Verdict,
        /// When a stream byte last came from there.
        last_byte: Option<Time>,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// Scrape it now; answered by [`Report::Scraped`].
    Scrape(ReplicaId),
    /// Send it a canary now; answered by [`Report::Canary`].
    Canary(ReplicaId),
    /// Its requests without a first byte are to be sent elsewhere.
    AbortUnanswered(ReplicaId),
    /// A waiting request goes there.
    Send {
        /// Which request.
        job: JobId,
        /// Where.
        replica: ReplicaId,
        /// Why.
        reason: &'static str,
    },
    /// A waiting request ends.
    Deny {
        /// Which request.
        job: JobId,
        /// How.
        outcome: Outcome,
    },
    /// Nothing to do: a replica's health changed.
    Note(Transition),
}

impl<D: Decider + ?Sized> Decider for Box<D> {
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen {
        (**self).choose(now, ask)
    }

    fn left(&mut self, now: Time, job: JobId) {
        (**self).left(now, job);
    }

    fn first_byte(&mut self, now: Time, job: JobId) {
        (**self).first_byte(now, job);
    }

    fn ended(&mut self, now: Time, job: JobId, end: AttemptEnd) {
        (**self).ended(now, job, end);
    }

    fn report(&mut self, now: Time, report: Report) {
        (**self).report(now, report);
    }

    fn tick(&mut self, now: Time) {
        (**self).tick(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        (**self).next_deadline()
    }

    fn poll(&mut self) -> Option<Order> {
        (**self).poll()
    }
}
