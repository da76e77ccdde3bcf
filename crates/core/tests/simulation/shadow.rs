//! What must be true, counted again from nothing but the events: simple, slow, and sharing no code with the pool.

use crate::waiting::Waiter;
use sluicegate_core::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

pub(crate) struct Shadow {
    pub(crate) settings: PoolSettings,
    pub(crate) replicas: BTreeMap<u32, Known>,
    /// Of names that were removed: when their cooldown ends, and whether they were EJECTED and not LIVE since.
    pub(crate) gone: HashMap<String, (Time, bool)>,
    pub(crate) leases: Vec<Open>,
    /// Who waits, in order of arrival.
    pub(crate) queue: Vec<Waiter>,
    /// Where each key's cache may be warm: every replica that answered it since it last left LIVE.
    warm: HashMap<(&'static str, u64), HashSet<u32>>,
    /// Orders picks and starts of scrapes.
    pub(crate) serial: u64,
}

pub(crate) struct Known {
    pub(crate) name: String,
    /// Was removed: its last leases run, or nobody who stays is LIVE yet.
    pub(crate) leaving: bool,
    /// Drained by an administrator.
    pub(crate) drained: bool,
    /// Is PROBING before it is LIVE: not known at start-up.
    newcomer: bool,
    /// Likewise: was EJECTED and not LIVE since.
    pub(crate) ejected: bool,
    /// Takes nothing before.
    pub(crate) cooled: Time,
    pub(crate) health: Health,
    pub(crate) hosted: bool,
    pub(crate) slots: Option<u32>,
    pub(crate) serves: Option<ModelId>,
    /// Running and waiting of the last good scrape with metrics.
    pub(crate) engine: Option<(u32, u32)>,
    /// Of those the ones that others sent, and the most own ones open at a time since a scrape was started.
    pub(crate) foreign: usize,
    pub(crate) own_most: usize,
    /// Own ones that the last good scrape may have seen waiting, and that do not any more.
    pub(crate) unqueued: usize,
    /// Start of the last good scrape, and of the outstanding one.
    pub(crate) seen: u64,
    pub(crate) outstanding: Option<u64>,
    pub(crate) since: Time,
    cooldown: Duration,
    pub(crate) ejected_for_5xx: bool,
}

/// One request in flight.
pub(crate) struct Open {
    pub(crate) replica: u32,
    pub(crate) weight: u64,
    pub(crate) serial: u64,
    pub(crate) answered: bool,
}

/// A request as the shadow sees it.
pub(crate) struct Asked<'a> {
    pub(crate) request: PickRequest<'a>,
    /// Only replicas with a free slot are candidates.
    pub(crate) needs_slot: bool,
}

impl Shadow {
    pub(crate) fn new(settings: PoolSettings) -> Self {
        Self {
            settings,
            replicas: BTreeMap::new(),
            gone: HashMap::new(),
            leases: Vec::new(),
            queue: Vec::new(),
            warm: HashMap::new(),
            serial: 0,
        }
    }

    pub(crate) fn add(&mut self, now: Time, id: u32, spec: &ReplicaSpec) {
        let back = self.gone.remove(&spec.name);
        let (cooled, ejected) = back.unwrap_or((Time::ZERO, false));
        let known = Known {
            name: spec.name.clone(),
            leaving: false,
            drained: false,
            newcomer: back.is_some() || spec.origin == Origin::Discovered,
            ejected,
            cooled,
            health: match (spec.scraped, ejected) {
                (true, _) => Health::Starting,
                (false, true) => Health::Ejected,
                (false, false) => Health::Live,
            },
            hosted: !spec.scraped,
            slots: spec.slots,
            serves: match &spec.serves {
                Serves::All => None,
                Serves::Only(models) => models.first().copied(),
            },
            engine: None,
            foreign: 0,
            own_most: 0,
            unqueued: 0,
            seen: 0,
            outstanding: None,
            since: now,
            cooldown: Duration::ZERO,
            ejected_for_5xx: !spec.scraped && ejected,
        };
        assert!(self.replicas.insert(id, known).is_none(), "an id was given out twice");
    }

