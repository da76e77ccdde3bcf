//! The one source of randomness: seeded, portable, the same on every machine.

/// xoshiro256++ (Blackman and Vigna, "Scrambled Linear Pseudorandom Number Generators", 2021), its state filled by
/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014). Not for secrets.
#[derive(Clone, Debug)]
pub struct SeededRng {
    state: [u64; 4],
}

impl SeededRng {
    /// A generator whose whole sequence follows from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // SplitMix64 is a bijection of its counter, so at most one of the four words can be zero.
        let word = |i: u64| mix(seed.wrapping_add(GOLDEN_GAMMA.wrapping_mul(i)));
        Self { state: [word(1), word(2), word(3), word(4)] }
    }

    /// A generator for part `stream` of a larger whole, independent of the generators of the other parts.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        Self::new(mix(seed ^ mix(stream.wrapping_add(GOLDEN_GAMMA))))
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// Uniform in `0..bound`; 0 for a bound of 0. By multiplication (Lemire 2019) without rejection: the bias is below
    /// `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// Uniform in `[0, 1)`, 53 bits.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p` (never for `p <= 0`, always for `p >= 1`).
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Exponentially distributed with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

/// The odd constant of SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's finalizer: spreads every input bit over all output bits; a bijection.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of the authors' reference code (prng.di.unimi.it) for SplitMix64 with seed 1234567.
    #[test]
    fn splitmix64_agrees_with_the_reference() {
        let seed: u64 = 1_234_567;
        let first: Vec<u64> = (1..=5).map(|i| mix(seed.wrapping_add(GOLDEN_GAMMA.wrapping_mul(i)))).collect();
        let reference = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first, reference);
    }

    /// First outputs of xoshiro256++ from the state 1, 2, 3, 4, as published with the rand_xoshiro crate.
    #[test]
    fn xoshiro256_plus_plus_agrees_with_the_reference() {
        let mut rng = SeededRng { state: [1, 2, 3, 4] };
        let reference = [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386];
        assert_eq!([rng.next_u64(), rng.next_u64(), rng.next_u64(), rng.next_u64()], reference);
    }

    #[test]
    fn draws_stay_in_their_bounds_and_have_the_stated_means() {
        let mut rng = SeededRng::new(7);
        let n = 20_000;
        let (mut below, mut unit, mut exponential) = (0, 0.0, 0.0);
        for _ in 0..n {
            let draw = rng.below(10);
            assert!(draw < 10);
            below += draw;
            unit += rng.unit();
            exponential += rng.exponential(3.0);
        }
        let n = f64::from(n);
        assert!((below as f64 / n - 4.5).abs() < 0.1);
        assert!((unit / n - 0.5).abs() < 0.01);
        assert!((exponential / n - 3.0).abs() < 0.1);
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0.0) && rng.chance(1.0));
    }

    #[test]
    fn streams_of_one_seed_differ() {
        assert_ne!(SeededRng::stream(1, 0).next_u64(), SeededRng::stream(1, 1).next_u64());
        assert_eq!(SeededRng::stream(1, 1).next_u64(), SeededRng::stream(1, 1).next_u64());
    }
}
