//! One replica's state, its one transition function, and the rules that lead to it.

use super::Health;
use super::ejection::{Canary, Doubt, Ejection, cooldown};
use super::evidence::Evidence;
use crate::effect::{Transition, TransitionReason as Why};
use crate::ids::ReplicaId;
use crate::load::EngineLoad;
use crate::replica::Origin;
use crate::settings::HealthSettings;
use crate::time::Time;
use crate::verdict::{Failure, Scrape, Verdict};
use std::time::Duration;

#[derive(Clone, Debug)]
enum State {
    Starting,
    Live { since: Time },
    Probing { since: Time },
    Ejected(Ejection),
    Draining,
}

/// What an event leads to.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Step {
    pub(crate) transition: Option<Transition>,
    /// Requests without a first byte are to be sent elsewhere.
    pub(crate) abort: bool,
    /// Doubt that an early scrape can settle.
    pub(crate) hasten_scrape: bool,
    /// The first failed scrape of a row.
    pub(crate) scrape_at_once: bool,
    pub(crate) canary: bool,
}

/// The health of one replica and its history.
#[derive(Clone, Debug)]
pub(crate) struct HealthRecord {
    state: State,
    origin: Origin,
    scraped: bool,
    evidence: Evidence,
    /// Counts spells of service: what began in an earlier one is no evidence about this one, and its pins are dead.
    era: u32,
    streak: u32,
    last_ejection: Option<Time>,
    cooldown_until: Time,
    /// Ejected and not LIVE again since: returns through PROBING only.
    unproven: bool,
    pub(crate) ejections: u64,
    pub(crate) last_transition: Option<Transition>,
}

impl HealthRecord {
    pub(crate) fn new(now: Time, origin: Origin, scraped: bool) -> Self {
        Self {
            state: if scraped { State::Starting } else { State::Live { since: now } },
            origin,
            scraped,
            evidence: Evidence::default(),
            era: 0,
            streak: 0,
            last_ejection: None,
            cooldown_until: Time::ZERO,
            unproven: false,
            ejections: 0,
            last_transition: None,
        }
    }

    /// The record of a replica that was gone and is back: what it has proved and what not stays, what was seen does not.
    pub(crate) fn again(self, now: Time, scraped: bool) -> Self {
        let state = match (scraped, self.unproven) {
            (true, _) => State::Starting,
            (false, true) => State::Ejected(Ejection::new(Doubt::Upstream)),
            (false, false) => State::Live { since: now },
        };
        let evidence = Evidence::default();
        Self { state, origin: Origin::Discovered, scraped, evidence, last_transition: None, ..self }
    }

    pub(crate) fn health(&self) -> Health {
        match self.state {
            State::Starting => Health::Starting,
            State::Live { .. } => Health::Live,
            State::Probing { .. } => Health::Probing,
            State::Ejected(_) => Health::Ejected,
            State::Draining => Health::Draining,
        }
    }

    pub(crate) fn era(&self) -> u32 {
        self.era
    }

    /// LIVE, and nothing else: a PROBING replica takes no pins.
    pub(crate) fn takes_pins(&self) -> bool {
        matches!(self.state, State::Live { .. })
    }

    pub(crate) fn streak(&self) -> u32 {
        self.streak
    }

    pub(crate) fn is_scraped(&self) -> bool {
        self.scraped
    }

    /// Why it is EJECTED, if it is.
    pub(crate) fn ejected_for(&self) -> Option<Doubt> {
        match &self.state {
            State::Ejected(ejection) => Some(ejection.cause),
            _ => None,
        }
    }

    pub(crate) fn cooldown_left(&self, now: Time) -> Option<Duration> {
        self.ejected_for().map(|_| self.cooldown_until.since(now))
    }

    pub(crate) fn byte(&mut self, last_byte: Option<Time>) {
        if let Some(at) = last_byte {
            self.evidence.byte(at);
        }
    }

    pub(crate) fn answer_begun(&mut self, now: Time) {
        self.evidence.answer_begun(now);
    }

    pub(crate) fn drain(&mut self, now: Time, id: ReplicaId) -> Step {
        if self.health() == Health::Draining {
            return Step::default();
        }
        self.enter(now, id, State::Draining, Why::Drained)
    }

    pub(crate) fn undrain(&mut self, now: Time, id: ReplicaId) -> Step {
        if self.health() != Health::Draining {
            return Step::default();
        }
        if self.scraped {
            return self.enter(now, id, State::Starting, Why::Undrained);
        }
        // Nobody scrapes a hosted replica, so it is not STARTING but where it was before: LIVE, or cooling down.
        let next = if self.unproven {
            State::Ejected(Ejection::new(Doubt::Upstream))
        } else {
            State::Live { since: now }
        };
        self.enter(now, id, next, Why::Undrained)
    }

