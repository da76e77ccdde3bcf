//! KV blocks with reference counts, and the prefix cache over them.
//!
//! The scheme is that of vLLM's automatic prefix caching: all blocks without a holder are one list in order of their last
//! release. A block taken for new content comes from the old end and only then loses what it cached; a block found by its
//! hash is taken out of the list, wherever it is.

use std::collections::HashMap;

/// A block's place in the pool.
pub(super) type BlockId = u32;

/// Marks an end of the free list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Block {
    holders: u32,
    /// The chained hash under which the block can be found.
    hash: Option<u64>,
    /// Neighbours in the free list, meaningful while `holders` is 0.
    older: BlockId,
    newer: BlockId,
}

#[derive(Debug)]
pub(super) struct BlockPool {
    blocks: Vec<Block>,
    by_hash: HashMap<u64, BlockId>,
    oldest: BlockId,
    newest: BlockId,
    free: u32,
}

impl BlockPool {
    pub(super) fn new(capacity: u32) -> Self {
        let empty = Block { holders: 0, hash: None, older: NONE, newer: NONE };
        let mut pool = Self {
            blocks: vec![empty; capacity as usize],
            by_hash: HashMap::new(),
            oldest: NONE,
            newest: NONE,
            free: 0,
        };
        for id in 0..capacity {
            pool.append_free(id);
        }
        pool
    }

    /// Blocks without a holder, cached or not.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    pub(super) fn capacity(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The cached blocks of the longest known prefix of `hashes`.
    pub(super) fn find(&self, hashes: &[u64]) -> Vec<BlockId> {
        hashes.iter().map_while(|hash| self.by_hash.get(hash).copied()).collect()
    }

    /// How many of these blocks have no holder: taking them uses up that many free ones.
    pub(super) fn unheld(&self, blocks: &[BlockId]) -> u32 {
        blocks.iter().filter(|&&id| self.block(id).holders == 0).count() as u32
    }

    /// One holder more for a block found by [`BlockPool::find`].
    pub(super) fn hold(&mut self, id: BlockId) {
        if self.block(id).holders == 0 {
            self.unlink_free(id);
        }
        self.block_mut(id).holders += 1;
    }

    /// The block that has been free longest, now with one holder and without its old content.
    pub(super) fn take(&mut self) -> Option<BlockId> {
        if self.oldest == NONE {
            return None;
        }
        let id = self.oldest;
        self.unlink_free(id);
        let block = self.block_mut(id);
        block.holders = 1;
        if let Some(hash) = block.hash.take() {
            self.by_hash.remove(&hash);
        }
        Some(id)
    }

    /// Makes a full block findable. A hash that another block already carries stays with that one.
    pub(super) fn publish(&mut self, id: BlockId, hash: u64) {
        if self.block(id).hash.is_some() || self.by_hash.contains_key(&hash) {
            return;
        }
        self.block_mut(id).hash = Some(hash);
        self.by_hash.insert(hash, id);
    }

    /// One holder less. The last one leaves the block free, its content findable until it is taken.
    pub(super) fn release(&mut self, id: BlockId) {
        let block = self.block_mut(id);
        debug_assert!(block.holders > 0, "released more often than held");
        block.holders = block.holders.saturating_sub(1);
        if block.holders == 0 {
            self.append_free(id);
        }
    }

    /// Every block is either held or in the list exactly once, and every findable block knows its hash.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, held: impl Iterator<Item = BlockId>) {
        let mut holders = vec![0_u32; self.blocks.len()];
        held.for_each(|id| holders[id as usize] += 1);
        for (block, expected) in self.blocks.iter().zip(&holders) {
            assert_eq!(block.holders, *expected, "holders and references agree");
        }
        let (mut listed, mut at, mut older) = (0, self.oldest, NONE);
        while at != NONE {
            let block = self.block(at);
            assert_eq!((block.holders, block.older), (0, older), "the free list is linked both ways");
            (listed, older, at) = (listed + 1, at, block.newer);
        }
        assert_eq!((listed, self.newest), (self.free, older));
        assert_eq!(holders.iter().filter(|&&n| n == 0).count(), self.free as usize);
        for (hash, id) in &self.by_hash {
            assert_eq!(self.block(*id).hash, Some(*hash));
        }
    }

    // Ids come only from this pool, never from the network.
    fn block(&self, id: BlockId) -> &Block {
        &self.blocks[id as usize]
    }

    fn block_mut(&mut self, id: BlockId) -> &mut Block {
        &mut self.blocks[id as usize]
    }

    fn append_free(&mut self, id: BlockId) {
        let newest = self.newest;
        let block = self.block_mut(id);
        (block.older, block.newer) = (newest, NONE);
        if newest == NONE {
            self.oldest = id;
        } else {
            self.block_mut(newest).newer = id;
        }
        self.newest = id;
        self.free += 1;
    }

    fn unlink_free(&mut self, id: BlockId) {
        let Block { older, newer, .. } = *self.block(id);
        if older == NONE {
            self.oldest = newer;
        } else {
            self.block_mut(older).newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            self.block_mut(newer).older = older;
        }
        self.free -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_released_longest_ago_is_evicted_first() {
        let mut pool = BlockPool::new(3);
        let blocks: Vec<_> = (0..3).map(|_| pool.take().unwrap()).collect();
        for (id, hash) in blocks.iter().zip([10, 11, 12]) {
            pool.publish(*id, hash);
        }
        assert_eq!(pool.take(), None, "all are held");
        for id in [blocks[2], blocks[0], blocks[1]] {
            pool.release(id);
        }
        assert_eq!(pool.take(), Some(blocks[2]));
        assert!(pool.find(&[12]).is_empty(), "evicted");
        assert_eq!(pool.find(&[10, 11]), vec![blocks[0], blocks[1]], "still cached");
        pool.check_invariants([blocks[2]].into_iter());
    }

    #[test]
    fn a_hit_renews_a_block() {
        let mut pool = BlockPool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.publish(a, 1);
        pool.publish(b, 2);
        pool.release(a);
        pool.release(b);
        pool.hold(a);
        pool.release(a);
        assert_eq!(pool.take(), Some(b), "the one that was not used again goes first");
        assert_eq!(pool.find(&[1]), vec![a]);
    }

    #[test]
    fn a_prefix_ends_at_its_first_unknown_block() {
        let mut pool = BlockPool::new(4);
        let a = pool.take().unwrap();
        let c = pool.take().unwrap();
        pool.publish(a, 1);
        pool.publish(c, 3);
        assert_eq!(pool.find(&[1, 2, 3]), vec![a]);
        assert_eq!(pool.unheld(&[a, c]), 0);
    }

    #[test]
    fn a_block_is_free_only_when_its_last_holder_leaves() {
        let mut pool = BlockPool::new(1);
        let a = pool.take().unwrap();
        pool.hold(a);
        pool.release(a);
        assert_eq!(pool.free(), 0);
        pool.release(a);
        assert_eq!(pool.free(), 1);
    }

    #[test]
    fn a_hash_stays_with_the_block_that_carried_it_first() {
        let mut pool = BlockPool::new(2);
        let (a, b) = (pool.take().unwrap(), pool.take().unwrap());
        pool.publish(a, 1);
        pool.publish(b, 1);
        assert_eq!(pool.find(&[1]), vec![a]);
        pool.check_invariants([a, b].into_iter());
    }
}
