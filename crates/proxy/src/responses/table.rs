//! A bounded table of ids with a lifetime, in order of their last use.
//!
//! Of an id only a hash of 128 bits is kept, so its length costs nothing. Two ids with one hash would be one response:
//! among the most that are remembered that has a chance of 1 in 2^95. Ids that clients choose change nothing about it:
//! the hash is keyed (std's `RandomState`, made against chosen inputs) with a key of this process that nobody is told.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use sluicegate_core::{KeyIndex, Time};

/// Most ids that are remembered: about 14 MB, however long they are.
const CAPACITY: usize = 100_000;
/// How long an id is remembered after it was made.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Where full, an id of the key that has most of them gives way, the one that was not used for the longest time: whoever
/// makes many has nobody's forgotten that has fewer.
#[derive(Debug)]
pub(super) struct Table<H> {
    places: HashMap<Name, Place<H>>,
    /// Of each key its ids, by the turn of their last use.
    uses: BTreeMap<Owner, BTreeMap<u64, Name>>,
    /// The keys by how many they have.
    sizes: BTreeSet<(usize, Owner)>,
    turn: u64,
    secret: RandomState,
}

/// An id's hash.
type Name = u128;
/// Whose an id is; None: nobody's in particular, as the gateway is open.
type Owner = Option<KeyIndex>;

#[derive(Debug)]
struct Place<H> {
    home: H,
    owner: Owner,
    until: Time,
    /// Its last use.
    turn: u64,
}

impl<H> Default for Table<H> {
    fn default() -> Self {
        Self {
            places: HashMap::new(),
            uses: BTreeMap::new(),
            sizes: BTreeSet::new(),
            turn: 0,
            secret: RandomState::new(),
        }
    }
}

impl<H> Table<H> {
    /// Puts `id` in, in the place of one of the same name.
    pub(super) fn insert(&mut self, now: Time, id: &str, owner: Owner, home: H) {
        let name = self.name(id);
        self.remove(name);
        if self.places.len() >= CAPACITY
            && let Some(name) = self.gives_way()
        {
            self.remove(name);
        }
        self.turn += 1;
        let turn = self.turn;
        self.of(owner, |ids| ids.insert(turn, name));
        self.places.insert(name, Place { home, owner, until: now + LIFETIME, turn });
    }

    /// Uses `id`.
    pub(super) fn find(&mut self, now: Time, id: &str) -> Option<&H> {
        let name = self.name(id);
        if self.places.get(&name)?.until <= now {
            self.remove(name);
            return None;
        }
        let place = self.places.get_mut(&name)?;
        self.turn += 1;
        if let Some(ids) = self.uses.get_mut(&place.owner)
            && let Some(name) = ids.remove(&place.turn)
        {
            ids.insert(self.turn, name);
        }
        place.turn = self.turn;
        Some(&place.home)
    }

    fn gives_way(&self) -> Option<Name> {
        let (_, owner) = self.sizes.last()?;
        self.uses.get(owner)?.first_key_value().map(|(_, name)| *name)
    }

    /// Changes the ids of one key.
    fn of(&mut self, owner: Owner, change: impl FnOnce(&mut BTreeMap<u64, Name>) -> Option<Name>) {
        let ids = self.uses.entry(owner).or_default();
        self.sizes.remove(&(ids.len(), owner));
        change(ids);
        match ids.len() {
            0 => drop(self.uses.remove(&owner)),
            size => drop(self.sizes.insert((size, owner))),
        }
    }

    /// Two hashes of 64 bits that have nothing in common but the secret.
    fn name(&self, id: &str) -> Name {
        let half = |which: u8| Name::from(self.secret.hash_one((which, id)));
        (half(0) << 64) | half(1)
    }

    fn remove(&mut self, name: Name) {
        if let Some(place) = self.places.remove(&name) {
            self.of(place.owner, |ids| ids.remove(&place.turn));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::ZERO;
    const ANN: Owner = Some(KeyIndex(1));
    const BOB: Owner = Some(KeyIndex(2));

    #[test]
    fn the_table_is_bounded_and_forgets_what_was_not_used_for_longest() {
        let mut table = Table::default();
        for n in 0..CAPACITY {
            table.insert(START, &format!("r{n}"), ANN, n);
        }
        assert_eq!(table.find(START, "r0"), Some(&0), "used: r1 is the oldest now");
        table.insert(START, "r2", ANN, 7);
        assert_eq!(table.places.len(), CAPACITY, "an id that is known takes no second place");
        table.insert(START, "new", ANN, 8);
        assert_eq!((table.places.len(), table.uses[&ANN].len()), (CAPACITY, CAPACITY));
        let found = ["r0", "r1", "r2", "new"].map(|id| table.find(START, id).copied());
        assert_eq!(found, [Some(0), None, Some(7), Some(8)]);
    }

    #[test]
    fn a_key_that_makes_many_has_none_forgotten_of_a_key_that_has_fewer() {
        let mut table = Table::default();
        (0..100).for_each(|n| table.insert(START, &format!("bob{n}"), BOB, n));
        (0..CAPACITY + 1000).for_each(|n| table.insert(START, &format!("ann{n}"), ANN, n));
        assert_eq!(table.places.len(), CAPACITY);
        assert!((0..100).all(|n| table.find(START, &format!("bob{n}")) == Some(&n)));
        let found = ["ann0", "ann1099", "ann1100"].map(|id| table.find(START, id).copied());
        assert_eq!(found, [None, None, Some(1100)]);
        let sizes: Vec<_> = table.sizes.iter().copied().collect();
        assert_eq!(sizes, [(100, BOB), (CAPACITY - 100, ANN)]);
    }

    #[test]
    fn an_id_is_forgotten_a_day_after_it_was_made_however_often_it_is_used() {
        let mut table = Table::default();
        table.insert(START, "r", ANN, 1);
        for (after, found) in [(LIFETIME - Duration::from_nanos(1), Some(&1)), (LIFETIME, None)] {
            assert_eq!(table.find(START + after, "r"), found, "{after:?}");
        }
        assert_eq!((table.places.len(), table.uses.len(), table.sizes.len()), (0, 0, 0));
    }

    #[test]
    fn ids_of_any_length_are_told_apart_by_their_last_byte_and_take_no_more_room() {
        let mut table = Table::default();
        for len in [0, 1, 63, 64, 200, 256, 10_000] {
            let ids = ["a", "b"].map(|end| "r".repeat(len) + end);
            ids.iter().for_each(|id| table.insert(START, id, None, id.clone()));
            ids.iter().for_each(|id| assert_eq!(table.find(START, id), Some(id), "{len}"));
            assert_eq!(table.find(START, &"r".repeat(len)), None, "{len}");
        }
        assert_eq!(size_of::<Name>(), 16);
    }

    #[test]
    fn a_name_is_known_to_its_table_alone() {
        let tables = [Table::<()>::default(), Table::default()];
        let [one, other] = tables.map(|table| table.name("resp_1"));
        assert_ne!(one, other, "the secret is in it");
        assert_ne!(one >> 64, one & Name::from(u64::MAX), "both halves count");
    }
}
