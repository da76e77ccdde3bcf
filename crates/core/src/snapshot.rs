//! A pool's numbers at one moment, for metrics and the dashboard.

use crate::choose::View;
use crate::effect::Transition;
use crate::health::Health;
use crate::ids::ReplicaId;
use crate::load::{EngineLoad, REQUEST};
use crate::replica::{Membership, Replica};
use crate::time::Time;
use std::time::Duration;

/// A pool at one moment.
#[derive(Clone, Debug)]
pub struct PoolSnapshot {
    /// The replicas that are there, in order of arrival. One that was removed is DRAINING until its last lease is
    /// back, and before that in service as long as it is needed.
    pub replicas: Vec<ReplicaSnapshot>,
    /// Largest minus smallest `effective_running` over the LIVE replicas, in requests.
    pub imbalance_index: f64,
    /// Living session pins.
    pub session_pins: usize,
    /// Living prefix pins.
    pub prefix_pins: usize,
}

/// A replica at one moment.
#[derive(Clone, Debug)]
pub struct ReplicaSnapshot {
    /// Which one.
    pub id: ReplicaId,
    /// Its base URL.
    pub name: String,
    /// Its health.
    pub health: Health,
    /// It was removed, and serves until one that stays is LIVE.
    pub outgoing: bool,
    /// Own open requests.
    pub inflight: u32,
    /// The sum of their weights, in requests.
    pub inflight_weight: f64,
    /// What its engine said at the last good scrape.
    pub scraped: Option<EngineLoad>,
    /// When that was.
    pub last_good_scrape: Option<Time>,
    /// `effective_running`, in requests.
    pub effective_running: f64,
    /// `effective_waiting`, in requests.
    pub effective_waiting: f64,
    /// Requests its engine runs at once, where known.
    pub slots: Option<u32>,
    /// Whether one of them is free, where slots are known.
    pub free_slot: Option<bool>,
    /// What is left of its cooldown while it is EJECTED.
    pub cooldown_left: Option<Duration>,
    /// Ejections of the running streak.
    pub streak: u32,
    /// Ejections ever.
    pub ejections: u64,
    /// Requests ever sent there, retries included.
    pub picks: u64,
    /// Its part of the pool's requests of the last 60 s, 0..=1.
    pub traffic_share: f64,
    /// Living pins of both kinds that point to it.
    pub pins: usize,
    /// Its last change of health; `None`: it has had the same one from the beginning.
    pub last_transition: Option<Transition>,
    /// How long ago that was.
    pub last_transition_age: Option<Duration>,
}

/// Thousandths as requests.
pub(crate) fn requests(thousandths: u64) -> f64 {
    thousandths as f64 / REQUEST as f64
}

pub(crate) fn snapshot(view: &View<'_>, now: Time, pins: (usize, usize)) -> PoolSnapshot {
    let traffic: u64 = view.replicas.iter().map(|replica| replica.traffic.count(now)).sum();
    let live = || view.board.iter().filter(|row| row.health == Health::Live).map(|row| row.running);
    let imbalance = live().max().unwrap_or(0) - live().min().unwrap_or(0);
    let replicas = view
        .replicas
        .iter()
        .enumerate()
        .map(|(index, replica)| one(view, now, index, replica, traffic))
        .collect();
    PoolSnapshot { replicas, imbalance_index: requests(imbalance), session_pins: pins.0, prefix_pins: pins.1 }
}

fn one(view: &View<'_>, now: Time, index: usize, replica: &Replica, traffic: u64) -> ReplicaSnapshot {
    let id = replica.id;
    let (load, health) = (&replica.load, &replica.health);
    ReplicaSnapshot {
        id,
        name: replica.name.clone(),
        health: health.health(),
        outgoing: replica.membership == Membership::Outgoing,
        inflight: load.inflight(),
        inflight_weight: requests(load.weight()),
        scraped: load.engine(),
        last_good_scrape: replica.last_good_scrape,
        effective_running: requests(view.board[index].running),
        effective_waiting: requests(view.board[index].waiting),
        slots: load.slots(),
        free_slot: load.free_slot(),
        cooldown_left: health.cooldown_left(now),
        streak: health.streak(),
        ejections: health.ejections,
        picks: replica.picks,
        traffic_share: replica.traffic.count(now) as f64 / traffic.max(1) as f64,
        pins: view.pins.count_at(id),
        last_transition: health.last_transition.clone(),
        last_transition_age: health.last_transition.as_ref().map(|last| now.since(last.at)),
    }
}
