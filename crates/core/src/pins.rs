//! The table of pins: which replica holds a session's or a prompt prefix's warm cache.
//!
//! Every operation takes constant time whatever the table's size: pins live in a slab, are found through a fixed array
//! of hash chains (which never rehashes), and are threaded on two intrusive lists each, one by kind in order of use,
//! one by replica. The pins of a replica that leaves service die together in constant time: its list moves to the
//! graveyard, whose pins are removed a few at a time.

mod slab;

use crate::ids::ReplicaId;
use crate::prng::mix;
use crate::time::Time;
use slab::{ByHome, ByUse, List, Node, Slab};
use std::time::Duration;

/// What a pin remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinKind {
    Session,
    Prefix,
}

/// A pin's key: the hashes of sessions and prefixes are separate worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PinKey {
    pub(crate) kind: PinKind,
    pub(crate) hash: u64,
}

/// What the table says about a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// To be removed: expired, or its replica has left service since.
    Dead {
        expired: bool,
    },
    Pin {
        replica: ReplicaId,
        /// Spills in a row.
        spills: u32,
    },
}

/// Lifetimes without use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lifetimes {
    pub(crate) session: Duration,
    pub(crate) prefix: Duration,
}

/// Chain heads are kept at no more than this, so that a huge `max_pins` costs memory only as pins are made.
const MOST_CHAINS: usize = 1 << 20;

/// Dead or expired pins removed per sweep: what bounds a sweep's time.
const SWEEP: usize = 64;

/// Idle pins are swept at most this often, many at a time rather than one by one.
const SWEEP_GRAIN: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct PinTable {
    capacity: usize,
    lifetimes: Lifetimes,
    seed: u64,
    slab: Slab,
    /// First slot of each chain.
    chains: Vec<Option<Slot>>,
    by_use: [List<ByUse>; 2],
    homes: Vec<Home>,
    graveyard: List<ByHome>,
}

pub(crate) use slab::Slot;

/// The pins of one replica.
#[derive(Clone, Debug)]
struct Home {
    id: ReplicaId,
    /// Counts deaths: a pin made in an earlier era is dead.
    era: u32,
    pins: List<ByHome>,
    counts: [usize; 2],
}

impl PinTable {
    pub(crate) fn new(capacity: usize, lifetimes: Lifetimes, seed: u64) -> Self {
        let capacity = capacity.min(u32::MAX as usize - 1);
        let chains = capacity.clamp(1, MOST_CHAINS).next_power_of_two();
        Self {
            capacity,
            lifetimes,
            seed,
            slab: Slab::with_capacity(capacity.min(MOST_CHAINS)),
            chains: vec![None; if capacity == 0 { 1 } else { chains }],
            by_use: [List::default(), List::default()],
            homes: Vec::new(),
            graveyard: List::default(),
        }
    }

    /// `id`: larger than any before.
    pub(crate) fn add_replica(&mut self, id: ReplicaId) {
        self.homes.push(Home { id, era: 0, pins: List::default(), counts: [0; 2] });
    }

    /// Its pins are dead, and there will be no others.
    pub(crate) fn remove_replica(&mut self, id: ReplicaId) {
        self.kill_all(id);
        self.homes.retain(|home| home.id != id);
    }

    pub(crate) fn find(&self, now: Time, key: PinKey) -> Found {
        match self.slot(key).map(|slot| self.slab.get(slot)) {
            None => Found::Nothing,
            Some(node) if self.is_expired(now, node) => Found::Dead { expired: true },
            Some(node) if self.is_dead(node) => Found::Dead { expired: false },
            Some(node) => Found::Pin { replica: node.replica, spills: node.spills },
        }
    }

    pub(crate) fn is_living(&self, now: Time, key: PinKey) -> bool {
        matches!(self.find(now, key), Found::Pin { .. })
    }

    /// Binds the key to the replica, whatever it was bound to.
    pub(crate) fn bind(&mut self, now: Time, key: PinKey, replica: ReplicaId) {
        self.remove(key);
        if self.capacity == 0 {
            return;
        }
        if self.slab.len() >= self.capacity {
            self.evict();
        }
        let chain = self.chain(key);
        let Some(at) = self.home(replica) else { return };
        let home = &mut self.homes[at];
        home.counts[key.kind as usize] += 1;
        let node = Node::new(key, replica, home.era, now, self.chains[chain]);
        let slot = self.slab.insert(node);
        self.chains[chain] = Some(slot);
        self.homes[at].pins.push_front(&mut self.slab, slot);
        self.by_use[key.kind as usize].push_front(&mut self.slab, slot);
    }

    /// A use: the lifetime starts anew and the row of spills ends. A pin that points elsewhere is left alone.
    pub(crate) fn renew(&mut self, now: Time, key: PinKey, replica: ReplicaId) {
        let Some(slot) = self.slot(key) else { return };
        let node = self.slab.get_mut(slot);
        if node.replica != replica {
            return;
        }
        node.used = now;
        node.spills = 0;
        let list = &mut self.by_use[key.kind as usize];
        list.unlink(&mut self.slab, slot);
        list.push_front(&mut self.slab, slot);
    }

