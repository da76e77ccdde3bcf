//! What each replica's prefix cache holds, as far as our own requests tell: a bounded LRU list of prompt blocks for each
//! replica, and one index over all of them.
//!
//! A block is known by its chained hash, which stands for everything before it as well. A request touches its blocks from
//! its last to its first, so a block is always used later than those behind it; evicting the oldest takes prompts apart
//! from their ends, as engines do. Hence the rule that makes matching cheap: **whoever holds a block holds those before
//! it**. The holders of a prompt's blocks are nested sets that only shrink along the prompt; where the first and the last
//! block of a stretch have equally many holders the stretch need not be looked at. A match among any number of replicas
//! costs a few look-ups for each place where holders drop out.

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
    /// Blocks that each replica's engine is taken to hold.
    capacities: Vec<usize>,
}

/// How far each replica knows a prompt. It names nodes of its mirror: to be used before the mirror changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Match {
    /// From the shortest to the longest.
    levels: SmallVec<[Level; LEVELS]>,
}

/// The holders of `node` know the first `depth` blocks at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Level {
    depth: u32,
    node: u32,
}

impl Mirror {
    /// One more replica, which holds up to `capacity` blocks.
    pub(crate) fn add_replica(&mut self, capacity: usize) {
        self.capacities.push(0);
        self.places.add_replica();
        self.sets.set_replicas(self.capacities.len());
        self.set_capacity(self.capacities.len() - 1, capacity);
    }

    /// What does not fit any more goes, the least recently used first.
    pub(crate) fn set_capacity(&mut self, replica: usize, capacity: usize) {
        let Some(known) = self.capacities.get_mut(replica) else { return };
        *known = capacity;
        let share = MOST_BLOCKS / self.capacities.len();
        let total = self.capacities.iter().map(|c| (*c).min(share)).sum();
        self.nodes.reserve(total);
        self.places.reserve(total);
        self.trim(replica);
    }

    /// How far each replica knows the prompt whose chained block hashes these are. Allocates nothing.
    pub(crate) fn find(&self, blocks: &[u64]) -> Match {
        let mut found = Match::default();
        let before = Found { node: NONE, holders: usize::MAX };
        self.split(blocks, (0, before), (blocks.len() + 1, Found { node: NONE, holders: 0 }), &mut found);
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
        found.levels.last().map_or(0, |level| self.nodes.children(level.node))
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
        let blocks = blocks.get(..room).unwrap_or(blocks);
        let mut behind = NONE;
        for &hash in blocks.iter().rev() {
            let node = self.nodes.find_or_add(hash);
            self.nodes.link(behind, node);
            if !self.places.refresh(node, replica) {
                self.places.add_front(node, replica);
                self.sets.insert(self.nodes.holders_mut(node), replica);
            }
            behind = node;
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
        while self.places.held(replica) > to {
            let Some(node) = self.places.take_oldest(replica) else { break };
            if self.sets.remove(self.nodes.holders_mut(node), replica) {
                self.nodes.remove(node);
            }
        }
    }

    fn look(&self, hash: u64) -> Found {
        self.nodes.find(hash).map_or(Found { node: NONE, holders: 0 }, |node| Found {
            node,
            holders: self.sets.len(self.nodes.holders(node)),
        })
    }

    /// Finds the depths between `lo` and `hi` at which holders drop out.
    fn split(&self, blocks: &[u64], lo: (usize, Found), hi: (usize, Found), found: &mut Match) {
        if lo.1.holders == hi.1.holders {
            return;
        }
        if hi.0 - lo.0 == 1 {
            if lo.1.node != NONE {
                found.push(Level { depth: lo.0 as u32, node: lo.1.node });
            }
            return;
        }
        let depth = lo.0.midpoint(hi.0);
        let middle = (depth, blocks.get(depth - 1).map_or(hi.1, |hash| self.look(*hash)));
        self.split(blocks, lo, middle, found);
        self.split(blocks, middle, hi, found);
    }
}

impl Match {
    fn push(&mut self, level: Level) {
        if self.levels.len() == LEVELS {
            self.levels.pop();
        }
        self.levels.push(level);
    }
}

/// A block as the index knows it.
#[derive(Clone, Copy, Debug)]
struct Found {
    node: u32,
    holders: usize,
}

#[cfg(test)]
mod tests;
