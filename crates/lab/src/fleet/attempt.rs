//! The life of a request: a place, attempts, first byte, end. The same steps as the data plane's.

use super::agenda::Event;
use super::guard::{Guard, guard_of};
use super::host::{Met, Spoil};
use super::request::{Contact, First, Phase};
use super::{Ask, AttemptEnd, Chosen, Decider, Fleet, Happening, JobId, Outcome, Poison, Record, Report};
use crate::engine::{self, Output};
use crate::fault::{Fault, FaultSpec};
use sluicegate_core::{AttemptFailure, Attempts, Failure, Next, Reason, ReplicaId, Verdict};

impl<D: Decider> Fleet<D> {
    pub(super) fn arrive(&mut self, id: JobId) {
        let now = self.now;
        let Some(request) = self.requests.get(id.index()) else { return };
        let guard = guard_of(&mut self.guards, &request.job);
        self.agenda.put(now + guard.limits.total, Event::Total(id));
        if let Some(patience) = request.job.patience {
            self.agenda.put(now + patience, Event::Leave(id));
        }
        let suspect =
            request.job.fingerprint.is_some_and(|print| guard.poison.is_suspect(now, print).is_some());
        guard.budget.request(now, request.job.key);
        if suspect {
            return self.exhausted(id, Outcome::RejectedPoison);
        }
        self.ask(id, false);
    }

    /// Asks for a place.
    fn ask(&mut self, id: JobId, with_room: bool) {
        let Some(request) = self.requests.get(id.index()) else { return };
        let tried = request.attempts.tried();
        let fallback = request.fallen_back.is_some();
        let ask = Ask { id, job: &request.job, tried, with_room, fallback, hosts: &self.hosts };
        self.called = true;
        match self.decider.choose(self.now, &ask) {
            Chosen::Replica { replica, reason } => self.send(id, replica, reason),
            Chosen::Waits => self.requests[id.index()].phase = Phase::Waiting { since: self.now },
            // What a replica said is worth more than that there is no other.
            Chosen::Refused(otherwise) => {
                let outcome = request.outcome_so_far().unwrap_or(otherwise);
                self.exhausted(id, outcome);
            }
        }
    }

    /// The targets, or the fallback, have nothing more to offer: the fallback's turn, or the end.
    pub(super) fn exhausted(&mut self, id: JobId, outcome: Outcome) {
        let request = &mut self.requests[id.index()];
        let status = request.said();
        if let Some(First { outcome: first, replica, reason }) = request.fallen_back {
            if status.is_some() {
                return self.end(id, outcome);
            }
            // It has nothing to show: what the targets said is worth more.
            (request.record.replica, request.record.reason) = (replica, reason);
            return self.end(id, first);
        }
        let fallback = guard_of(&mut self.guards, &request.job).limits.fallback;
        let takes_over = fallback.is_some_and(|on| status.is_none_or(|status| on.is_on(status)));
        if !takes_over {
            return self.end(id, outcome);
        }
        if let Phase::Waiting { since } = request.phase {
            request.record.queued += self.now.since(since);
        }
        let Record { replica, reason, .. } = request.record;
        request.fallen_back = Some(First { outcome, replica, reason });
        request.phase = Phase::Idle;
        request.begin_anew(Attempts::of(request.job.key));
        self.ask(id, false);
    }

    /// A waiting request has its place.
    pub(super) fn granted(&mut self, id: JobId, replica: ReplicaId, reason: &'static str) {
        let request = &mut self.requests[id.index()];
        if let Phase::Waiting { since } = request.phase {
            request.record.queued += self.now.since(since);
            self.send(id, replica, reason);
        }
    }

    fn send(&mut self, id: JobId, replica: ReplicaId, reason: &'static str) {
        let now = self.now;
        let request = &mut self.requests[id.index()];
        request.attempts.started(replica);
        request.phase = Phase::Sent { replica, answered: false };
        let reason = if request.fallen_back.is_some() { Reason::Fallback.as_str() } else { reason };
        let record = &mut request.record;
        (record.replica, record.reason, record.sent) = (Some(replica), reason, Some(now));
        (record.attempts, record.cached_tokens, record.output_tokens) = (record.attempts + 1, 0, 0);
        self.happenings.push_back(Happening::Sent { at: now, job: id, replica, reason });
        self.deliver(id, replica);
    }

