//! Which nodes a replica holds, in order of use.

use super::NONE;
use crate::prng::mix;

/// One node at one replica.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: u32,
    replica: u32,
    older: u32,
    newer: u32,
    /// The next one of the same chain; of a vacant place, the next vacant one.
    next: u32,
}

/// The nodes of one replica.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: u32,
    newest: u32,
}

/// A slab of places, an array of hash chains over it, and a list in order of use for each replica.
#[derive(Debug)]
pub(super) struct Places {
    places: Vec<Place>,
    vacant: u32,
    chains: Vec<u32>,
    lists: Vec<List>,
}

impl Default for Places {
    fn default() -> Self {
        Self { places: Vec::new(), vacant: NONE, chains: vec![NONE], lists: Vec::new() }
    }
}

impl Places {
    pub(super) fn add_replica(&mut self) {
        self.lists.push(List { oldest: NONE, newest: NONE });
    }

    /// Makes room for `total` places: up to as many, adding allocates nothing.
    pub(super) fn reserve(&mut self, total: usize) {
        self.places.reserve(total.saturating_sub(self.places.len()));
        if self.chains.len() < total {
            self.chains = vec![NONE; total.next_power_of_two()];
            for list in 0..self.lists.len() {
                let mut at = self.lists[list].oldest;
                while at != NONE {
                    self.enchain(at);
                    at = self.get(at).newer;
                }
            }
        }
    }

    /// Makes a node that the replica holds the one used last. False: it does not hold it.
    pub(super) fn refresh(&mut self, node: u32, replica: usize) -> bool {
        let Some(id) = self.find(node, replica) else { return false };
        if self.lists[replica].newest != id {
            self.unlist(id);
            self.enlist(id);
        }
        true
    }

    /// One more node, used last.
    pub(super) fn add_front(&mut self, node: u32, replica: usize) {
        let id = self.add(node, replica);
        self.enlist(id);
    }

    /// One more node, used just after `older`, which the replica holds.
    pub(super) fn add_newer(&mut self, node: u32, older: u32, replica: usize) {
        let Some(older) = self.find(older, replica) else { return };
        let id = self.add(node, replica);
        let newer = std::mem::replace(&mut self.get_mut(older).newer, id);
        (self.get_mut(id).older, self.get_mut(id).newer) = (older, newer);
        if newer == NONE {
            self.lists[replica].newest = id;
        } else {
            self.get_mut(newer).older = id;
        }
    }

    fn add(&mut self, node: u32, replica: usize) -> u32 {
        let place = Place { node, replica: replica as u32, older: NONE, newer: NONE, next: NONE };
        let id = self.vacant;
        let id = if id == NONE {
            self.places.push(place);
            self.places.len() as u32 - 1
        } else {
            self.vacant = self.get(id).next;
            *self.get_mut(id) = place;
            id
        };
        self.enchain(id);
        id
    }

    /// Takes away the node that the replica has not used for longest.
    pub(super) fn take_oldest(&mut self, replica: usize) -> Option<u32> {
        let id = self.lists[replica].oldest;
        if id == NONE {
            return None;
        }
        self.unlist(id);
        self.unchain(id);
        let vacant = std::mem::replace(&mut self.vacant, id);
        let place = self.get_mut(id);
        place.next = vacant;
        Some(place.node)
    }

    fn find(&self, node: u32, replica: usize) -> Option<u32> {
        let mut at = self.chains[self.chain(node, replica as u32)];
        while at != NONE {
            let place = self.get(at);
            if place.node == node && place.replica == replica as u32 {
                return Some(at);
            }
            at = place.next;
        }
        None
    }

    fn enlist(&mut self, id: u32) {
        let list = self.get(id).replica as usize;
        let before = std::mem::replace(&mut self.lists[list].newest, id);
        (self.get_mut(id).older, self.get_mut(id).newer) = (before, NONE);
        if before == NONE {
            self.lists[list].oldest = id;
        } else {
            self.get_mut(before).newer = id;
        }
    }

    fn unlist(&mut self, id: u32) {
        let Place { replica, older, newer, .. } = *self.get(id);
        let list = &mut self.lists[replica as usize];
        if older == NONE {
            list.oldest = newer;
        }
        if newer == NONE {
            list.newest = older;
        }
        if older != NONE {
            self.get_mut(older).newer = newer;
        }
        if newer != NONE {
            self.get_mut(newer).older = older;
        }
    }

    fn enchain(&mut self, id: u32) {
        let Place { node, replica, .. } = *self.get(id);
        let chain = self.chain(node, replica);
        self.get_mut(id).next = std::mem::replace(&mut self.chains[chain], id);
    }

    fn unchain(&mut self, id: u32) {
        let Place { node, replica, next, .. } = *self.get(id);
        let chain = self.chain(node, replica);
        let mut at = self.chains[chain];
        if at == id {
            self.chains[chain] = next;
            return;
        }
        while self.get(at).next != id {
            at = self.get(at).next;
        }
        self.get_mut(at).next = next;
    }

    fn chain(&self, node: u32, replica: u32) -> usize {
        mix(u64::from(node) << 32 | u64::from(replica)) as usize & (self.chains.len() - 1)
    }

    fn get(&self, id: u32) -> &Place {
        &self.places[id as usize]
    }

    fn get_mut(&mut self, id: u32) -> &mut Place {
        &mut self.places[id as usize]
    }

    #[cfg(test)]
    pub(super) fn of(&self, replica: usize) -> Vec<u32> {
        let (mut nodes, mut at) = (Vec::new(), self.lists[replica].newest);
        while at != NONE {
            nodes.push(self.get(at).node);
            at = self.get(at).older;
        }
        nodes
    }
}