    pub(crate) fn known_mut(&mut self, id: u32) -> &mut Known {
        self.replicas.get_mut(&id).expect("a replica that is there")
    }

    pub(crate) fn open(&mut self, lease: Open) {
        let id = lease.replica;
        self.leases.push(lease);
        let own = self.inflight(id);
        let most = &mut self.known_mut(id).own_most;
        *most = own.max(*most);
    }

    pub(crate) fn scrape_started(&mut self, id: u32) {
        self.known_mut(id).own_most = self.inflight(id);
    }

    pub(crate) fn transition(&mut self, t: &Transition) {
        use Health::*;
        use TransitionReason as R;
        let health = |shadow: &Self, wanted| shadow.replicas.values().filter(|r| r.health == wanted).count();
        let replica = &self.replicas[&t.replica.0];
        assert_eq!(t.from, replica.health, "an unannounced transition before {t:?}");
        let allowed = match (t.from, t.to, t.reason) {
            (Starting, Live | Probing, R::FirstScrape)
            | (Live, Ejected, R::Refused | R::ScrapesFailed | R::UpstreamFailures | R::Stalled)
            | (Live | Probing, Starting, R::Restarted)
            | (Probing, Live, R::Proved)
            | (Probing, Ejected, R::Refused | R::ProbeFailed | R::Stalled)
            | (Ejected, Probing, R::CooldownOver)
            | (Starting | Live | Probing | Ejected, Draining, R::Drained) => true,
            (Draining, Starting, R::Undrained) => !replica.hosted,
            (Draining, Live | Ejected, R::Undrained) => replica.hosted,
            _ => false,
        };
        assert!(allowed, "a transition that the table does not have: {t:?}");
        let in_state = t.at.since(replica.since);
        let early = match t.reason {
            R::Proved => in_state < self.settings.health.probing_window,
            R::CooldownOver => in_state < replica.cooldown || t.at < replica.cooled,
            R::FirstScrape => {
                t.at < replica.cooled || (t.to == Live && (replica.newcomer || replica.ejected))
            }
            _ => false,
        };
        assert!(!early, "too early after {in_state:?}: {t:?}");
        if t.reason == R::UpstreamFailures {
            assert!(health(self, Live) >= 2, "5xx took the last LIVE replica: {t:?}");
            let out = self.replicas.values().filter(|r| r.health == Ejected && r.ejected_for_5xx).count() + 1;
            let known = self.replicas.len() - health(self, Draining);
            assert!(out * 2 <= known, "5xx took more than half: {t:?}");
        }
        let replica = self.known_mut(t.replica.0);
        assert!(!replica.leaving || t.from != Draining, "a removed replica came back: {t:?}");
        match (t.from, t.to) {
            (_, Ejected) if t.from != Draining => {
                replica.ejected = true;
                replica.cooled = t.at + t.cooldown.unwrap_or_default();
            }
            (Probing, Live) => replica.ejected = false,
            _ => {}
        }
        replica.health = t.to;
        replica.since = t.at;
        replica.cooldown = t.cooldown.unwrap_or_default();
        if t.from == Live {
            self.warm.values_mut().for_each(|at| at.retain(|id| *id != t.replica.0));
        }
    }

    /// It waits in no engine's queue any more: it has its first byte, or ends without one.
    pub(crate) fn unqueued(&mut self, index: usize) {
        let lease = &mut self.leases[index];
        let (id, serial) = (lease.replica, lease.serial);
        if std::mem::replace(&mut lease.answered, true) {
            return;
        }
        if let Some(replica) = self.replicas.get_mut(&id) {
            replica.unqueued += usize::from(serial <= replica.seen);
        }
    }

    pub(crate) fn answered(&mut self, replica: u32, session: Option<Session>, prefix: Option<u64>) {
        if self.health(replica) != Health::Live {
            return;
        }
        let keys = [session.map(|s| ("session", hash(s))), prefix.map(|hash| ("prefix", hash))];
        for key in keys.into_iter().flatten() {
            self.warm.entry(key).or_default().insert(replica);
        }
    }

