//! What each replica's prefix cache holds, as far as our own requests tell: a bounded LRU list of prompt blocks for each
//! replica, and one tree over all of them.
//!
//! A block is known by its chained hash, which stands for everything before it as well. The tree's nodes are runs of up to
//! sixteen blocks without a branch, found by the hash of their first. A request touches its nodes from its last to its
//! first, so a node is always used later than those behind it; evicting the oldest takes prompts apart from their ends, as
//! engines do. Hence the rule that makes matching cheap: **whoever holds a node holds those before it**. The holders along
//! a prompt are nested sets that only shrink; one walk finds where, for any number of replicas.

mod holders;
mod nodes;
mod places;

use holders::Sets;
use nodes::Nodes;
use places::Places;
use smallvec::SmallVec;

/// No node, no place.
const NONE: u32 = u32::MAX;

/// Most blocks remembered for all replicas of a pool together. Each replica has an equal part at most.
const MOST_BLOCKS: usize = 1 << 20;

/// Lengths of match that are told apart. Where a prompt has more of them, those between count as the next shorter.
const LEVELS: usize = 16;

/// The caches of all replicas of a pool.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    nodes: Nodes,
    sets: Sets,
    places: Places,
    /// Blocks that each replica's engine is taken to hold at most, and that its mirror holds.
    capacities: Vec<usize>,
    held: Vec<usize>,
}

/// How far each replica knows a prompt. It names nodes of its mirror: to be used before the mirror changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Match {
    /// From the shortest to the longest.
    levels: SmallVec<[Level; LEVELS]>,
    /// The longest ends inside of a run.
    inside: bool,
}

/// The holders of `node` know the first `depth` blocks at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    depth: u32,
    node: u32,
    holders: usize,
}

impl Mirror {
    /// One more replica, which holds up to `capacity` blocks.
    pub(crate) fn add_replica(&mut self, capacity: usize) {
        self.capacities.push(0);
        self.held.push(0);
        self.places.add_replica();
        self.sets.set_replicas(self.capacities.len());
        self.set_capacity(self.capacities.len() - 1, capacity);
    }

    /// What does not fit any more goes, the least recently used first.
    pub(crate) fn set_capacity(&mut self, replica: usize, capacity: usize) {
        let Some(known) = self.capacities.get_mut(replica) else { return };
        *known = capacity;
        let share = MOST_BLOCKS / self.capacities.len();
        let total: usize = self.capacities.iter().map(|c| (*c).min(share)).sum();
        // Runs are shorter than they may be where talks branch.
        self.nodes.reserve(total / 4);
        self.places.reserve(total / 4);
        self.trim(replica);
    }

    /// How far each replica knows the prompt whose chained block hashes these are. Allocates nothing.
    pub(crate) fn find(&self, blocks: &[u64]) -> Match {
        let (mut found, mut rest, mut depth, mut parent) = (Match::default(), blocks, 0, NONE);
        while let Some(node) = rest.first().and_then(|first| self.nodes.find(*first))
            && self.nodes.parent(node) == parent
        {
            let run = self.nodes.run(node);
            let alike = alike(run, rest);
            depth += alike;
            found.push(Level { depth: depth as u32, node, holders: self.sets.len(self.nodes.holders(node)) });
            rest = rest.get(alike..).unwrap_or_default();
            if alike < run.len() {
                found.inside = true;
                break;
            }
            parent = node;
        }
        found
    }

    /// The blocks that this replica knows of the prompt.
    pub(crate) fn depth(&self, found: &Match, replica: usize) -> u32 {
        let holds = |level: &&Level| self.sets.contains(self.nodes.holders(level.node), replica);
        found.levels.iter().take_while(holds).last().map_or(0, |level| level.depth)
    }

    /// The longest match of any replica, in blocks.
    pub(crate) fn deepest(&self, found: &Match) -> u32 {
        found.levels.last().map_or(0, |level| level.depth)
    }

    /// How many different blocks follow the last one of the longest match.
    pub(crate) fn branches(&self, found: &Match) -> u32 {
        // Inside of a run there is one way on.
        let at = |level: &Level| if found.inside { 1 } else { self.nodes.children(level.node) };
        found.levels.last().map_or(0, at)
    }

