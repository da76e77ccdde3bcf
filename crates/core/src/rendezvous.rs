//! Highest-random-weight hashing (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998):
//! every gateway ranks the replicas for a key alike with no shared state, and a replica that goes moves its keys only.

use crate::prng::mix;

/// A replica's identity for [`score`]: 64-bit FNV-1a of its name, so that it is the same at every gateway whatever the
/// order in which replicas became known.
pub(crate) fn identity(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The rank value of a replica for a key: the largest one owns the key.
pub(crate) fn score(key: u64, identity: u64) -> u64 {
    mix(key.wrapping_mul(SPREAD).wrapping_add(identity))
}

/// An odd constant (the golden ratio's), so that neighbouring keys do not differ in the low bits alone.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_spread_evenly_and_move_only_from_the_replica_that_goes() {
        let identities: Vec<u64> = (0..4).map(|i| identity(&format!("http://10.0.0.{i}:8000"))).collect();
        let owner = |key, among: &[u64]| *among.iter().max_by_key(|id| score(key, **id)).expect("not empty");
        let mut owned = [0_u32; 4];
        for key in 0..4000_u64 {
            let before = owner(key, &identities);
            owned[identities.iter().position(|id| *id == before).expect("one of them")] += 1;
            if before != identities[3] {
                assert_eq!(owner(key, &identities[..3]), before, "key {key}");
            }
        }
        assert!(owned.iter().all(|n| (880..1120).contains(n)), "{owned:?}");
    }
}