    pub(crate) fn check_pick(&self, asked: &Asked<'_>, outcome: Result<(ReplicaId, Reason), NoReplica>) {
        let request = &asked.request;
        let serving: Vec<u32> =
            self.replicas.keys().copied().filter(|id| self.serves(*id, request.model)).collect();
        let untried: Vec<u32> =
            serving.iter().copied().filter(|id| !request.tried.contains(&ReplicaId(*id))).collect();
        let fits = |id: &u32| !asked.needs_slot || self.has_slot(*id);
        let of = |health: Health| untried.iter().copied().filter(move |id| self.health(*id) == health);
        let free: Vec<u32> = of(Health::Live).filter(fits).filter(|id| self.waiting(*id) == 0).collect();
        let limit = self.settings.health.probing_max_inflight as usize;
        let candidates: Vec<u32> = if free.is_empty() {
            let probing = of(Health::Probing).filter(|id| self.inflight(*id) < limit);
            of(Health::Live).chain(probing).filter(fits).collect()
        } else {
            free
        };
        let last_resort = of(Health::Live).chain(of(Health::Probing)).next().is_none();
        match outcome {
            Err(NoReplica::NoneKnown) => assert!(serving.is_empty()),
            Err(why) => {
                assert!(candidates.is_empty() && !serving.is_empty());
                assert!(!last_resort || of(Health::Ejected).next().is_none(), "a last resort was left");
                assert_eq!(why == NoReplica::AllTried, untried.len() < serving.len());
            }
            Ok((ReplicaId(id), Reason::LastResort)) => {
                let known = of(Health::Ejected).filter(fits).any(|known| known == id);
                assert!(last_resort && known, "no last resort: {id}");
            }
            Ok((ReplicaId(id), reason)) => {
                assert!(candidates.contains(&id), "{id} is no candidate of {candidates:?} ({reason:?})");
                self.check_candidate(asked, &candidates, id, reason);
            }
        }
    }

    fn check_candidate(&self, asked: &Asked<'_>, candidates: &[u32], id: u32, reason: Reason) {
        let least = candidates.iter().map(|id| self.running(*id)).min().expect("not empty");
        let affinity = &self.settings.affinity;
        let (kind, key, slack) = match (reason, asked.request.session, asked.request.prefix) {
            (Reason::AffinitySession, Some(Session::Explicit(key)), _) => {
                ("session", key, affinity.session_slack)
            }
            (Reason::AffinitySession, Some(Session::Conversation { hash, continued }), _) => {
                assert!(
                    continued || affinity.mode == AffinityMode::Consistent,
                    "a first turn followed a pin"
                );
                ("session", hash, 0)
            }
            (Reason::AffinityPrefix, _, Some(key)) => ("prefix", key, affinity.prefix_slack),
            (Reason::Load | Reason::Rebind, ..) => {
                assert_eq!(self.running(id), least, "not the least loaded");
                let live_too =
                    candidates.iter().any(|c| self.health(*c) == Health::Live && self.running(*c) == least);
                assert!(self.health(id) == Health::Live || !live_too, "PROBING before LIVE");
                return;
            }
            other => panic!("a reason without its key: {other:?}"),
        };
        assert_eq!(self.health(id), Health::Live, "a pin to a replica that is not LIVE was followed");
        assert_eq!(self.waiting(id), 0, "a pin into a queue was followed");
        assert!(self.running(id) <= least + u64::from(slack) * 1000, "beyond the slack");
        if affinity.mode == AffinityMode::Pins {
            assert!(
                self.warm.get(&(kind, key)).is_some_and(|at| at.contains(&id)),
                "{kind} {key} never was at {id}"
            );
        }
    }

