//! Who waits for one route in one class, and who of them gives way where the route is full.

use super::Ticket;
use crate::ids::KeyIndex;
use std::collections::{BTreeMap, BTreeSet};

/// Everything here takes time in the logarithm of those waiting.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    tickets: BTreeSet<Ticket>,
    /// Of each key those that may have to give way: all but retries, which have waited before.
    keys: BTreeMap<KeyIndex, BTreeSet<Ticket>>,
    /// The keys by how many those are, then by their newest.
    sizes: BTreeSet<(usize, Ticket, KeyIndex)>,
}

impl Crowd {
    pub(super) fn insert(&mut self, key: KeyIndex, ticket: Ticket, fresh: bool) {
        self.tickets.insert(ticket);
        if fresh {
            self.resize(key, |own| own.insert(ticket));
        }
    }

    pub(super) fn remove(&mut self, key: KeyIndex, ticket: Ticket, fresh: bool) {
        self.tickets.remove(&ticket);
        if fresh {
            self.resize(key, |own| own.remove(&ticket));
        }
    }

    /// In order of arrival.
    pub(super) fn tickets(&self) -> &BTreeSet<Ticket> {
        &self.tickets
    }

    /// How many of the key may have to give way.
    pub(super) fn of(&self, key: KeyIndex) -> usize {
        self.keys.get(&key).map_or(0, BTreeSet::len)
    }

    /// The newest of the key with most, of several such keys the newest of all; and how many that key has.
    pub(super) fn newest_of_most(&self) -> Option<(usize, Ticket)> {
        self.sizes.last().map(|(size, newest, _)| (*size, *newest))
    }

    fn resize(&mut self, key: KeyIndex, change: impl FnOnce(&mut BTreeSet<Ticket>) -> bool) {
        let own = self.keys.entry(key).or_default();
        if let Some(newest) = own.last() {
            self.sizes.remove(&(own.len(), *newest, key));
        }
        change(own);
        match own.last() {
            Some(newest) => {
                self.sizes.insert((own.len(), *newest, key));
            }
            None => {
                self.keys.remove(&key);
            }
        }
    }

    /// Panics where its views of who waits disagree.
    pub(super) fn check(&self) {
        let sizes = self.keys.iter().map(|(key, own)| (own.len(), own.last().copied(), *key));
        let seen = self.sizes.iter().map(|(size, newest, key)| (*size, Some(*newest), *key));
        assert_eq!(sizes.collect::<BTreeSet<_>>(), seen.collect(), "each key stands at its size");
        let own: BTreeSet<Ticket> = self.keys.values().flatten().copied().collect();
        assert!(own.is_subset(&self.tickets), "nobody gives way who does not wait");
    }
}