    /// `sent`: when the scrape was started.
    pub(crate) fn scraped(
        &mut self,
        now: Time,
        id: ReplicaId,
        scrape: &Scrape,
        sent: Time,
        s: &HealthSettings,
    ) -> Step {
        match scrape {
            Scrape::Healthy { load } => self.good_scrape(now, id, load.as_ref(), s),
            Scrape::Loading => self.loading(now, id),
            Scrape::Refused => self.refused(now, id, s),
            Scrape::TimedOut => {
                let busy = self.evidence.excuses_timeout(now, sent, s.scrape_interval, s.stall_after);
                if busy && self.in_service() { Step::default() } else { self.failed_scrape(now, id, s) }
            }
            Scrape::Failed => self.failed_scrape(now, id, s),
        }
    }

    pub(crate) fn canary(&mut self, now: Time, id: ReplicaId, answered: bool, s: &HealthSettings) -> Step {
        if let State::Ejected(ejection) = &mut self.state {
            ejection.canary = if answered { Canary::Answered } else { Canary::Unanswered };
        }
        self.return_to_service(now, id, s)
    }

    /// An attempt's verdict. `sent`: when that request was sent; `spared`: the pool cannot lose this replica to
    /// upstream failures now.
    pub(crate) fn verdict(
        &mut self,
        now: Time,
        id: ReplicaId,
        verdict: Verdict,
        sent: Time,
        spared: bool,
        s: &HealthSettings,
    ) -> Step {
        let doubtful = Step { hasten_scrape: self.in_service(), ..Step::default() };
        match verdict {
            Verdict::Success => self.evidence.success(),
            Verdict::Neutral => {}
            Verdict::Deferred => return doubtful,
            Verdict::Refused => return self.refused(now, id, s),
            Verdict::ConnectFailed if self.scraped => return doubtful,
            Verdict::Busy => {
                if self.evidence.busy_is_faulty(now) {
                    return self.upstream_failure(now, id, spared, s);
                }
            }
            // No scrape can look at a hosted replica, so there a failure to connect counts like any other.
            Verdict::ConnectFailed | Verdict::Failure(_) => {
                self.evidence.failure(now);
                let mut step = self.upstream_failure(now, id, spared, s);
                step.hasten_scrape = verdict == Verdict::Failure(Failure::Reset) && self.in_service();
                return step;
            }
            Verdict::SilentTimeout => {
                if self.evidence.silent_timeout(now, sent, s.stall_after) && self.in_service() {
                    return self.eject(now, id, Doubt::Stalled, s);
                }
            }
        }
        Step::default()
    }

    /// What is due by time alone.
    pub(crate) fn tick(&mut self, now: Time, id: ReplicaId, s: &HealthSettings) -> Step {
        if self.deadline(s).is_none_or(|due| due > now) {
            return Step::default();
        }
        match self.state {
            State::Probing { .. } => self.enter(now, id, State::Live { since: now }, Why::Proved),
            State::Ejected(_) => self.return_to_service(now, id, s),
            State::Live { .. } => {
                self.streak = 0;
                Step::default()
            }
            State::Starting | State::Draining => Step::default(),
        }
    }

    /// When `tick` has something to do next.
    pub(crate) fn deadline(&self, s: &HealthSettings) -> Option<Time> {
        match &self.state {
            State::Live { since } => (self.streak > 0).then(|| *since + s.forgive_after),
            State::Probing { since } => Some(*since + s.probing_window),
            State::Ejected(ejection) => self.recovered(ejection, s).then_some(self.cooldown_until),
            State::Starting | State::Draining => None,
        }
    }

    /// The invariants of the record.
    pub(crate) fn check(&self) {
        let ejected = matches!(self.state, State::Ejected(_));
        assert!(!ejected || (self.unproven && self.streak > 0), "an ejection is remembered");
        assert!(!self.takes_pins() || !self.unproven, "a LIVE replica has proved itself");
        let moved_on = self.last_transition.as_ref().is_none_or(|last| last.to == self.health());
        assert!(moved_on, "the last transition led to the present state");
    }

    /// Takes requests: LIVE or PROBING.
    pub(crate) fn in_service(&self) -> bool {
        matches!(self.state, State::Live { .. } | State::Probing { .. })
    }

    fn good_scrape(
        &mut self,
        now: Time,
        id: ReplicaId,
        load: Option<&EngineLoad>,
        s: &HealthSettings,
    ) -> Step {
        self.evidence.failed_scrapes = 0;
        let frozen = self.evidence.frozen(now, load, s.stall_after);
        let cooled = now >= self.cooldown_until;
        match &mut self.state {
            State::Starting if cooled => {
                let proven = self.origin == Origin::Startup && !self.unproven;
                let next = if proven { State::Live { since: now } } else { State::Probing { since: now } };
                self.enter(now, id, next, Why::FirstScrape)
            }
            State::Live { .. } | State::Probing { .. } if frozen => self.eject(now, id, Doubt::Stalled, s),
            State::Ejected(ejection) => {
                ejection.good = ejection.good.saturating_add(1);
                let ask = cooled && ejection.cause == Doubt::Stalled && ejection.canary == Canary::Unanswered;
                Step { canary: ask, ..self.return_to_service(now, id, s) }
            }
            State::Starting | State::Live { .. } | State::Probing { .. } | State::Draining => Step::default(),
        }
    }