    pub(crate) fn check_counts(&self, snapshot: &PoolSnapshot) {
        assert_eq!(snapshot.replicas.len(), self.replicas.len());
        for (id, seen) in self.replicas.keys().copied().zip(&snapshot.replicas) {
            assert_eq!(seen.id, ReplicaId(id), "in order of arrival");
            assert_eq!(seen.health, self.health(id), "replica {id} changed unannounced");
            assert_eq!(seen.inflight as usize, self.inflight(id));
            assert_eq!(thousandths(seen.inflight_weight), self.weight(id));
            assert_eq!(thousandths(seen.effective_running), self.running(id));
            assert_eq!(thousandths(seen.effective_waiting), self.waiting(id));
            assert!(seen.pins == 0 || seen.health == Health::Live, "pins at a replica that is not LIVE");
        }
        let pins = snapshot.session_pins + snapshot.prefix_pins;
        assert!(pins <= self.settings.affinity.max_pins, "{pins} pins");
        let live =
            || snapshot.replicas.iter().filter(|r| r.health == Health::Live).map(|r| r.effective_running);
        let spread =
            live().fold(0.0, f64::max) - live().fold(f64::INFINITY, f64::min).min(live().fold(0.0, f64::max));
        assert!((snapshot.imbalance_index - spread).abs() < 1e-9);
    }

    /// A removed replica is in service only where nobody who stays is LIVE yet.
    pub(crate) fn check_removed(&self, snapshot: &PoolSnapshot) {
        let stay: Vec<&Known> = self.replicas.values().filter(|known| !known.leaving).collect();
        let relieved = stay.is_empty() || stay.iter().any(|known| known.health == Health::Live);
        for (known, seen) in self.replicas.values().zip(&snapshot.replicas) {
            let serves = matches!(known.health, Health::Live | Health::Probing);
            let outgoing = known.leaving && known.health != Health::Draining;
            assert!(!outgoing || (serves && !relieved), "{} is still there", known.name);
            assert_eq!(seen.outgoing, outgoing, "{}", known.name);
        }
    }

    pub(crate) fn serves(&self, id: u32, model: Option<ModelId>) -> bool {
        let only = self.replicas[&id].serves;
        only.is_none() || model.is_none() || only == model
    }

    pub(crate) fn health(&self, id: u32) -> Health {
        self.replicas[&id].health
    }

    fn at(&self, id: u32) -> impl Iterator<Item = &Open> {
        self.leases.iter().filter(move |lease| lease.replica == id)
    }

    pub(crate) fn inflight(&self, id: u32) -> usize {
        self.at(id).count()
    }

    fn weight(&self, id: u32) -> u64 {
        self.at(id).map(|lease| lease.weight).sum()
    }

    fn running(&self, id: u32) -> u64 {
        let replica = &self.replicas[&id];
        let Some((running, _)) = replica.engine else { return self.weight(id) };
        let running = u64::from(running) * 1000;
        match self.settings.load_source {
            LoadSource::Both => running.max(self.weight(id)),
            LoadSource::Engine => {
                running + 1000 * self.at(id).filter(|lease| lease.serial > replica.seen).count() as u64
            }
        }
    }

    fn waiting(&self, id: u32) -> u64 {
        let replica = &self.replicas[&id];
        let (running, waiting) = replica.engine.unwrap_or((0, 0));
        if replica.engine.is_some() && self.settings.load_source == LoadSource::Engine {
            return u64::from(waiting) * 1000;
        }
        let more = match self.settings.waiting_counts {
            WaitingCounts::Requests => {
                let room = running.max(replica.slots.unwrap_or(0)) as usize;
                1000 * self.inflight(id).saturating_sub(room) as u64
            }
            WaitingCounts::Weight => self.weight(id).saturating_sub(u64::from(running) * 1000),
        };
        u64::from(waiting) * 1000 + more
    }
}

fn hash(session: Session) -> u64 {
    match session {
        Session::Explicit(hash) | Session::Conversation { hash, .. } => hash,
    }
}

fn thousandths(requests: f64) -> u64 {
    (requests * 1000.0).round() as u64
}
