//! A look over the gateway's shoulder: it decides as ever, and what it was told and did is written down.

use super::chooser::Rule;
use super::seen::{Choice, ScrapeSeen};
use crate::fleet::{Ask, AttemptEnd, Chosen, Decider, Gateway, Job, JobId, Order, Report};
use sluicegate_core::{KeyIndex, ReplicaId, Scrape, Time};

/// The gateway, watched.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) gateway: Gateway,
    pub(super) choices: Vec<Choice>,
    pub(super) scrapes: Vec<ScrapeSeen>,
    /// Load from elsewhere, as running and waiting requests, by replica.
    pub(super) elsewhere: Vec<(u32, u32)>,
    explains: bool,
    off: Option<Rule>,
}

impl Watch {
    pub(super) fn new(gateway: Gateway, replicas: usize, explains: bool, off: Option<Rule>) -> Self {
        let elsewhere = vec![(0, 0); replicas];
        Self { gateway, choices: Vec::new(), scrapes: Vec::new(), elsewhere, explains, off }
    }

    /// What the gateway is asked where a rule about requests is off.
    fn blurred(&self, job: &Job) -> Option<Job> {
        match self.off? {
            Rule::Weights => Some(Job { prompt_tokens: job.prompt_tokens.min(1_000), ..job.clone() }),
            Rule::Affinity => Some(Job { session: None, prefix: None, blocks: [].into(), ..job.clone() }),
            Rule::Fairness => Some(Job { key: KeyIndex(0), ..job.clone() }),
            _ => None,
        }
    }

    fn note(&mut self, ask: &Ask<'_>, chosen: ReplicaId, late_ms: Option<f64>) {
        let waits = |at: usize| ask.hosts.get(at).is_some_and(|host| host.engine().counters().waiting > 0);
        let free = |at: &usize| ask.hosts.get(*at).is_some_and(|host| host.fault().is_none()) && !waits(*at);
        let another_free = (0..ask.hosts.len()).any(|at| at != chosen.0 as usize && free(&at));
        let past_a_free_one = waits(chosen.0 as usize) && another_free;
        self.choices.push(Choice { job: ask.id, past_a_free_one, late_ms });
    }

    /// How much later than at the best place the first token is predicted where the request will go.
    fn lateness(&mut self, now: Time, ask: &Ask<'_>) -> Option<f64> {
        let explanation = self.gateway.explain(now, ask)?;
        let chosen = explanation.outcome.ok()?.replica;
        let first_token = |candidate: &sluicegate_core::Candidate| {
            let predicted = candidate.predicted.filter(|_| candidate.excluded.is_none())?;
            Some((candidate.replica, (predicted.wait + predicted.prefill) * 1e3))
        };
        let all: Vec<_> = explanation.candidates.iter().filter_map(first_token).collect();
        let own = all.iter().find(|(replica, _)| *replica == chosen)?.1;
        all.iter().map(|(_, other)| own - other).reduce(f64::max)
    }
}

impl Decider for Watch {
    fn choose(&mut self, now: Time, ask: &Ask<'_>) -> Chosen {
        let job = self.blurred(ask.job);
        let ask = Ask { job: job.as_ref().unwrap_or(ask.job), ..*ask };
        let late_ms = if self.explains { self.lateness(now, &ask) } else { None };
        let chosen = self.gateway.choose(now, &ask);
        if let Chosen::Replica { replica, .. } = chosen {
            self.note(&ask, replica, late_ms);
        }
        chosen
    }

    fn left(&mut self, now: Time, job: JobId) {
        self.gateway.left(now, job);
    }

    fn first_byte(&mut self, now: Time, job: JobId) {
        self.gateway.first_byte(now, job);
    }

    fn ended(&mut self, now: Time, job: JobId, end: AttemptEnd) {
        self.gateway.ended(now, job, end);
    }

    fn report(&mut self, now: Time, mut report: Report) {
        if let Report::Scraped { replica, scrape, .. } = &mut report {
            let good = matches!(scrape, Scrape::Healthy { .. });
            self.scrapes.push(ScrapeSeen { at: now, replica: *replica, good });
            if let Scrape::Healthy { load: Some(load) } = scrape
                && let Some((running, waiting)) = self.elsewhere.get(replica.0 as usize)
            {
                (load.running, load.waiting) = (load.running + running, load.waiting + waiting);
            }
        }
        self.gateway.report(now, report);
    }

    fn tick(&mut self, now: Time) {
        self.gateway.tick(now);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.gateway.next_deadline()
    }

    fn poll(&mut self) -> Option<Order> {
        self.gateway.poll()
    }
}
