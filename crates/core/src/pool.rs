//! The pool: events in, effects out, one next deadline.

mod admission;
mod check;
mod held;
mod membership;
mod reports;
mod reserve;

use crate::board::{self, Row};
use crate::choose::View;
use crate::effect::Effect;
use crate::health::{Health, Step};
use crate::ids::{ModelId, ReplicaId, Serves};
use crate::pins::{Lifetimes, PinKind, PinTable};
use crate::predict::Predictor;
use crate::prng::SplitMix64;
use crate::queue::{Queue, Stir};
use crate::replica::Replica;
use crate::settings::{AffinityMode, PoolSettings};
use crate::snapshot::{self, PoolSnapshot};
use crate::time::Time;
use membership::Gone;
use std::collections::VecDeque;

/// The decision core of one pool. The caller holds it behind one short mutex, calls [`Pool::tick`] at
/// [`Pool::next_deadline`], and carries out every [`Effect`] after each call.
///
/// Time may stand still between calls. Where it steps back the latest moment seen counts. An id that the pool did not
/// give out is ignored.
#[derive(Debug)]
pub struct Pool {
    settings: PoolSettings,
    replicas: Vec<Replica>,
    board: Vec<Row>,
    pins: PinTable,
    predictor: Option<Predictor>,
    /// The id of the next replica.
    next: u32,
    gone: Gone,
    prng: SplitMix64,
    effects: VecDeque<Effect>,
    /// The replica that the last choice by load went to.
    turn: usize,
    /// The latest moment seen.
    now: Time,
    leases: Leases,
    queue: Queue,
    /// What has changed since the last grants, while somebody waits.
    stir: Stir,
    /// Replicas whose slots are known: without any nobody waits.
    slotted: usize,
    /// Replicas that were removed and are in service until one that stays is LIVE.
    outgoing: usize,
}

/// All leases that are out: the other side of the replicas' books.
#[derive(Debug, Default)]
struct Leases {
    count: u64,
    weight: u64,
}

impl Pool {
    /// An empty pool. The same seed and the same calls give the same choices.
    #[must_use]
    pub fn new(settings: PoolSettings, seed: u64) -> Self {
        let affinity = &settings.affinity;
        let lifetimes = Lifetimes { session: affinity.session_ttl, prefix: affinity.prefix_ttl };
        let max_pins = if affinity.mode == AffinityMode::Pins { affinity.max_pins } else { 0 };
        let mut prng = SplitMix64::new(seed);
        let pins = PinTable::new(max_pins, lifetimes, prng.next());
        Self {
            predictor: settings.predict.then(Predictor::new),
            settings,
            replicas: Vec::new(),
            board: Vec::new(),
            pins,
            next: 0,
            gone: Gone::default(),
            prng,
            effects: VecDeque::new(),
            turn: 0,
            now: Time::ZERO,
            leases: Leases::default(),
            queue: Queue::new(),
            stir: Stir::Nothing,
            slotted: 0,
            outgoing: 0,
        }
    }

    /// Sets which models the replica serves from now on.
    pub fn set_serves(&mut self, id: ReplicaId, serves: Serves) {
        if let Some(replica) = self.replica_mut(id) {
            replica.serves = serves;
            self.stir = Stir::All;
            self.refresh(id);
            self.settle(self.now);
        }
    }

    /// Sets how many requests the replica's engine runs at once, as learned from it.
    pub fn set_slots(&mut self, id: ReplicaId, slots: Option<u32>) {
        if let Some(replica) = self.replica_mut(id) {
            let before = replica.load.slots().is_some();
            replica.load.set_slots(slots);
            self.slotted = self.slotted + usize::from(slots.is_some()) - usize::from(before);
            self.refresh(id);
            self.settle(self.now);
        }
    }

    /// The one replica that serves `model` (`None`: any model), in service or not; `None` where there are several.
    #[must_use]
    pub fn only_replica(&self, model: Option<ModelId>) -> Option<ReplicaId> {
        let serves = |(row, replica): &(&Row, &Replica)| row.serves(replica, model);
        let mut serving = self.board.iter().zip(&self.replicas).filter(serves);
        let (row, _) = serving.next()?;
        serving.next().is_none().then_some(row.id)
    }

    /// Whether any replica is in this state.
    #[must_use]
    pub fn has_replica_in(&self, health: Health) -> bool {
        self.board.iter().any(|row| row.health == health)
    }

