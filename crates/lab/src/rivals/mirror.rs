//! A guess at what a replica's prefix cache holds: the blocks that were sent there, least recently used ones forgotten.

use std::collections::{HashMap, VecDeque};

#[derive(Clone, Debug)]
pub(super) struct Mirror {
    capacity: usize,
    /// When each block was used last.
    used: HashMap<u64, u64>,
    /// Uses in order; those that are not a block's last one are passed over.
    order: VecDeque<(u64, u64)>,
    clock: u64,
}

impl Mirror {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, used: HashMap::new(), order: VecDeque::new(), clock: 0 }
    }

    /// Leading blocks that are known.
    pub(super) fn matched(&self, blocks: &[u64]) -> usize {
        blocks.iter().take_while(|block| self.used.contains_key(block)).count()
    }

    /// The blocks are sent there. Their end counts as used first, so that the beginning outlives it.
    pub(super) fn note(&mut self, blocks: &[u64]) {
        for block in blocks.iter().rev() {
            self.clock += 1;
            self.used.insert(*block, self.clock);
            self.order.push_back((*block, self.clock));
        }
        while self.used.len() > self.capacity {
            self.forget_one();
        }
        if self.order.len() > 4 * self.capacity.max(64) {
            let used = &self.used;
            self.order.retain(|(block, at)| used.get(block) == Some(at));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.used.len()
    }

    fn forget_one(&mut self) {
        while let Some((block, at)) = self.order.pop_front() {
            if self.used.get(&block) == Some(&at) {
                self.used.remove(&block);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten_from_its_end() {
        let mut mirror = Mirror::new(4);
        mirror.note(&[1, 2]);
        mirror.note(&[11, 12]);
        mirror.note(&[1]);
        mirror.note(&[21]);
        assert_eq!((mirror.matched(&[1, 2]), mirror.matched(&[11, 12]), mirror.len()), (1, 2, 4));
        mirror.note(&[22]);
        assert_eq!((mirror.matched(&[1]), mirror.matched(&[11, 12])), (1, 1));
    }
}
