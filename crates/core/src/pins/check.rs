//! The table's invariants.

use super::{ByHome, Found, List, PinKind, PinTable, Slot};
use crate::ids::ReplicaId;
use crate::time::Time;

/// Larger tables are checked by their counters alone: a walk after every change would be quadratic.
const WALKED: usize = 512;

impl PinTable {
    /// Panics where the table contradicts itself. `live`: whether a replica may hold pins.
    pub(crate) fn check(&self, now: Time, live: impl Fn(ReplicaId) -> bool) {
        assert!(self.slab.len() <= self.capacity, "more pins than max_pins");
        for home in &self.homes {
            let id = home.id;
            let pinned = home.counts != [0; 2];
            assert!(!pinned || live(id), "{id:?} holds pins and is not LIVE");
            assert_eq!(pinned, home.pins.front().is_some(), "counts and list of {id:?} differ");
        }
        if self.slab.len() > WALKED {
            return;
        }
        let by_use: usize =
            [PinKind::Session, PinKind::Prefix].into_iter().map(|kind| self.check_order(kind)).sum();
        assert_eq!(by_use, self.slab.len(), "every pin is on one list by use");
        let dead = self.graveyard.iter(&self.slab).count();
        let alive: usize = self.homes.iter().map(|home| home.pins.iter(&self.slab).count()).sum();
        assert_eq!(dead + alive, self.slab.len(), "every pin is on one list by replica");
        let counted: usize = self.homes.iter().flat_map(|home| home.counts).sum();
        assert_eq!(counted, alive, "counts are those of the living pins");
        self.check_ends(now);
    }

    fn check_order(&self, kind: PinKind) -> usize {
        let slots: Vec<Slot> = self.by_use[kind as usize].iter(&self.slab).collect();
        for pair in slots.windows(2) {
            assert!(self.slab.get(pair[0]).used >= self.slab.get(pair[1]).used, "not in order of use");
        }
        for slot in &slots {
            let key = self.slab.get(*slot).key;
            assert_eq!(key.kind, kind, "on the wrong list");
            assert_eq!(self.slot(key), Some(*slot), "not found by its key");
        }
        assert_eq!(slots.last().copied(), self.by_use[kind as usize].back(), "wrong end of the list by use");
        slots.len()
    }

    fn check_ends(&self, now: Time) {
        let last = |list: &List<ByHome>| list.iter(&self.slab).last();
        assert_eq!(last(&self.graveyard), self.graveyard.back(), "wrong end of the graveyard");
        for slot in self.graveyard.iter(&self.slab) {
            let found = self.find(now, self.slab.get(slot).key);
            assert!(matches!(found, Found::Dead { .. }), "a living pin in the graveyard");
        }
        for home in &self.homes {
            assert_eq!(last(&home.pins), home.pins.back(), "wrong end of a replica's list");
        }
    }
}