    /// Asks for the effects that time alone brings: due scrapes, returns to service, forgiven streaks. Removes a
    /// bounded number of idle pins.
    pub fn tick(&mut self, now: Time) {
        let now = self.advance(now);
        for index in 0..self.board.len() {
            if self.board[index].deadline.is_none_or(|due| due > now) {
                continue;
            }
            let id = self.board[index].id;
            let step = self.replicas[index].health.tick(now, id, &self.settings.health);
            self.apply(now, id, step);
            self.start_scrape(now, id);
        }
        self.pins.sweep(now);
        self.settle(now);
        self.expire(now);
        self.check();
    }

    /// When `tick` must be called next. It may be a moment that has passed: then at once.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let replicas = self.board.iter().filter_map(|row| row.deadline).min();
        let of_queue = [self.queue.deadline(), self.held_deadline()];
        [replicas, self.pins.sweep_due(self.now)].into_iter().chain(of_queue).flatten().min()
    }

    /// The next thing to do or to record, in the order in which things happened.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// There are effects to be taken with [`Self::poll_effect`].
    #[must_use]
    pub fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// The numbers for metrics and the dashboard.
    #[must_use]
    pub fn snapshot(&self, now: Time) -> PoolSnapshot {
        let pins = (self.pins.count(PinKind::Session), self.pins.count(PinKind::Prefix));
        snapshot::snapshot(&self.view(), now.max(self.now), pins)
    }

    /// Replicas that are there.
    pub(crate) fn size(&self) -> usize {
        self.board.len()
    }

    pub(crate) fn view(&self) -> View<'_> {
        View {
            settings: &self.settings,
            replicas: &self.replicas,
            board: &self.board,
            pins: &self.pins,
            predictor: self.predictor.as_ref(),
            turn: self.turn,
            roll: self.prng.peek(),
        }
    }

    /// One event at one replica: its rule, what follows from it, and a scrape if that became due.
    fn step(
        &mut self,
        now: Time,
        id: ReplicaId,
        rule: impl FnOnce(Time, &mut Replica, &PoolSettings) -> Step,
    ) {
        let now = self.advance(now);
        let Some(place) = self.place(id) else { return };
        let replica = &mut self.replicas[place];
        let step = rule(now, replica, &self.settings);
        self.apply(now, id, step);
        self.start_scrape(now, id);
        self.settle(now);
    }

    fn apply(&mut self, now: Time, id: ReplicaId, step: Step) {
        let interval = self.settings.health.scrape_interval;
        let Some(replica) = self.replica_mut(id) else { return };
        if step.hasten_scrape {
            replica.schedule.hasten(now, interval);
        }
        if step.scrape_at_once {
            replica.schedule.at_once(now);
        }
        let (takes_pins, seat) = (replica.health.takes_pins(), replica.seat);
        if let Some(transition) = step.transition {
            if !takes_pins {
                self.pins.kill_all(id);
            }
            if transition.lost_cache() {
                self.predictor.iter_mut().for_each(|predictor| predictor.forget(seat));
            }
            self.effects.push_back(Effect::Transition(transition));
        }
        if step.abort {
            self.effects.push_back(Effect::AbortUnanswered(id));
        }
        if step.canary {
            self.effects.push_back(Effect::Canary(id));
        }
    }

    /// Starts the scrape that is due, if one is. Ends every change of a replica.
    fn start_scrape(&mut self, now: Time, id: ReplicaId) {
        let Some(replica) = self.replica_mut(id) else { return };
        if replica.wants_scrapes() && replica.schedule.start(now) {
            replica.load.scrape_started();
            let seat = replica.seat;
            self.predictor.iter_mut().for_each(|predictor| predictor.scrape_started(seat));
            self.effects.push_back(Effect::Scrape(id));
        }
        self.refresh(id);
    }

    fn refresh(&mut self, id: ReplicaId) {
        if self.queue.is_empty() {
            return self.update_row(id);
        }
        let Some(before) = self.place(id).map(|place| self.board[place]) else { return };
        self.update_row(id);
        self.stirred(id, before);
    }

    fn update_row(&mut self, id: ReplicaId) {
        if let Some(place) = self.place(id) {
            self.board[place] = Row::of(&self.replicas[place], &self.settings);
        }
    }

    #[inline]
    fn place(&self, id: ReplicaId) -> Option<usize> {
        board::place(&self.board, id)
    }

    fn replica_mut(&mut self, id: ReplicaId) -> Option<&mut Replica> {
        let place = self.place(id)?;
        self.replicas.get_mut(place)
    }

    /// The latest moment seen, this one included.
    pub(crate) fn latest(&self, now: Time) -> Time {
        now.max(self.now)
    }

    pub(crate) fn advance(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }
}
