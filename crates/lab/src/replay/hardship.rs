//! What makes choosing harder than it is for one gateway that knows sizes exactly and has the replicas to itself.

use crate::fleet::{Ask, AttemptEnd, Chosen, Decider, Job, JobId, Order, Report};
use crate::rivals::{Bench, RoundRobin};
use crate::rng::SeededRng;
use sluicegate_core::{ReplicaId, Scrape, Time};
use std::collections::VecDeque;

/// Farthest that a size is estimated off, as a factor.
const FARTHEST: f64 = 8.0;

/// What is hard. The default is: nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hardship {
    /// Gateways that know nothing of each other, at least 1; which one a request comes through is left to chance.
    pub gateways: usize,
    /// Part of the requests that none of them sees: others send them to the replicas in turn. 0 to 1.
    pub foreign: f64,
    /// Standard deviation of the logarithm of estimated over true prompt sizes.
    pub size_noise: f64,
    /// What engines say of the size of their caches, in true sizes.
    pub cache_told: f64,
}

impl Default for Hardship {
    fn default() -> Self {
        Self { gateways: 1, foreign: 0.0, size_noise: 0.0, cache_told: 1.0 }
    }
}

/// Deciders that share nothing but their replicas.
pub struct Apart {
    /// The last one is the others' who are no gateways.
    deciders: Vec<Box<dyn Decider + Send>>,
    hardship: Hardship,
    seed: u64,
    /// By replica: whose scrapes are under way, in the order in which they are answered.
    scrapes: Vec<VecDeque<usize>>,
    canaries: Vec<VecDeque<usize>>,
    /// The decider whose orders are read next.
    next: usize,
}

impl Apart {
    /// Gateways made by `gateway`, each with a seed of its own, in front of so many replicas.
    #[must_use]
    pub fn new(
        hardship: Hardship,
        replicas: usize,
        seed: u64,
        mut gateway: impl FnMut(u64) -> Box<dyn Decider + Send>,
    ) -> Self {
        let mut deciders: Vec<_> =
            (0..hardship.gateways.max(1)).map(|index| gateway(seed + index as u64)).collect();
        deciders.push(Box::new(Bench::new(RoundRobin::default(), replicas)));
        let none = vec![VecDeque::new(); replicas];
        Self { deciders, hardship, seed, scrapes: none.clone(), canaries: none, next: 0 }
    }

    /// Who gets it: the same for each call.
    fn decider_of(&self, job: JobId) -> usize {
        let mut rng = SeededRng::stream(self.seed ^ 0xa9a7, u64::from(job.0));
        let foreign = self.deciders.len() - 1;
        if rng.chance(self.hardship.foreign) { foreign } else { rng.below(foreign as u64) as usize }
    }

    /// The request with the size that a gateway takes it to have.
    fn estimated(&self, id: JobId, job: &Job) -> Option<Job> {
        let spread = self.hardship.size_noise;
        if spread == 0.0 {
            return None;
        }
        let mut rng = SeededRng::stream(self.seed ^ 0x512e, u64::from(id.0));
        // The sum of twelve uniform numbers is near enough to a normal one.
        let normal = (0..12).map(|_| rng.unit()).sum::<f64>() - 6.0;
        let factor = (normal * spread).exp().clamp(1.0 / FARTHEST, FARTHEST);
        let tokens = (f64::from(job.prompt_tokens) * factor).max(1.0) as u32;
        Some(Job { prompt_tokens: tokens, ..job.clone() })
    }

    fn asker(queues: &mut [VecDeque<usize>], replica: ReplicaId) -> Option<usize> {
        queues.get_mut(replica.0 as usize)?.pop_front()
    }
}

impl Decider for Apart {
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen {
        let job = self.estimated(ask.id, ask.job);
        let ask = Ask { job: job.as_ref().unwrap_or(ask.job), ..*ask };
        let decider = self.decider_of(ask.id);
        self.deciders[decider].choose(now, &ask)
    }

