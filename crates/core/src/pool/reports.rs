//! What the data plane reports: ends of attempts, scrapes, canaries.

use super::Pool;
use crate::effect::Effect;
use crate::health::{Doubt, Health};
use crate::ids::ReplicaId;
use crate::lease::{Lease, Spell};
use crate::replica::Replica;
use crate::time::Time;
use crate::verdict::{Scrape, Verdict};

impl Pool {
    /// Gives the place back and books the verdict. `last_byte`: when a stream byte last came from this replica, on any
    /// stream. A verdict on a request that began before the replica last left service is not booked: it speaks about
    /// a process that may be gone.
    pub fn release(&mut self, now: Time, lease: Lease, verdict: Verdict, last_byte: Option<Time>) {
        let now = self.advance(now);
        if let Some(charge) = lease.charge {
            self.uncharge(charge, verdict);
        }
        let Some(place) = self.place(lease.replica) else { return };
        let replica = &mut self.replicas[place];
        replica.load.give_back(lease.weight, lease.sent_after);
        if !lease.answered {
            replica.load.unqueued(lease.sent_after);
        }
        debug_assert!(self.leases.count > 0, "a lease was given back twice");
        self.leases.count = self.leases.count.saturating_sub(1);
        self.leases.weight = self.leases.weight.saturating_sub(lease.weight.0);
        if let (Some(predictor), Some(sent)) = (&mut self.predictor, lease.sent) {
            predictor.ended(now, replica.seat, sent);
        }
        self.judge_spell(now, lease.spell(), verdict, lease.sent_at, last_byte);
        self.let_go(lease.replica);
        self.settle(now);
    }

    /// Books a verdict that was deferred at the release, as [`Pool::release`] would have: not where the replica has left
    /// service since the request began.
    pub fn book(&mut self, now: Time, spell: Spell, verdict: Verdict, last_byte: Option<Time>) {
        let now = self.advance(now);
        self.judge_spell(now, spell, verdict, now, last_byte);
        self.settle(now);
    }

    /// The present spell of a replica's service; `None`: there is no such replica.
    #[must_use]
    pub fn spell(&self, id: ReplicaId) -> Option<Spell> {
        let era = self.replicas.get(self.place(id)?)?.health.era();
        Some(Spell { replica: id, era })
    }

    /// Answers [`Effect::Scrape`]. One that nobody asked for is taken for what it says all the same.
    pub fn scraped(&mut self, now: Time, id: ReplicaId, scrape: Scrape, last_byte: Option<Time>) {
        let now = self.advance(now);
        let Some(place) = self.place(id) else { return };
        let replica = &mut self.replicas[place];
        let started = replica.schedule.outstanding().unwrap_or(now);
        replica.schedule.answered(now, self.settings.health.scrape_interval, &mut self.prng);
        if let Scrape::Healthy { load } = &scrape {
            replica.last_good_scrape = Some(now);
            replica.load.scraped(*load);
            self.predictor.iter_mut().for_each(|predictor| predictor.scraped(now, replica.seat, *load));
            let available = load.is_some();
            if available != replica.metrics {
                replica.metrics = available;
                self.effects.push_back(Effect::MetricsChanged { replica: id, available });
            }
        }
        self.step(now, id, |now, replica, settings| {
            replica.health.byte(last_byte);
            replica.health.scraped(now, id, &scrape, started, &settings.health)
        });
    }

    /// Answers [`Effect::Canary`]: whether a byte came in time.
    pub fn canary(&mut self, now: Time, id: ReplicaId, answered: bool) {
        self.step(now, id, |now, replica, settings| {
            replica.health.canary(now, id, answered, &settings.health)
        });
    }

    fn judge_spell(
        &mut self,
        now: Time,
        spell: Spell,
        verdict: Verdict,
        sent: Time,
        last_byte: Option<Time>,
    ) {
        let id = spell.replica;
        if self.spell(id) == Some(spell) {
            return self.judge(now, id, verdict, sent, last_byte);
        }
        if let Some(replica) = self.replica_mut(id) {
            replica.health.byte(last_byte);
            self.start_scrape(now, id);
        }
    }

    fn judge(&mut self, now: Time, id: ReplicaId, verdict: Verdict, sent: Time, last_byte: Option<Time>) {
        let health = &self.settings.health;
        let may_eject = matches!(verdict, Verdict::Busy | Verdict::ConnectFailed | Verdict::Failure(_));
        let spared = may_eject && spared(&self.replicas, id);
        let Some(place) = self.place(id) else { return };
        let replica = &mut self.replicas[place];
        replica.health.byte(last_byte);
        let step = replica.health.verdict(now, id, verdict, sent, spared, health);
        self.apply(now, id, step);
        self.start_scrape(now, id);
    }
}

/// The floor under ejections for upstream failures: never the last LIVE replica of a pool, never more than half of
/// those it knows. Drained ones are not counted as known: they are out for good reason.
fn spared(replicas: &[Replica], id: ReplicaId) -> bool {
    let others_live =
        replicas.iter().any(|replica| replica.id != id && replica.health.health() == Health::Live);
    let known = replicas.iter().filter(|replica| replica.health.health() != Health::Draining).count();
    let ejected =
        replicas.iter().filter(|replica| replica.health.ejected_for() == Some(Doubt::Upstream)).count();
    !others_live || (ejected + 1) * 2 > known
}