    /// The replicas with the longest match, each once.
    pub(crate) fn for_each_deepest(&self, found: &Match, f: impl FnMut(usize)) {
        if let Some(level) = found.levels.last() {
            self.sets.for_each(self.nodes.holders(level.node), f);
        }
    }

    /// The replica has been sent this prompt: it will hold these blocks, and has used them last. As many as it can hold
    /// at all.
    pub(crate) fn touch(&mut self, replica: usize, blocks: &[u64]) {
        let room = self.room(replica);
        let mut at = self.grow(replica, blocks.get(..room).unwrap_or(blocks));
        while at != NONE {
            if !self.places.refresh(at, replica) {
                self.places.add_front(at, replica);
                self.sets.insert(self.nodes.holders_mut(at), replica);
                self.held[replica] += self.nodes.run(at).len();
            }
            at = self.nodes.parent(at);
        }
        self.trim(replica);
    }

    /// The replica's cache is gone: its process has ended.
    pub(crate) fn forget(&mut self, replica: usize) {
        self.shrink(replica, 0);
    }

    fn room(&self, replica: usize) -> usize {
        let share = MOST_BLOCKS / self.capacities.len().max(1);
        self.capacities.get(replica).map_or(0, |capacity| (*capacity).min(share))
    }

    fn trim(&mut self, replica: usize) {
        self.shrink(replica, self.room(replica));
    }

    fn shrink(&mut self, replica: usize, to: usize) {
        while self.held.get(replica).is_some_and(|held| *held > to) {
            let Some(node) = self.places.take_oldest(replica) else { break };
            self.held[replica] -= self.nodes.run(node).len();
            if self.sets.remove(self.nodes.holders_mut(node), replica) {
                self.nodes.remove(node);
            }
        }
    }

    /// Makes the tree have a path of just these blocks; returns its last node. It ends before a block whose hash stands
    /// elsewhere in the tree: clients choose what is hashed, and can make hashes meet or come again.
    fn grow(&mut self, replica: usize, blocks: &[u64]) -> u32 {
        let (mut rest, mut parent) = (blocks, NONE);
        while let Some(first) = rest.first() {
            let node = match self.nodes.find(*first) {
                Some(node) if self.nodes.parent(node) != parent => break,
                Some(node) => self.follow(replica, node, rest),
                None => self.nodes.add(rest, parent),
            };
            rest = rest.get(self.nodes.run(node).len()..).unwrap_or_default();
            parent = node;
        }
        parent
    }

    /// Makes `node`, whose run begins as `rest` does, be all of `rest` or a beginning of it.
    fn follow(&mut self, replica: usize, node: u32, rest: &[u64]) -> u32 {
        let run = self.nodes.run(node);
        let alike = alike(run, rest);
        if alike < run.len() {
            return self.split(node, alike);
        }
        // A talk that goes on where nobody else knows it: its last run grows.
        let holders = self.nodes.holders(node);
        if self.sets.len(holders) == 1 && self.sets.contains(holders, replica) {
            self.held[replica] += self.nodes.extend(node, rest);
        }
        node
    }

    /// Cuts a node behind its first `len` blocks; returns the new one, which has these.
    fn split(&mut self, node: u32, len: usize) -> u32 {
        let holders = self.sets.copy(self.nodes.holders(node));
        let head = self.nodes.split(node, len);
        self.sets.for_each(&holders, |replica| self.places.add_newer(head, node, replica));
        *self.nodes.holders_mut(head) = holders;
        head
    }
}

/// How many blocks of the run the prompt begins with.
fn alike(run: &[u64], blocks: &[u64]) -> usize {
    run.iter().zip(blocks).take_while(|(a, b)| a == b).count()
}

impl Match {
    fn push(&mut self, level: Level) {
        // As many holders are the same holders.
        let same = self.levels.last().is_some_and(|last| last.holders == level.holders);
        if same || self.levels.len() == LEVELS {
            self.levels.pop();
        }
        self.levels.push(level);
    }
}

#[cfg(test)]
mod tests;
