//! 64 or 32 bytes compared at once: one bit of the answer for each byte.

use wide::{i8x16, i8x32};

/// Bytes of one step.
pub(super) const STEP: usize = 64;
const LANE: usize = 16;
/// Bytes of a short run.
pub(crate) const RUN: usize = 32;

/// 64 bytes, ready to be compared.
#[derive(Clone, Copy)]
pub(super) struct Step([i8x16; STEP / LANE]);

impl Step {
    #[inline(always)]
    pub(super) fn new(bytes: &[u8; STEP]) -> Self {
        let (lanes, _) = bytes.as_chunks::<LANE>();
        Self(std::array::from_fn(|index| i8x16::new(lanes[index].map(u8::cast_signed))))
    }

    /// The bytes that are `byte`.
    #[inline(always)]
    pub(super) fn equal(&self, byte: u8) -> u64 {
        self.hits(byte, |lane| lane)
    }

    /// Whether any byte is `byte`.
    #[inline(always)]
    pub(super) fn any(&self, byte: u8) -> bool {
        let wanted = i8x16::splat(byte.cast_signed());
        let [a, b, c, d] = self.0.map(|lane| lane.simd_eq(wanted));
        (a | b | c | d).to_bitmask() != 0
    }

    /// The bytes that are `byte` once their bit 5 is set.
    #[inline(always)]
    pub(super) fn equal_with_bit_5(&self, byte: u8) -> u64 {
        self.hits(byte, |lane| lane | i8x16::splat(0x20))
    }

    #[inline(always)]
    fn hits(&self, byte: u8, seen: impl Fn(i8x16) -> i8x16) -> u64 {
        let wanted = i8x16::splat(byte.cast_signed());
        let hits = self.0.map(|lane| u64::from(seen(lane).simd_eq(wanted).to_bitmask()));
        hits[0] | hits[1] << 16 | hits[2] << 32 | hits[3] << 48
    }
}

/// 32 bytes, ready to be compared: most strings are no longer.
#[derive(Clone, Copy)]
pub(crate) struct Run(i8x32);

impl Run {
    #[inline(always)]
    pub(crate) fn new(bytes: &[u8; RUN]) -> Self {
        Self(i8x32::new(bytes.map(u8::cast_signed)))
    }

    /// The bytes that are `byte`.
    #[inline(always)]
    pub(crate) fn equal(&self, byte: u8) -> u32 {
        self.0.simd_eq(i8x32::splat(byte.cast_signed())).to_bitmask()
    }

    /// The bytes that are one or the other.
    #[inline(always)]
    pub(super) fn either(&self, one: u8, other: u8) -> u32 {
        let is = |byte: u8| self.0.simd_eq(i8x32::splat(byte.cast_signed()));
        (is(one) | is(other)).to_bitmask()
    }
}
