//! Other ways to choose a replica, from their published descriptions, to be compared with ours on the same fleet.
//!
//! Each is a [`Rival`] in its own file. [`Bench`] makes a [`Decider`] of one: it keeps the books every gateway keeps
//! (own requests, scrapes every 3 s) and asks the rival only where to go. Rivals know no health: a bench is for
//! replicas that are well.
mod books;
mod bounded_hash;
mod cache_aware;
mod least_connections;
mod least_prefill;
mod mirror;
mod oracle;
mod overlap;
mod power_of_two;
mod product;
mod random;
mod round_robin;
mod scorers;
mod session_hash;

pub use books::{Account, Books};
pub use bounded_hash::BoundedHash;
pub use cache_aware::CacheAware;
pub use least_connections::LeastConnections;
pub use least_prefill::LeastPrefill;
pub use oracle::Oracle;
pub use overlap::Overlap;
pub use power_of_two::PowerOfTwo;
pub use product::Product;
pub use random::Random;
pub use round_robin::RoundRobin;
pub use scorers::{Freshness, Scorers};
pub use session_hash::SessionHash;

use crate::fleet::{Ask, AttemptEnd, Chosen, Decider, JobId, Order, Outcome, Report};
use sluicegate_core::{ReplicaId, Scrape, Session, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// A rule that chooses among replicas that are all well.
pub trait Rival {
    /// Its name, also the reason of its choices.
    fn name(&self) -> &'static str;

    /// Chooses one of [`Books::open_to`] the request; `None` where there is none. What the rival remembers of the choice,
    /// it notes now.
    fn choose(&mut self, now: Time, ask: &Ask<'_>, books: &Books) -> Option<Pick>;
}

/// A rival's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Index of the replica.
    pub replica: usize,
    /// Tokens of the prompt that the rival takes for cached there; 0 where it has no idea.
    pub cached: u32,
}

impl Pick {
    fn of(replica: usize) -> Self {
        Self { replica, cached: 0 }
    }
}

/// Time between two scrapes of a replica.
const SCRAPE_INTERVAL: Duration = Duration::from_secs(3);

/// A rival as a decider.
#[derive(Debug)]
pub struct Bench<R> {
    rival: R,
    books: Books,
    /// When each replica is scraped next; `None` while a scrape is under way.
    due: Vec<Option<Time>>,
    orders: VecDeque<Order>,
}

impl<R: Rival> Bench<R> {
    /// The rival in front of so many replicas, whose scrapes are spread over the interval.
    #[must_use]
    pub fn new(rival: R, replicas: usize) -> Self {
        let step = SCRAPE_INTERVAL / u32::try_from(replicas.max(1)).unwrap_or(u32::MAX);
        let due = (0..replicas).map(|i| Some(Time::ZERO + step * u32::try_from(i).unwrap_or(0))).collect();
        Self { rival, books: Books::new(replicas), due, orders: VecDeque::new() }
    }
}

impl<R: Rival> Decider for Bench<R> {
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen {
        let Some(pick) = self.rival.choose(now, ask, &self.books) else {
            return Chosen::Refused(Outcome::NoReplica);
        };
        self.books.sent(ask.id, pick, ask.job.prompt_tokens);
        let replica = ReplicaId(u32::try_from(pick.replica).unwrap_or(u32::MAX));
        Chosen::Replica { replica, reason: self.rival.name() }
    }

    fn left(&mut self, _: Time, _: JobId) {}

    fn first_byte(&mut self, _: Time, job: JobId) {
        self.books.answered(job);
    }

    fn ended(&mut self, _: Time, job: JobId, _: AttemptEnd) {
        self.books.ended(job);
    }

    fn report(&mut self, now: Time, report: Report) {
        let Report::Scraped { replica, scrape, .. } = report else { return };
        let index = replica.0 as usize;
        if let Scrape::Healthy { load: Some(load) } = scrape {
            self.books.scraped(index, load);
        }
        if let Some(due) = self.due.get_mut(index) {
            *due = Some(now + SCRAPE_INTERVAL);
        }
    }

    fn tick(&mut self, now: Time) {
        for (index, due) in self.due.iter_mut().enumerate() {
            if due.is_some_and(|due| due <= now) {
                *due = None;
                self.orders.push_back(Order::Scrape(ReplicaId(u32::try_from(index).unwrap_or(u32::MAX))));
            }
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.due.iter().flatten().min().copied()
    }

    fn poll(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }
}

/// The session's hash, whatever named it.
fn session_key(ask: &Ask<'_>) -> Option<u64> {
    match ask.job.session? {
        Session::Explicit(hash) | Session::Conversation { hash, .. } => Some(hash),
    }
}

#[cfg(test)]
mod tests;