    /// A request went elsewhere though the pin was there.
    pub(crate) fn spill(&mut self, key: PinKey) {
        if let Some(slot) = self.slot(key) {
            let node = self.slab.get_mut(slot);
            node.spills = node.spills.saturating_add(1);
        }
    }

    pub(crate) fn remove(&mut self, key: PinKey) {
        if let Some(slot) = self.slot(key) {
            self.remove_slot(slot);
        }
    }

    /// Every pin to this replica is dead from now on.
    pub(crate) fn kill_all(&mut self, replica: ReplicaId) {
        let Some(home) = self.home(replica).and_then(|at| self.homes.get_mut(at)) else { return };
        home.era = home.era.wrapping_add(1);
        home.counts = [0; 2];
        let pins = std::mem::take(&mut home.pins);
        self.graveyard.prepend(&mut self.slab, pins);
    }

    /// Removes a bounded number of dead and expired pins.
    pub(crate) fn sweep(&mut self, now: Time) {
        for _ in 0..SWEEP {
            let Some(slot) = self.graveyard.front() else { break };
            self.remove_slot(slot);
        }
        for kind in [PinKind::Session, PinKind::Prefix] {
            for _ in 0..SWEEP {
                match self.by_use[kind as usize].back() {
                    Some(slot) if self.is_expired(now, self.slab.get(slot)) => self.remove_slot(slot),
                    _ => break,
                }
            }
        }
    }

    /// When a sweep has something to do: at once (`now`) while dead pins are left.
    pub(crate) fn sweep_due(&self, now: Time) -> Option<Time> {
        if self.graveyard.front().is_some() {
            return Some(now);
        }
        let expiries = self.by_use.iter().filter_map(|list| {
            let node = self.slab.get(list.back()?);
            let expiry = (node.used + self.lifetime(node.key.kind)).as_nanos();
            Some(Time::from_nanos(expiry.div_ceil(SWEEP_GRAIN).saturating_mul(SWEEP_GRAIN)))
        });
        expiries.min()
    }

    /// Living pins of a kind, expired ones that no sweep has met yet included.
    pub(crate) fn count(&self, kind: PinKind) -> usize {
        self.homes.iter().map(|home| home.counts[kind as usize]).sum()
    }

    /// Living pins of both kinds to a replica.
    pub(crate) fn count_at(&self, replica: ReplicaId) -> usize {
        self.home(replica).and_then(|at| self.homes.get(at)).map_or(0, |home| home.counts.iter().sum())
    }

    fn is_dead(&self, node: &Node) -> bool {
        self.home(node.replica).is_none_or(|at| self.homes[at].era != node.era)
    }

    /// As on the board: in order of ids.
    fn home(&self, id: ReplicaId) -> Option<usize> {
        match self.homes.get(id.index()) {
            Some(home) if home.id == id => Some(id.index()),
            _ => self.homes.binary_search_by_key(&id, |home| home.id).ok(),
        }
    }

    fn is_expired(&self, now: Time, node: &Node) -> bool {
        now.since(node.used) >= self.lifetime(node.key.kind)
    }

    fn lifetime(&self, kind: PinKind) -> Duration {
        match kind {
            PinKind::Session => self.lifetimes.session,
            PinKind::Prefix => self.lifetimes.prefix,
        }
    }

    /// Mixed with the pool's seed: clients choose keys, and must not be able to choose them into one chain.
    fn chain(&self, key: PinKey) -> usize {
        let word = mix(key.hash ^ self.seed ^ ((key.kind as u64) << 63));
        (word as usize) & (self.chains.len() - 1)
    }

    fn slot(&self, key: PinKey) -> Option<Slot> {
        let mut next = self.chains[self.chain(key)];
        while let Some(slot) = next {
            let node = self.slab.get(slot);
            if node.key == key {
                return Some(slot);
            }
            next = node.chain_next;
        }
        None
    }

    /// Makes room for one pin: a dead one, else the least recently used of either kind.
    fn evict(&mut self) {
        let oldest = self.by_use.iter().filter_map(List::back).min_by_key(|slot| self.slab.get(*slot).used);
        if let Some(slot) = self.graveyard.front().or(oldest) {
            self.remove_slot(slot);
        }
    }

    fn remove_slot(&mut self, slot: Slot) {
        let node = self.slab.get(slot);
        let (key, replica, dead, after) = (node.key, node.replica, self.is_dead(node), node.chain_next);
        self.unchain(key, slot, after);
        self.by_use[key.kind as usize].unlink(&mut self.slab, slot);
        if dead {
            self.graveyard.unlink(&mut self.slab, slot);
        } else if let Some(at) = self.home(replica) {
            let home = &mut self.homes[at];
            home.pins.unlink(&mut self.slab, slot);
            home.counts[key.kind as usize] -= 1;
        }
        self.slab.remove(slot);
    }

    fn unchain(&mut self, key: PinKey, slot: Slot, after: Option<Slot>) {
        let chain = self.chain(key);
        if self.chains[chain] == Some(slot) {
            self.chains[chain] = after;
            return;
        }
        let mut next = self.chains[chain];
        while let Some(before) = next {
            let node = self.slab.get_mut(before);
            if node.chain_next == Some(slot) {
                node.chain_next = after;
                return;
            }
            next = node.chain_next;
        }
    }
}

mod check;
#[cfg(test)]
mod tests;
