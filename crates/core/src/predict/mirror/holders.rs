//! Who holds a block: nearly always one replica or a few, now and then (a system prompt) all of them.

/// Holders that are listed in the node itself.
const FEW: usize = 6;

/// The holders of one block.
#[derive(Clone, Debug)]
pub(super) enum Holders {
    Few {
        count: u32,
        list: [u32; FEW],
    },
    /// A set of [`Sets`].
    Many {
        count: u32,
        set: u32,
    },
}

impl Holders {
    pub(super) fn none() -> Self {
        Self::Few { count: 0, list: [0; FEW] }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Few { count: 0, .. } | Self::Many { count: 0, .. })
    }
}

/// Bit sets of replicas, for blocks with many holders.
#[derive(Debug, Default)]
pub(super) struct Sets {
    words: Vec<u64>,
    /// Words of one set.
    stride: usize,
    vacant: Vec<u32>,
}

impl Sets {
    /// Makes every set wide enough for this many replicas.
    pub(super) fn set_replicas(&mut self, replicas: usize) {
        let stride = replicas.div_ceil(64);
        if stride <= self.stride {
            return;
        }
        // Twice as wide as needed: replicas come one after the other.
        let stride = stride.next_power_of_two();
        let mut words = Vec::new();
        for set in self.words.chunks(self.stride.max(1)) {
            words.extend_from_slice(set);
            words.resize(words.len() + stride - set.len(), 0);
        }
        (self.words, self.stride) = (words, stride);
    }

    pub(super) fn len(&self, holders: &Holders) -> usize {
        match holders {
            Holders::Few { count, .. } | Holders::Many { count, .. } => *count as usize,
        }
    }

    pub(super) fn contains(&self, holders: &Holders, replica: usize) -> bool {
        match holders {
            Holders::Few { count, list } => list[..*count as usize].contains(&(replica as u32)),
            Holders::Many { set, .. } => {
                self.set(*set).get(replica / 64).is_some_and(|word| word & bit(replica) != 0)
            }
        }
    }

    pub(super) fn for_each(&self, holders: &Holders, mut f: impl FnMut(usize)) {
        match holders {
            Holders::Few { count, list } => list[..*count as usize].iter().for_each(|id| f(*id as usize)),
            Holders::Many { set, .. } => {
                for (index, word) in self.set(*set).iter().enumerate() {
                    let mut left = *word;
                    while left != 0 {
                        f(index * 64 + left.trailing_zeros() as usize);
                        left &= left - 1;
                    }
                }
            }
        }
    }

    /// One that is not among the holders becomes one.
    pub(super) fn insert(&mut self, holders: &mut Holders, replica: usize) {
        debug_assert!(!self.contains(holders, replica), "held already");
        match holders {
            Holders::Few { count, list } => {
                if let Some(place) = list.get_mut(*count as usize) {
                    *place = replica as u32;
                    *count += 1;
                    return;
                }
                let (count, list, set) = (*count + 1, *list, self.new_set());
                for id in list {
                    self.set_mut(set)[id as usize / 64] |= bit(id as usize);
                }
                self.set_mut(set)[replica / 64] |= bit(replica);
                *holders = Holders::Many { count, set };
            }
            Holders::Many { count, set } => {
                self.set_mut(*set)[replica / 64] |= bit(replica);
                *count += 1;
            }
        }
    }

    /// A holder is none any more. True if it was the last.
    pub(super) fn remove(&mut self, holders: &mut Holders, replica: usize) -> bool {
        debug_assert!(self.contains(holders, replica), "not held");
        match holders {
            Holders::Few { count, list } => {
                if let Some(at) = list[..*count as usize].iter().position(|id| *id == replica as u32) {
                    *count -= 1;
                    list[at] = list[*count as usize];
                }
                *count == 0
            }
            Holders::Many { count, set } => {
                self.set_mut(*set)[replica / 64] &= !bit(replica);
                *count -= 1;
                // Half of what makes a set: one that comes and goes does not move the others each time.
                if *count as usize * 2 <= FEW {
                    let (set, count) = (*set, *count);
                    *holders = self.listed(set, count);
                }
                false
            }
        }
    }

    /// The set as a list. It is vacant from then on.
    fn listed(&mut self, set: u32, count: u32) -> Holders {
        let (mut list, mut next) = ([0; FEW], 0);
        self.for_each(&Holders::Many { count, set }, |id| {
            list[next] = id as u32;
            next += 1;
        });
        self.vacant.push(set);
        Holders::Few { count, list }
    }

    /// The same holders for another block.
    pub(super) fn copy(&mut self, holders: &Holders) -> Holders {
        match *holders {
            Holders::Few { count, list } => Holders::Few { count, list },
            Holders::Many { count, set } => {
                let from = set as usize * self.stride;
                let set = self.new_set();
                self.words.copy_within(from..from + self.stride, set as usize * self.stride);
                Holders::Many { count, set }
            }
        }
    }

    fn new_set(&mut self) -> u32 {
        let set = self.vacant.pop().unwrap_or_else(|| {
            let set = self.words.len() / self.stride;
            self.words.resize(self.words.len() + self.stride, 0);
            set as u32
        });
        self.set_mut(set).fill(0);
        set
    }

    fn set(&self, set: u32) -> &[u64] {
        &self.words[set as usize * self.stride..][..self.stride]
    }

    fn set_mut(&mut self, set: u32) -> &mut [u64] {
        &mut self.words[set as usize * self.stride..][..self.stride]
    }
}

fn bit(replica: usize) -> u64 {
    1 << (replica % 64)
}
