use super::*;
use crate::prng::{SplitMix64, below};

/// A prompt that runs through these letters: chained hashes.
fn prompt(letters: &str) -> Vec<u64> {
    letters
        .bytes()
        .scan(0_u64, |chain, letter| {
            *chain = crate::prng::mix(*chain ^ u64::from(letter));
            Some(*chain)
        })
        .collect()
}

fn mirror(replicas: usize, capacity: usize) -> Mirror {
    let mut mirror = Mirror::default();
    (0..replicas).for_each(|_| mirror.add_replica(capacity));
    mirror
}

fn depths(mirror: &Mirror, letters: &str) -> Vec<u32> {
    let found = mirror.find(&prompt(letters));
    (0..mirror.capacities.len()).map(|replica| mirror.depth(&found, replica)).collect()
}

#[test]
fn each_replica_matches_as_far_as_it_has_seen_the_prompt() {
    let mut mirror = mirror(4, 100);
    mirror.touch(0, &prompt("system, a talk"));
    mirror.touch(1, &prompt("system, another"));
    mirror.touch(2, &prompt("something else"));
    assert_eq!(depths(&mirror, "system, a talk goes on"), [14, 9, 1, 0]);
    assert_eq!(depths(&mirror, "system"), [6, 6, 1, 0]);
    assert_eq!(depths(&mirror, "s"), [1, 1, 1, 0]);
    assert_eq!(depths(&mirror, ""), [0; 4]);
    assert_eq!(depths(&mirror, "no such thing"), [0; 4]);
    let found = mirror.find(&prompt("system, some talk"));
    assert_eq!(mirror.deepest(&found), 8);
    let mut holders = Vec::new();
    mirror.for_each_deepest(&found, |replica| holders.push(replica));
    assert_eq!(holders, [0, 1]);
}

#[test]
fn branches_are_the_different_ways_a_block_goes_on() {
    let mut mirror = mirror(2, 100);
    let branches = |mirror: &Mirror, letters| mirror.branches(&mirror.find(&prompt(letters)));
    assert_eq!(branches(&mirror, "sys-"), 0);
    mirror.touch(0, &prompt("sys-a"));
    assert_eq!(branches(&mirror, "sys-b"), 1, "one way so far");
    mirror.touch(0, &prompt("sys-b"));
    mirror.touch(1, &prompt("sys-b"));
    assert_eq!(branches(&mirror, "sys-c"), 2, "the same way twice is one way");
    assert_eq!(branches(&mirror, "sys-b, next turn"), 0, "a talk's own end");
    mirror.forget(0);
    assert_eq!(branches(&mirror, "sys-c"), 1, "nobody remembers the other way");
}

#[test]
fn the_least_recently_used_prompt_goes_from_its_end() {
    let mut mirror = mirror(1, 8);
    mirror.touch(0, &prompt("abcd"));
    mirror.touch(0, &prompt("wxyz"));
    mirror.touch(0, &prompt("abcd"));
    mirror.touch(0, &prompt("12"));
    assert_eq!(depths(&mirror, "wxyz"), [2]);
    assert_eq!(depths(&mirror, "abcd"), [4]);
    mirror.set_capacity(0, 3);
    assert_eq!(
        (depths(&mirror, "12"), depths(&mirror, "abcd"), depths(&mirror, "w")),
        (vec![2], vec![1], vec![0])
    );
    mirror.touch(0, &prompt("longer than it can hold"));
    assert_eq!((depths(&mirror, "longer"), depths(&mirror, "12")), (vec![3], vec![0]));
    mirror.forget(0);
    assert_eq!((depths(&mirror, "longer"), mirror.nodes.len()), (vec![0], 0));
}

#[test]
fn where_replicas_drop_out_at_more_places_than_are_told_apart_the_longest_matches_stay() {
    let letters = "0123456789abcdefghijklmnopqrstuvwxyz";
    let mut mirror = mirror(30, 100);
    (0..30).for_each(|replica| mirror.touch(replica, &prompt(&letters[..replica + 1])));
    let got = depths(&mirror, letters);
    let told_apart = LEVELS as u32 - 1;
    for (replica, depth) in got.iter().enumerate().map(|(replica, depth)| (replica as u32, *depth)) {
        match replica + 1 {
            30 => assert_eq!(depth, 30),
            own if own <= told_apart => assert_eq!(depth, own),
            own => assert_eq!(depth, told_apart, "{own} counts as the next shorter"),
        }
    }
}

/// What each replica holds, the last used first, kept the slow way.
struct Slow {
    held: Vec<Vec<u64>>,
    capacity: usize,
}

impl Slow {
    fn touch(&mut self, replica: usize, blocks: &[u64]) {
        let held = &mut self.held[replica];
        for hash in blocks.iter().take(self.capacity).rev() {
            held.retain(|known| known != hash);
            held.insert(0, *hash);
        }
        held.truncate(self.capacity);
    }

    fn depth(&self, replica: usize, blocks: &[u64]) -> u32 {
        blocks.iter().take_while(|hash| self.held[replica].contains(hash)).count() as u32
    }
}

fn check(mirror: &Mirror) {
    for replica in 0..mirror.capacities.len() {
        for node in mirror.places.of(replica) {
            let parent = mirror.nodes.parent(node);
            let holds = |node| mirror.sets.contains(mirror.nodes.holders(node), replica);
            assert!(holds(node) && parent.is_none_or(holds), "whoever holds a block holds those before it");
        }
    }
    let ids = mirror.nodes.ids();
    for id in &ids {
        let children = ids.iter().filter(|child| mirror.nodes.parent(**child) == Some(*id)).count();
        assert_eq!(mirror.nodes.children(*id) as usize, children);
    }
    let held: usize = (0..mirror.capacities.len()).map(|replica| mirror.places.held(replica)).sum();
    let listed: usize = ids.iter().map(|id| mirror.sets.len(mirror.nodes.holders(*id))).sum();
    assert_eq!(held, listed);
}

#[test]
fn it_agrees_with_lists_kept_the_slow_way() {
    const REPLICAS: usize = 70;
    let mut rng = SplitMix64::new(3);
    let mut mirror = mirror(REPLICAS, 12);
    let mut slow = Slow { held: vec![Vec::new(); REPLICAS], capacity: 12 };
    for step in 0..4000 {
        // Few letters, so that prompts share their beginnings.
        let len = 1 + below(rng.next(), 14);
        let letters: String = (0..len)
            .map(|at| if at < 3 { 'a' } else { char::from(b'a' + below(rng.next(), 2) as u8) })
            .collect();
        let blocks = prompt(&letters);
        let found = mirror.find(&blocks);
        for replica in 0..REPLICAS {
            assert_eq!(mirror.depth(&found, replica), slow.depth(replica, &blocks), "step {step}, {letters}");
        }
        let replica = below(rng.next(), REPLICAS);
        if below(rng.next(), 50) == 0 {
            mirror.forget(replica);
            slow.held[replica].clear();
        } else {
            mirror.touch(replica, &blocks);
            slow.touch(replica, &blocks);
        }
        if step % 50 == 0 {
            check(&mirror);
        }
    }
    (0..REPLICAS).for_each(|replica| mirror.forget(replica));
    assert_eq!((mirror.nodes.len(), depths(&mirror, "aaa")), (0, vec![0; REPLICAS]));
}
