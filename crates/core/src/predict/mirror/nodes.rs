//! The tree: one node for each run of blocks that somebody holds, found by the hash of its first.

use super::NONE;
use super::holders::Holders;
use crate::prng::mix;

/// Most blocks of a node.
pub(super) const RUN: usize = 16;

#[derive(Clone, Debug)]
struct Node {
    blocks: [u64; RUN],
    len: u32,
    /// The next one of the same chain; of a vacant node, the next vacant one.
    next: u32,
    /// The run before it.
    parent: u32,
    /// Runs that follow it.
    children: u32,
    holders: Holders,
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

    /// The node whose run begins with this block.
    pub(super) fn find(&self, first: u64) -> Option<u32> {
        let mut at = self.chains[self.chain(first)];
        while at != NONE {
            let node = self.get(at);
            if node.blocks[0] == first {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    /// Its blocks, at least one.
    pub(super) fn run(&self, id: u32) -> &[u64] {
        let node = self.get(id);
        &node.blocks[..node.len as usize]
    }

    /// A new node, without holders yet, of as many of these blocks as it can have.
    pub(super) fn add(&mut self, blocks: &[u64], parent: u32) -> u32 {
        let len = blocks.len().min(RUN);
        let mut run = [0; RUN];
        run[..len].copy_from_slice(&blocks[..len]);
        let holders = Holders::none();
        let node = Node { blocks: run, len: len as u32, next: NONE, parent, children: 0, holders };
        if parent != NONE {
            self.get_mut(parent).children += 1;
        }
        self.put(node)
    }

    /// Appends what `blocks` has beyond the run, if there is room and nothing follows it; returns how many.
    pub(super) fn extend(&mut self, id: u32, blocks: &[u64]) -> usize {
        let node = self.get_mut(id);
        let (len, to) = (node.len as usize, blocks.len().min(RUN));
        if node.children > 0 || to <= len {
            return 0;
        }
        node.blocks[len..to].copy_from_slice(&blocks[len..to]);
        node.len = to as u32;
        to - len
    }

    /// The first `len` blocks of a node become a node of their own, before it and without holders yet.
    pub(super) fn split(&mut self, id: u32, len: usize) -> u32 {
        self.unchain(id);
        let node = self.get_mut(id);
        let (parent, blocks) = (node.parent, node.blocks);
        node.blocks.copy_within(len.., 0);
        node.len -= len as u32;
        let holders = Holders::none();
        let head = Node { blocks, len: len as u32, next: NONE, parent, children: 1, holders };
        let head = self.put(head);
        self.get_mut(id).parent = head;
        self.enchain(id);
        head
    }

    /// Nobody holds it any more, hence nobody holds a child of it.
    pub(super) fn remove(&mut self, id: u32) {
        debug_assert_eq!(self.get(id).children, 0, "a run goes before the one that it follows");
        self.unchain(id);
        let parent = self.get(id).parent;
        if parent != NONE {
            self.get_mut(parent).children -= 1;
        }
        let vacant = std::mem::replace(&mut self.vacant, id);
        self.get_mut(id).next = vacant;
    }

    /// The run before it, or [`NONE`].
    pub(super) fn parent(&self, id: u32) -> u32 {
        self.get(id).parent
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

    fn put(&mut self, node: Node) -> u32 {
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
        let chain = self.chain(self.get(id).blocks[0]);
        self.get_mut(id).next = std::mem::replace(&mut self.chains[chain], id);
    }

    fn unchain(&mut self, id: u32) {
        let chain = self.chain(self.get(id).blocks[0]);
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

    fn chain(&self, first: u64) -> usize {
        mix(first) as usize & (self.chains.len() - 1)
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
    pub(super) fn ids(&self) -> Vec<u32> {
        self.living()
    }
}
