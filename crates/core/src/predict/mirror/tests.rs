use super::*;
use crate::prng::{SplitMix64, below};
use std::collections::HashSet;

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
fn the_least_recently_used_prompt_goes_run_by_run_from_its_end() {
    const LONG: &str = "a prompt of forty letters and no more ...";
    let mut mirror = mirror(1, 50);
    mirror.touch(0, &prompt(LONG));
    mirror.touch(0, &prompt("12345678"));
    mirror.touch(0, &prompt("wxyz"));
    assert_eq!(
        (depths(&mirror, LONG), mirror.held[0]),
        (vec![32], 44),
        "nine of its letters are the last run"
    );
    mirror.touch(0, &prompt("12345678"));
    mirror.set_capacity(0, 20);
    assert_eq!(
        (depths(&mirror, LONG), depths(&mirror, "wxyz"), depths(&mirror, "12345678")),
        (vec![0], vec![4], vec![8])
    );
    mirror.touch(0, &prompt(LONG));
    assert_eq!(
        (depths(&mirror, LONG), depths(&mirror, "12345678")),
        (vec![20], vec![0]),
        "more than it can hold"
    );
    mirror.forget(0);
    assert_eq!((depths(&mirror, LONG), mirror.nodes.len(), mirror.held[0]), (vec![0], 0, 0));
}

#[test]
fn a_talk_that_goes_on_grows_its_last_run_and_one_that_others_know_branches() {
    let mut mirror = mirror(2, 100);
    for end in [3, 7, 12, 30] {
        mirror.touch(0, &prompt(&"a talk that goes on and on and on"[..end]));
    }
    assert_eq!(mirror.nodes.len(), 2);
    mirror.touch(1, &prompt("a talk that goes"));
    mirror.touch(1, &prompt("a talk that ends"));
    assert_eq!(depths(&mirror, "a talk that goes on"), [19, 16]);
    assert_eq!(depths(&mirror, "a talk that ends"), [12, 16]);
    mirror.touch(1, &prompt("a talk"));
    assert_eq!(depths(&mirror, "a talk that ends"), [12, 16], "what is known already stays so");
    check(&mirror);
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

fn check(mirror: &Mirror) {
    for replica in 0..mirror.capacities.len() {
        for node in mirror.places.of(replica) {
            let parent = mirror.nodes.parent(node);
            let holds = |node| mirror.sets.contains(mirror.nodes.holders(node), replica);
            assert!(
                holds(node) && (parent == NONE || holds(parent)),
                "whoever holds a run holds those before it"
            );
        }
    }
    let ids = mirror.nodes.ids();
    for id in &ids {
        let children = ids.iter().filter(|child| mirror.nodes.parent(**child) == *id).count();
        assert_eq!(mirror.nodes.children(*id) as usize, children);
    }
    for replica in 0..mirror.capacities.len() {
        let held: usize = mirror.places.of(replica).iter().map(|node| mirror.nodes.run(*node).len()).sum();
        assert_eq!(mirror.held[replica], held);
    }
    let places: usize = (0..mirror.capacities.len()).map(|replica| mirror.places.of(replica).len()).sum();
    let listed: usize = ids.iter().map(|id| mirror.sets.len(mirror.nodes.holders(*id))).sum();
    assert_eq!(places, listed);
}

/// Random prompts that share their beginnings, at seventy replicas, each with room for so many blocks.
fn churn(capacity: usize, mut each: impl FnMut(&mut Mirror, &mut SplitMix64, &[u64])) {
    let mut rng = SplitMix64::new(3);
    let mut mirror = mirror(70, capacity);
    for step in 0..3000 {
        let len = 1 + below(rng.next(), 60);
        let branch = |at: usize, word: u64| at > 2 && below(word, 8) == 0;
        let letters: String = (0..len).map(|at| if branch(at, rng.next()) { 'b' } else { 'a' }).collect();
        each(&mut mirror, &mut rng, &prompt(&letters));
        if step % 50 == 0 {
            check(&mirror);
        }
    }
    (0..70).for_each(|replica| mirror.forget(replica));
    assert_eq!((mirror.nodes.len(), depths(&mirror, "aaa")), (0, vec![0; 70]));
}

#[test]
fn with_room_for_all_it_agrees_with_sets_of_blocks() {
    let mut held = vec![HashSet::new(); 70];
    churn(1 << 20, |mirror, rng, blocks| {
        let found = mirror.find(blocks);
        for (replica, held) in held.iter().enumerate() {
            let depth = blocks.iter().take_while(|hash| held.contains(*hash)).count() as u32;
            // Some replica's match may be one too many to be told apart: then it counts as less.
            let got = mirror.depth(&found, replica);
            assert!(got == depth || (got < depth && found.levels.len() == LEVELS), "{got}, not {depth}");
        }
        let replica = below(rng.next(), 70);
        if below(rng.next(), 100) == 0 {
            mirror.forget(replica);
            held[replica].clear();
        } else {
            mirror.touch(replica, blocks);
            held[replica].extend(blocks.iter().copied());
        }
    });
}

#[test]
fn with_little_room_it_holds_no_more_and_always_the_last_prompt() {
    churn(80, |mirror, rng, blocks| {
        let replica = below(rng.next(), 5);
        mirror.touch(replica, blocks);
        assert!(mirror.held[replica] <= 80);
        assert_eq!(mirror.depth(&mirror.find(blocks), replica) as usize, blocks.len());
    });
}

/// A parent that is its own child would have every later request of the pool walk in a circle.
#[test]
fn hashes_that_meet_or_come_again_leave_the_tree_whole() {
    let mut rng = SplitMix64::new(5);
    for _ in 0..2000 {
        let mut mirror = mirror(3, 40);
        for _ in 0..12 {
            let blocks: Vec<u64> = (0..below(rng.next(), 50)).map(|_| rng.next() % 4).collect();
            mirror.touch(below(rng.next(), 3), &blocks);
            let found = mirror.find(&blocks);
            assert!((0..3).all(|replica| mirror.depth(&found, replica) <= mirror.deepest(&found)));
            check(&mirror);
        }
        (0..3).for_each(|replica| mirror.forget(replica));
        assert_eq!(mirror.nodes.len(), 0);
    }
}