    /// The request comes to the replica.
    fn deliver(&mut self, id: JobId, replica: ReplicaId) {
        let now = self.now;
        let Some(host) = self.hosts.get_mut(replica.0 as usize) else {
            return self.fail(id, AttemptFailure::Refused);
        };
        host.open.insert(id);
        let request = &mut self.requests[id.index()];
        let connect_timeout = guard_of(&mut self.guards, &request.job).limits.connect_timeout;
        let work = engine::Request {
            prompt_tokens: request.job.prompt_tokens,
            output_tokens: request.job.output_tokens,
            finish: engine::FinishReason::Stop,
            block_hashes: host.hashes(&request.job.blocks),
        };
        let met = host.meet(request.job.stream);
        (request.spoil, request.contact) = (None, Contact::of(met, request.job.stream));
        match met {
            Met::Served(spoil) => request.spoil = spoil,
            Met::Fails(failure) => return self.fail(id, failure),
            Met::Held => return host.hold(id, work),
            Met::NotConnected => {
                let (at, attempt) = (now + connect_timeout, request.record.attempts);
                return self.agenda.put(at, Event::Fail(id, attempt, AttemptFailure::ConnectFailed));
            }
        }
        match request.job.poison {
            Some(Poison::Status(status)) => self.fail(id, AttemptFailure::Status(status)),
            Some(Poison::Crash(down)) => {
                self.change_now(replica, Some(FaultSpec::from(Fault::Dead).lasting(down)));
            }
            None => self.begin_work(id, replica, work),
        }
    }

    /// Hands the request to the replica's engine.
    pub(super) fn begin_work(&mut self, id: JobId, replica: ReplicaId, work: engine::Request) {
        let Some(host) = self.hosts.get_mut(replica.0 as usize) else { return };
        match host.submit(self.now, id, work) {
            Ok(()) => self.schedule_step(replica),
            Err(status) => self.fail(id, AttemptFailure::Status(status)),
        }
    }

    /// One generated token.
    pub(super) fn token(&mut self, replica: ReplicaId, output: &Output) {
        let id = JobId(u32::try_from(output.id.0).unwrap_or(u32::MAX));
        let (now, index) = (self.now, id.index());
        let Some(request) = self.requests.get_mut(index) else { return };
        if !matches!(request.phase, Phase::Sent { replica: at, .. } if at == replica) {
            // Generated in the very moment in which it was given up.
            return;
        }
        let (stream, spoil) = (request.job.stream, request.spoil);
        if let Some(spoil) = spoil.filter(|spoil| stream && output.generated > spoil.after) {
            return self.spoiled(id, replica, spoil);
        }
        request.last_token = now;
        request.record.output_tokens = output.generated;
        if stream {
            self.hosts[replica.0 as usize].last_byte = Some(now);
        }
        if output.generated == 1 {
            request.record.cached_tokens = output.cached_tokens;
        }
        let first = if stream { output.generated == 1 } else { output.finish.is_some() };
        if first {
            self.first_byte(id, replica, stream);
        }
        if output.finish.is_none() {
            return;
        }
        if !stream && spoil.is_some() {
            return self.break_off(id, Verdict::Failure(Failure::Reset));
        }
        self.release(id, Verdict::Success, true);
        self.end(id, Outcome::Ok);
    }

    /// A stream goes wrong where its next token would have been.
    fn spoiled(&mut self, id: JobId, replica: ReplicaId, spoil: Spoil) {
        match spoil.says {
            // Nothing but a head has come.
            None if spoil.after == 0 => self.fail(id, AttemptFailure::Reset { sent_whole: true }),
            None => self.break_off(id, Verdict::Failure(Failure::Reset)),
            Some(code) => {
                self.hosts[replica.0 as usize].last_byte = Some(self.now);
                self.break_off(id, event_verdict(code));
            }
        }
    }

    /// The answer ends before its end, and its client has seen some of it.
    pub(super) fn break_off(&mut self, id: JobId, verdict: Verdict) {
        self.release(id, verdict, false);
        self.end(id, Outcome::UpstreamAborted);
    }

    pub(super) fn first_byte(&mut self, id: JobId, replica: ReplicaId, stream: bool) {
        let now = self.now;
        let request = &mut self.requests[id.index()];
        request.phase = Phase::Sent { replica, answered: true };
        request.record.first_byte = Some(now);
        let booking = request.attempts.answered();
        let silence = guard_of(&mut self.guards, &request.job).limits.silence;
        self.called = true;
        if let Some((replica, verdict)) = booking {
            let last_byte = self.last_byte(replica);
            self.decider.report(now, Report::Booked { job: id, replica, verdict, last_byte });
        }
        self.decider.first_byte(now, id);
        if stream {
            self.agenda.put(now + silence, Event::Silence(id));
        }
        self.happenings.push_back(Happening::FirstByte { at: now, job: id, replica });
    }

    /// An attempt that began a while ago fails, unless it is another one that runs now.
    pub(super) fn fail_late(&mut self, id: JobId, attempt: u32, failure: AttemptFailure) {
        let request = &self.requests[id.index()];
        let runs = matches!(request.phase, Phase::Sent { answered: false, .. });
        if runs && request.record.attempts == attempt {
            self.fail(id, failure);
        }
    }

