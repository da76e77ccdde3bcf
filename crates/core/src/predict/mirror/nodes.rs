//! The index: one node for each block that somebody holds, found by its hash.

use super::NONE;
use super::holders::Holders;
use crate::prng::mix;

#[derive(Clone, Debug)]
struct Node {
    hash: u64,
    holders: Holders,
    /// The next one of the same chain; of a vacant node, the next vacant one.
    next: u32,
    /// The block before it in every prompt that has it.
    parent: u32,
    /// Different blocks that follow it.
    children: u32,
}

/// A slab of nodes and an array of hash chains over it.
#[derive(Debug)]
pub(super) struct Nodes {
    nodes: Vec<Node>,
    vacant: u32,
    /// First node of each chain: a power of two of them.
    chains: Vec<u32>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { nodes: Vec::new(), vacant: NONE, chains: vec![NONE] }
    }
}

impl Nodes {
    /// Makes room for `total` nodes: up to as many, adding allocates nothing.
    pub(super) fn reserve(&mut self, total: usize) {
        self.nodes.reserve(total.saturating_sub(self.nodes.len()));
        if self.chains.len() < total {
            self.chains = vec![NONE; total.next_power_of_two()];
            for id in self.living() {
                self.enchain(id);
            }
        }
    }

    pub(super) fn find(&self, hash: u64) -> Option<u32> {
        let mut at = self.chains[self.chain(hash)];
        while at != NONE {
            let node = self.get(at);
            if node.hash == hash {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    pub(super) fn find_or_add(&mut self, hash: u64) -> u32 {
        self.find(hash).unwrap_or_else(|| self.add(hash))
    }

    /// `child` follows `parent`. Without a child nothing happens.
    pub(super) fn link(&mut self, child: u32, parent: u32) {
        if child != NONE && self.get(child).parent != parent {
            self.get_mut(child).parent = parent;
            self.get_mut(parent).children += 1;
        }
    }

    /// Nobody holds it any more, hence nobody holds a child of it.
    pub(super) fn remove(&mut self, id: u32) {
        debug_assert_eq!(self.get(id).children, 0, "a block goes before the one that it follows");
        self.unchain(id);
        let parent = self.get(id).parent;
        if parent != NONE {
            self.get_mut(parent).children -= 1;
        }
        let vacant = std::mem::replace(&mut self.vacant, id);
        self.get_mut(id).next = vacant;
    }

    pub(super) fn children(&self, id: u32) -> u32 {
        self.get(id).children
    }

    pub(super) fn holders(&self, id: u32) -> &Holders {
        &self.get(id).holders
    }

    pub(super) fn holders_mut(&mut self, id: u32) -> &mut Holders {
        &mut self.get_mut(id).holders
    }

    fn add(&mut self, hash: u64) -> u32 {
        let node = Node { hash, holders: Holders::none(), next: NONE, parent: NONE, children: 0 };
        let id = self.vacant;
        let id = if id == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            self.vacant = self.get(id).next;
            *self.get_mut(id) = node;
            id
        };
        self.enchain(id);
        id
    }

    fn enchain(&mut self, id: u32) {
        let chain = self.chain(self.get(id).hash);
        self.get_mut(id).next = std::mem::replace(&mut self.chains[chain], id);
    }

    fn unchain(&mut self, id: u32) {
        let chain = self.chain(self.get(id).hash);
        let after = self.get(id).next;
        let mut at = self.chains[chain];
        if at == id {
            self.chains[chain] = after;
            return;
        }
        while self.get(at).next != id {
            at = self.get(at).next;
        }
        self.get_mut(at).next = after;
    }

    /// Every node that is in a chain. For a rebuild alone: it allocates.
    fn living(&self) -> Vec<u32> {
        let is_living = |id: &u32| !self.get(*id).holders.is_empty();
        (0..self.nodes.len() as u32).filter(is_living).collect()
    }

    fn chain(&self, hash: u64) -> usize {
        mix(hash) as usize & (self.chains.len() - 1)
    }

    fn get(&self, id: u32) -> &Node {
        &self.nodes[id as usize]
    }

    fn get_mut(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.living().len()
    }

    #[cfg(test)]
    pub(super) fn parent(&self, id: u32) -> Option<u32> {
        Some(self.get(id).parent).filter(|parent| *parent != NONE)
    }

    #[cfg(test)]
    pub(super) fn ids(&self) -> Vec<u32> {
        self.living()
    }
}
