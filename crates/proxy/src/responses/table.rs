//! A bounded table of ids with a lifetime, in order of their last use.
//!
//! Of an id only a hash of 128 bits is kept, so its length costs nothing. Two ids with one hash would be one response:
//! among the most that are remembered that has a chance of 1 in 2^95. Ids that clients choose change nothing about it:
//! the hash is keyed (std's `RandomState`, made against chosen inputs) with a key of this process that nobody is told.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use sluicegate_core::Time;

/// Most ids that are remembered: about 14 MB, however long they are.
const CAPACITY: usize = 100_000;
/// How long an id is remembered after it was made.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Where full, the id that was not used for the longest time goes first.
#[derive(Debug)]
pub(super) struct Table<H> {
    places: HashMap<Name, Place<H>>,
    /// By the turn of its last use.
    uses: BTreeMap<u64, Name>,
    turn: u64,
    secret: RandomState,
}

/// An id's hash.
type Name = u128;

#[derive(Debug)]
struct Place<H> {
    home: H,
    until: Time,
    /// Its last use.
    turn: u64,
}

impl<H> Default for Table<H> {
    fn default() -> Self {
        Self { places: HashMap::new(), uses: BTreeMap::new(), turn: 0, secret: RandomState::new() }
    }
}

impl<H> Table<H> {
    /// Puts `id` in, in the place of one of the same name.
    pub(super) fn insert(&mut self, now: Time, id: &str, home: H) {
        let name = self.name(id);
        self.remove(name);
        if self.places.len() >= CAPACITY
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.places.remove(&oldest);
        }
        self.turn += 1;
        self.uses.insert(self.turn, name);
        self.places.insert(name, Place { home, until: now + LIFETIME, turn: self.turn });
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
        if let Some(name) = self.uses.remove(&place.turn) {
            self.uses.insert(self.turn, name);
        }
        place.turn = self.turn;
        Some(&place.home)
    }

    /// Two hashes of 64 bits that have nothing in common but the secret.
    fn name(&self, id: &str) -> Name {
        let half = |which: u8| Name::from(self.secret.hash_one((which, id)));
        (half(0) << 64) | half(1)
    }

    fn remove(&mut self, name: Name) {
        if let Some(place) = self.places.remove(&name) {
            self.uses.remove(&place.turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::ZERO;

    #[test]
    fn the_table_is_bounded_and_forgets_what_was_not_used_for_longest() {
        let mut table = Table::default();
        for n in 0..CAPACITY {
            table.insert(START, &format!("r{n}"), n);
        }
        assert_eq!(table.find(START, "r0"), Some(&0), "used: r1 is the oldest now");
        table.insert(START, "r2", 7);
        assert_eq!(table.places.len(), CAPACITY, "an id that is known takes no second place");
        table.insert(START, "new", 8);
        assert_eq!((table.places.len(), table.uses.len()), (CAPACITY, CAPACITY));
        let found = ["r0", "r1", "r2", "new"].map(|id| table.find(START, id).copied());
        assert_eq!(found, [Some(0), None, Some(7), Some(8)]);
    }

    #[test]
    fn an_id_is_forgotten_a_day_after_it_was_made_however_often_it_is_used() {
        let mut table = Table::default();
        table.insert(START, "r", 1);
        for (after, found) in [(LIFETIME - Duration::from_nanos(1), Some(&1)), (LIFETIME, None)] {
            assert_eq!(table.find(START + after, "r"), found, "{after:?}");
        }
        assert_eq!((table.places.len(), table.uses.len()), (0, 0));
    }

    #[test]
    fn ids_of_any_length_are_told_apart_by_their_last_byte_and_take_no_more_room() {
        let mut table = Table::default();
        for len in [0, 1, 63, 64, 200, 256, 10_000] {
            let ids = ["a", "b"].map(|end| "r".repeat(len) + end);
            ids.iter().for_each(|id| table.insert(START, id, id.clone()));
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