    /// The attempt that runs failed before its first byte: the core says what that means and what comes next.
    pub(super) fn fail(&mut self, id: JobId, failure: AttemptFailure) {
        let request = &mut self.requests[id.index()];
        request.failed(failure);
        let Guard { limits, budget, .. } = guard_of(&mut self.guards, &request.job);
        let (verdict, next) = request.attempts.failed(self.now, failure, &limits.retry, budget);
        self.release(id, verdict, false);
        let full = matches!(failure, AttemptFailure::Status(429) | AttemptFailure::ErrorEvent(429));
        match next {
            Next::Retry => self.ask(id, full),
            Next::GiveUp => {
                let outcome = self.requests[id.index()].outcome_so_far();
                self.exhausted(id, outcome.unwrap_or(Outcome::UpstreamError));
            }
        }
    }

    /// Leaves the replica and gives the place back.
    fn release(&mut self, id: JobId, verdict: Verdict, whole: bool) {
        let request = &mut self.requests[id.index()];
        let Phase::Sent { replica, .. } = request.phase else { return };
        request.phase = Phase::Idle;
        let served =
            whole.then(|| u64::from(request.record.prompt_tokens) + u64::from(request.record.output_tokens));
        if let Some(host) = self.hosts.get_mut(replica.0 as usize) {
            host.open.remove(&id);
            if !whole {
                host.abort(self.now, id);
            }
        }
        if !whole {
            self.schedule_step(replica);
        }
        let last_byte = self.last_byte(replica);
        self.called = true;
        let generated = whole.then_some(self.requests[id.index()].record.output_tokens);
        self.decider.ended(self.now, id, AttemptEnd { verdict, served, generated, last_byte });
    }

    /// The request is over, its place given back.
    pub(super) fn end(&mut self, id: JobId, outcome: Outcome) {
        let now = self.now;
        let request = &mut self.requests[id.index()];
        if let Phase::Waiting { since } = request.phase {
            request.record.queued += now.since(since);
        }
        request.phase = Phase::Over;
        if request.attempts.is_suspect()
            && let Some(print) = request.job.fingerprint
        {
            guard_of(&mut self.guards, &request.job).poison.suspect(now, print);
        }
        (request.record.end, request.record.outcome) = (now, outcome);
        self.happenings.push_back(Happening::Ended(request.record.clone()));
        self.open -= 1;
    }

    pub(super) fn client_leaves(&mut self, id: JobId) {
        let Some(request) = self.requests.get(id.index()) else { return };
        match request.phase {
            Phase::Over => {}
            Phase::Waiting { .. } => {
                self.decider.left(self.now, id);
                self.end(id, Outcome::ClientGoneQueued);
            }
            Phase::Idle | Phase::Sent { .. } => {
                self.release(id, Verdict::Neutral, false);
                self.end(id, Outcome::ClientGone);
            }
        }
    }

    /// The total limit.
    pub(super) fn time_is_over(&mut self, id: JobId) {
        match self.requests[id.index()].phase {
            Phase::Over => {}
            Phase::Waiting { .. } => {
                self.decider.left(self.now, id);
                self.end(id, Outcome::TimeoutTotal);
            }
            Phase::Idle | Phase::Sent { answered: true, .. } => {
                self.release(id, Verdict::Neutral, false);
                self.end(id, Outcome::TimeoutTotal);
            }
            Phase::Sent { answered: false, .. } => {
                // The limit counts from the request's arrival: who got it late has not been silent for long.
                let request = &self.requests[id.index()];
                let total = guard_of(&mut self.guards, &request.job).limits.total;
                let waited = self.now.since(request.record.sent.unwrap_or(self.now)) >= total / 2;
                let silent = waited && request.contact == Contact::Read;
                self.release(id, if silent { Verdict::SilentTimeout } else { Verdict::Neutral }, false);
                self.end(id, Outcome::TimeoutTotal);
            }
        }
    }

    /// The silence limit: comes once, and again for as long as tokens came meanwhile.
    pub(super) fn look_at_silence(&mut self, id: JobId) {
        let request = &self.requests[id.index()];
        if request.phase == Phase::Over {
            return;
        }
        let due = request.last_token + guard_of(&mut self.guards, &request.job).limits.silence;
        if due > self.now {
            return self.agenda.put(due, Event::Silence(id));
        }
        self.release(id, Verdict::Neutral, false);
        self.end(id, Outcome::TimeoutSilence);
    }

    /// The core has given the replica up: who has no byte yet goes elsewhere.
    pub(super) fn abort_unanswered(&mut self, replica: ReplicaId) {
        let Some(host) = self.hosts.get(replica.0 as usize) else { return };
        let open: Vec<JobId> = host.open.iter().copied().collect();
        for id in open {
            if matches!(self.requests[id.index()].phase, Phase::Sent { replica: at, answered: false } if at == replica)
            {
                let sent_whole = self.requests[id.index()].contact != Contact::Connecting;
                self.fail(id, AttemptFailure::ReplicaDied { sent_whole });
            }
        }
    }
}

/// What an error event in a stream that has begun says of its replica.
pub(super) fn event_verdict(code: u16) -> Verdict {
    if code >= 500 { Verdict::Failure(Failure::ErrorEvent(code)) } else { Verdict::Neutral }
}
