//! What goes wrong: changes of replicas, what they do to whoever is there, and what scrapes see of them.

use super::agenda::Event;
use super::attempt::event_verdict;
use super::host::{Host, Onset};
use super::request::{Contact, Phase};
use super::{Decider, Fleet, JobId};
use crate::fault::{Fault, FaultSpec};
use sluicegate_core::{AttemptFailure, Failure, ReplicaId, Scrape, Time, Verdict};
use std::time::Duration;

/// What vLLM's server answers when its engine process has died.
const ENGINE_DEAD: u16 = 500;

impl<D: Decider> Fleet<D> {
    /// From now on this is wrong with the replica.
    pub(super) fn change_now(&mut self, replica: ReplicaId, fault: Option<FaultSpec>) {
        let Some(host) = self.hosts.get_mut(replica.0 as usize) else { return };
        let onset = host.change(self.now, fault);
        let change = host.changes;
        let holds_on = host.fault() == Some(Fault::Hang);
        let let_go = if holds_on { Vec::new() } else { host.let_go() };
        if let Some(lasts) = fault.and_then(|spec| spec.lasts) {
            self.agenda.put(self.now + lasts, Event::FaultOver(replica, change));
        }
        if let Some(Fault::Flap { alive, .. }) = fault.map(|spec| spec.fault) {
            self.agenda.put(self.now + at_least(alive), Event::Turn(replica, change, true));
        }
        self.strike(replica, onset);
        for (id, work) in let_go {
            // Whoever has been struck meanwhile is gone from there.
            if self.hosts.get(replica.0 as usize).is_some_and(|host| host.open.contains(&id)) {
                self.begin_work(id, replica, work);
            }
        }
    }

    /// The time of a fault is over, unless another one has taken its place.
    pub(super) fn fault_over(&mut self, replica: ReplicaId, change: u64) {
        if self.hosts.get(replica.0 as usize).is_some_and(|host| host.changes == change) {
            self.change_now(replica, None);
        }
    }

    /// The next phase of a replica that flaps.
    pub(super) fn turn(&mut self, replica: ReplicaId, change: u64, away: bool) {
        let Some(host) = self.hosts.get_mut(replica.0 as usize).filter(|host| host.changes == change) else {
            return;
        };
        let Some(Fault::Flap { alive, dead }) = host.fault() else { return };
        let onset = host.turn(away);
        let lasts = at_least(if away { dead } else { alive });
        self.agenda.put(self.now + lasts, Event::Turn(replica, change, !away));
        self.strike(replica, onset);
    }

    /// What a change does to whoever is there.
    fn strike(&mut self, replica: ReplicaId, onset: Onset) {
        self.schedule_step(replica);
        let Some(host) = self.hosts.get(replica.0 as usize) else { return };
        if onset == Onset::Nothing {
            return;
        }
        let open: Vec<JobId> = host.open.iter().copied().collect();
        for id in open {
            let request = &self.requests[id.index()];
            // What the ends of others led to has moved it on, or nobody there knows of it yet.
            let Phase::Sent { replica: at, answered } = request.phase else { continue };
            if at == replica && request.contact != Contact::Connecting {
                self.strike_one(id, replica, onset, answered);
            }
        }
    }

    fn strike_one(&mut self, id: JobId, replica: ReplicaId, onset: Onset, answered: bool) {
        let stream = self.requests[id.index()].job.stream;
        if stream && (onset == Onset::Aborted || (onset == Onset::EngineDied && answered)) {
            // The end is told in an event.
            self.hosts[replica.0 as usize].last_byte = Some(self.now);
        }
        match onset {
            Onset::Nothing => {}
            Onset::Killed if answered => self.break_off(id, Verdict::Failure(Failure::Reset)),
            // Whoever tries it anew at once is refused, or is not: then it may have been this connection alone.
            Onset::Killed if self.refuses(replica) => self.fail(id, AttemptFailure::Gone),
            Onset::Killed => self.fail(id, AttemptFailure::Reset { sent_whole: true }),
            Onset::EngineDied if answered => self.break_off(id, event_verdict(ENGINE_DEAD)),
            Onset::EngineDied if stream => self.fail(id, AttemptFailure::ErrorEvent(ENGINE_DEAD)),
            Onset::EngineDied => self.fail(id, AttemptFailure::Status(ENGINE_DEAD)),
            Onset::Aborted => {
                if !answered {
                    self.first_byte(id, replica, stream);
                }
                self.break_off(id, Verdict::Neutral);
            }
        }
    }

    fn refuses(&self, replica: ReplicaId) -> bool {
        self.hosts.get(replica.0 as usize).is_some_and(|host| host.scrape() == Scrape::Refused)
    }

    pub(super) fn start_scrape(&mut self, replica: ReplicaId) {
        let Some(delay) = self.hosts.get(replica.0 as usize).map(Host::health_delay) else { return };
        let (now, limit) = (self.now, self.settings.scrape_timeout);
        if delay + self.settings.scrape_delay > limit {
            self.agenda.put(now + limit, Event::Scraped(replica, Scrape::TimedOut));
        } else if delay > Duration::ZERO {
            self.agenda.put(now + delay, Event::HealthDue(replica, now));
        } else {
            self.health_answers(replica, now);
        }
    }

    /// `/health` of a scrape that began at `started` answers now, and the engine's numbers are taken.
    pub(super) fn health_answers(&mut self, replica: ReplicaId, started: Time) {
        let Some(host) = self.hosts.get(replica.0 as usize) else { return };
        let scrape = host.scrape();
        let at = match scrape {
            Scrape::TimedOut => started + self.settings.scrape_timeout,
            _ => self.now + self.settings.scrape_delay,
        };
        self.agenda.put(at, Event::Scraped(replica, scrape));
    }

    pub(super) fn start_canary(&mut self, replica: ReplicaId) {
        let answered = self.hosts.get_mut(replica.0 as usize).is_some_and(Host::answers_canary);
        let delay = if answered { self.settings.scrape_delay } else { self.settings.scrape_timeout };
        self.agenda.put(self.now + delay, Event::Canary(replica, answered));
    }
}

/// A phase takes time, whatever was asked for.
fn at_least(phase: Duration) -> Duration {
    phase.max(Duration::from_millis(1))
}
