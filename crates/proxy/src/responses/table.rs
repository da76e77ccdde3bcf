//! A bounded table of ids with a lifetime, in order of their last use.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::Time;

/// Most ids that are remembered: with ids of the usual length about 20 MB.
const CAPACITY: usize = 100_000;
/// How long an id is remembered after it was made.
const LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// Where full, the id that was not used for the longest time goes first.
#[derive(Debug)]
pub(super) struct Table<H> {
    places: HashMap<Arc<str>, Place<H>>,
    /// By the turn of its last use.
    uses: BTreeMap<u64, Arc<str>>,
    turn: u64,
}

#[derive(Debug)]
struct Place<H> {
    home: H,
    until: Time,
    /// Its last use.
    turn: u64,
}

impl<H> Default for Table<H> {
    fn default() -> Self {
        Self { places: HashMap::new(), uses: BTreeMap::new(), turn: 0 }
    }
}

impl<H> Table<H> {
    /// Puts `id` in, in the place of one of the same name.
    pub(super) fn insert(&mut self, now: Time, id: &str, home: H) {
        self.remove(id);
        if self.places.len() >= CAPACITY
            && let Some((_, oldest)) = self.uses.pop_first()
        {
            self.places.remove(&oldest);
        }
        self.turn += 1;
        let id: Arc<str> = id.into();
        self.uses.insert(self.turn, Arc::clone(&id));
        self.places.insert(id, Place { home, until: now + LIFETIME, turn: self.turn });
    }

    /// Uses `id`.
    pub(super) fn find(&mut self, now: Time, id: &str) -> Option<&H> {
        if self.places.get(id)?.until <= now {
            self.remove(id);
            return None;
        }
        let place = self.places.get_mut(id)?;
        self.turn += 1;
        if let Some(id) = self.uses.remove(&place.turn) {
            self.uses.insert(self.turn, id);
        }
        place.turn = self.turn;
        Some(&place.home)
    }

    fn remove(&mut self, id: &str) {
        if let Some(place) = self.places.remove(id) {
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
}
