//! Nodes in a vector, threaded on intrusive lists.

use super::PinKey;
use crate::ids::ReplicaId;
use crate::time::Time;
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// A node's place, kept as one more than its index, so that a place or none fits in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(NonZeroU32);

impl Slot {
    fn from_index(index: usize) -> Self {
        let raw = u32::try_from(index + 1).ok().and_then(NonZeroU32::new);
        Self(raw.unwrap_or(NonZeroU32::MAX))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// One pin and its places on the lists.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) key: PinKey,
    pub(super) replica: ReplicaId,
    pub(super) era: u32,
    pub(super) spills: u32,
    pub(super) used: Time,
    pub(super) chain_next: Option<Slot>,
    by_use: Links,
    by_home: Links,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Links {
    before: Option<Slot>,
    after: Option<Slot>,
}

impl Node {
    pub(super) fn new(
        key: PinKey,
        replica: ReplicaId,
        era: u32,
        now: Time,
        chain_next: Option<Slot>,
    ) -> Self {
        let (by_use, by_home) = (Links::default(), Links::default());
        Self { key, replica, era, spills: 0, used: now, chain_next, by_use, by_home }
    }
}

/// The nodes. A removed node's place is the next one given out.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    nodes: Vec<Node>,
    vacant: Vec<Slot>,
}

impl Slab {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { nodes: Vec::with_capacity(capacity), vacant: Vec::with_capacity(capacity) }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    pub(super) fn get(&self, slot: Slot) -> &Node {
        &self.nodes[slot.index()]
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Node {
        &mut self.nodes[slot.index()]
    }

    pub(super) fn insert(&mut self, node: Node) -> Slot {
        if let Some(slot) = self.vacant.pop() {
            self.nodes[slot.index()] = node;
            return slot;
        }
        self.nodes.push(node);
        Slot::from_index(self.nodes.len() - 1)
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        self.vacant.push(slot);
    }
}

/// Which of a node's links a list uses.
pub(super) trait Axis {
    fn links(node: &mut Node) -> &mut Links;
    fn read(node: &Node) -> Links;
}

/// Most recently used first.
#[derive(Clone, Debug)]
pub(super) struct ByUse;

/// The pins of one replica, or all dead ones.
#[derive(Clone, Debug)]
pub(super) struct ByHome;

impl Axis for ByUse {
    fn links(node: &mut Node) -> &mut Links {
        &mut node.by_use
    }

    fn read(node: &Node) -> Links {
        node.by_use
    }
}

impl Axis for ByHome {
    fn links(node: &mut Node) -> &mut Links {
        &mut node.by_home
    }

    fn read(node: &Node) -> Links {
        node.by_home
    }
}

/// A doubly linked list of nodes.
#[derive(Clone, Debug)]
pub(super) struct List<A> {
    front: Option<Slot>,
    back: Option<Slot>,
    axis: PhantomData<A>,
}

impl<A> Default for List<A> {
    fn default() -> Self {
        Self { front: None, back: None, axis: PhantomData }
    }
}

impl<A: Axis> List<A> {
    pub(super) fn front(&self) -> Option<Slot> {
        self.front
    }

    pub(super) fn back(&self) -> Option<Slot> {
        self.back
    }

    pub(super) fn push_front(&mut self, slab: &mut Slab, slot: Slot) {
        *A::links(slab.get_mut(slot)) = Links { before: None, after: self.front };
        match self.front {
            Some(front) => A::links(slab.get_mut(front)).before = Some(slot),
            None => self.back = Some(slot),
        }
        self.front = Some(slot);
    }

    /// Takes a node out. It must be on this list.
    pub(super) fn unlink(&mut self, slab: &mut Slab, slot: Slot) {
        let Links { before, after } = A::read(slab.get(slot));
        match before {
            Some(before) => A::links(slab.get_mut(before)).after = after,
            None => self.front = after,
        }
        match after {
            Some(after) => A::links(slab.get_mut(after)).before = before,
            None => self.back = before,
        }
    }

    /// Puts a whole list before this one.
    pub(super) fn prepend(&mut self, slab: &mut Slab, other: Self) {
        let (Some(first), Some(last)) = (other.front, other.back) else { return };
        A::links(slab.get_mut(last)).after = self.front;
        match self.front {
            Some(front) => A::links(slab.get_mut(front)).before = Some(last),
            None => self.back = Some(last),
        }
        self.front = Some(first);
    }

    /// The nodes from front to back; for checks.
    pub(super) fn iter<'a>(&self, slab: &'a Slab) -> impl Iterator<Item = Slot> + use<'a, A> {
        std::iter::successors(self.front, |slot| A::read(slab.get(*slot)).after)
    }
}