    /// Not dead, not ready. An EJECTED replica stays so: loading again must not cut its cooldown short.
    fn loading(&mut self, now: Time, id: ReplicaId) -> Step {
        match &mut self.state {
            State::Live { .. } | State::Probing { .. } => {
                self.enter(now, id, State::Starting, Why::Restarted)
            }
            State::Ejected(ejection) => {
                ejection.start_over();
                Step::default()
            }
            State::Starting | State::Draining => Step::default(),
        }
    }

    fn refused(&mut self, now: Time, id: ReplicaId, s: &HealthSettings) -> Step {
        if self.in_service() {
            return self.eject(now, id, Doubt::Refused, s);
        }
        if let State::Ejected(ejection) = &mut self.state {
            ejection.start_over();
        }
        Step::default()
    }

    fn failed_scrape(&mut self, now: Time, id: ReplicaId, s: &HealthSettings) -> Step {
        match &mut self.state {
            State::Live { .. } => {
                self.evidence.failed_scrapes += 1;
                let row = self.evidence.failed_scrapes;
                if row >= s.eject_after_failures {
                    return self.eject(now, id, Doubt::Scrapes, s);
                }
                Step { scrape_at_once: row == 1, ..Step::default() }
            }
            State::Probing { .. } => self.eject(now, id, Doubt::Scrapes, s),
            State::Ejected(ejection) => {
                ejection.start_over();
                Step::default()
            }
            State::Starting | State::Draining => Step::default(),
        }
    }

    fn upstream_failure(&mut self, now: Time, id: ReplicaId, spared: bool, s: &HealthSettings) -> Step {
        let faulty = match self.state {
            State::Live { .. } => self.evidence.failures >= s.eject_after_5xx && !spared,
            State::Probing { .. } => true,
            _ => false,
        };
        if faulty { self.eject(now, id, Doubt::Upstream, s) } else { Step::default() }
    }

    fn eject(&mut self, now: Time, id: ReplicaId, cause: Doubt, s: &HealthSettings) -> Step {
        let probing = matches!(self.state, State::Probing { .. });
        if let State::Live { since } = self.state
            && now.since(since) >= s.forgive_after
        {
            self.streak = 0;
        }
        let flaps = self.last_ejection.is_some_and(|last| now.since(last) <= s.flap_window);
        self.streak = if flaps || self.streak == 0 { self.streak.saturating_add(1) } else { self.streak };
        let cooldown = cooldown(self.streak, s);
        self.last_ejection = Some(now);
        self.cooldown_until = now + cooldown;
        self.unproven = true;
        self.ejections += 1;
        let why = match cause {
            Doubt::Refused => Why::Refused,
            Doubt::Stalled => Why::Stalled,
            Doubt::Scrapes | Doubt::Upstream if probing => Why::ProbeFailed,
            Doubt::Scrapes => Why::ScrapesFailed,
            Doubt::Upstream => Why::UpstreamFailures,
        };
        let mut step = self.enter(now, id, State::Ejected(Ejection::new(cause)), why);
        step.abort = matches!(cause, Doubt::Refused | Doubt::Scrapes);
        step
    }

    /// EJECTED -> PROBING, if everything it takes is there.
    fn return_to_service(&mut self, now: Time, id: ReplicaId, s: &HealthSettings) -> Step {
        match &self.state {
            State::Ejected(ejection) if now >= self.cooldown_until && self.recovered(ejection, s) => {
                self.enter(now, id, State::Probing { since: now }, Why::CooldownOver)
            }
            _ => Step::default(),
        }
    }

    /// Nothing but the cooldown keeps it out.
    fn recovered(&self, ejection: &Ejection, s: &HealthSettings) -> bool {
        !self.scraped || ejection.recovered(s)
    }

    /// The one place where the state changes.
    fn enter(&mut self, now: Time, id: ReplicaId, next: State, reason: Why) -> Step {
        let from = self.health();
        let was_in_service = self.in_service();
        self.state = next;
        self.evidence.clean_sheet();
        if was_in_service && !self.in_service() {
            self.era = self.era.wrapping_add(1);
        }
        let to = self.health();
        if to == Health::Live {
            self.unproven = false;
        }
        let cooldown = (to == Health::Ejected).then(|| self.cooldown_until.since(now));
        let transition = Transition { replica: id, at: now, from, to, reason, cooldown, streak: self.streak };
        self.last_transition = Some(transition.clone());
        Step { transition: Some(transition), ..Step::default() }
    }
}