    fn left(&mut self, now: Time, job: JobId) {
        let decider = self.decider_of(job);
        self.deciders[decider].left(now, job);
    }

    fn first_byte(&mut self, now: Time, job: JobId) {
        let decider = self.decider_of(job);
        self.deciders[decider].first_byte(now, job);
    }

    fn ended(&mut self, now: Time, job: JobId, end: AttemptEnd) {
        let decider = self.decider_of(job);
        self.deciders[decider].ended(now, job, end);
    }

    fn report(&mut self, now: Time, mut report: Report) {
        let asker = match &mut report {
            Report::Scraped { replica, scrape, .. } => {
                if let Scrape::Healthy { load: Some(load) } = scrape {
                    let told = |tokens: u64| (tokens as f64 * self.hardship.cache_told) as u64;
                    load.kv_tokens = load.kv_tokens.map(told);
                }
                Self::asker(&mut self.scrapes, *replica)
            }
            Report::Canary { replica, .. } => Self::asker(&mut self.canaries, *replica),
            Report::Booked { job, .. } => Some(self.decider_of(*job)),
        };
        if let Some(decider) = asker.and_then(|asker| self.deciders.get_mut(asker)) {
            decider.report(now, report);
        }
    }

    fn tick(&mut self, now: Time) {
        self.deciders.iter_mut().for_each(|decider| decider.tick(now));
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deciders.iter().filter_map(|decider| decider.next_deadline()).min()
    }

    fn poll(&mut self) -> Option<Order> {
        for _ in 0..self.deciders.len() {
            let order = self.deciders[self.next].poll();
            let queues = match order {
                Some(Order::Scrape(replica)) => Some((&mut self.scrapes, replica)),
                Some(Order::Canary(replica)) => Some((&mut self.canaries, replica)),
                _ => None,
            };
            if let Some((queues, replica)) = queues
                && let Some(queue) = queues.get_mut(replica.0 as usize)
            {
                queue.push_back(self.next);
            }
            if order.is_some() {
                return order;
            }
            self.next = (self.next + 1) % self.deciders.len();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Profile;
    use crate::replay::{Given, Policy, run, settings};
    use std::time::Duration;

    fn jobs() -> Vec<Job> {
        let at = |i: u64| Time::ZERO + Duration::from_secs(5) + Duration::from_millis(i * 100);
        (0..300).map(|i| Job::unique(at(i), 2000, 50)).collect()
    }

    fn given() -> Given {
        Given { slots: 16, ..Given::of(&Profile::fast()) }
    }

    fn played(policy: Policy, hardship: Hardship) -> crate::replay::Run {
        let settings = settings(4, Profile::fast());
        let decider = Apart::new(hardship, 4, 1, |seed| policy.decider(&settings, given(), seed));
        run(&settings, decider, &jobs(), |_| {})
    }

    #[test]
    fn every_request_ends_well_whoever_has_sent_it() {
        let all = Hardship { gateways: 3, foreign: 0.3, size_noise: 0.5, cache_told: 2.0 };
        for policy in [Policy::Adaptive, Policy::Predictive, Policy::LeastConnections] {
            let run = played(policy, all);
            assert_eq!(run.records.len(), 300);
            assert!(run.records.iter().all(|record| record.outcome == crate::fleet::Outcome::Ok));
            let foreign = run.records.iter().filter(|record| record.reason == "round_robin").count();
            assert!((60..120).contains(&foreign), "{foreign}");
            assert_eq!(run, played(policy, all), "the same each time");
        }
    }

    #[test]
    fn without_any_it_is_the_gateway_alone() {
        let settings = settings(4, Profile::fast());
        let alone = run(&settings, Policy::Predictive.decider(&settings, given(), 1), &jobs(), |_| {});
        let placed = |run: &crate::replay::Run| {
            run.records.iter().map(|r| (r.job, r.replica, r.first_byte)).collect::<Vec<_>>()
        };
        assert_eq!(placed(&played(Policy::Predictive, Hardship::default())), placed(&alone));
    }
}
