//! The request's id: the client's own where it can be used, else a made one.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use httparse::Header;
use sluicegate_wire::Dialect;

/// Longest client id that is kept.
const MAX: usize = 128;

thread_local! {
    static NEXT: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8));
}

/// The client's `x-request-id` if it is 1 to 128 characters of `[A-Za-z0-9._:/+=-]`, so that it can be logged and
/// sent on as it is; else a new one.
pub(crate) fn of(headers: &[Header<'_>]) -> Arc<str> {
    headers
        .iter()
        .find(|h| h.name.eq_ignore_ascii_case("x-request-id"))
        .and_then(|h| std::str::from_utf8(h.value).ok())
        .map(str::trim)
        .filter(|id| !id.is_empty() && id.len() <= MAX && id.bytes().all(plain))
        .map_or_else(make, Into::into)
}

/// The fields that tell a client its request's id: `x-request-id`, and `request-id`, which is where Anthropic's SDKs
/// look.
pub(crate) fn fields(dialect: Dialect, id: &str) -> impl Iterator<Item = (&'static str, &str)> {
    let anthropic = (dialect == Dialect::Anthropic).then_some(("request-id", id));
    std::iter::once(("x-request-id", id)).chain(anthropic)
}

/// A new id: unique in this process with certainty, between processes by a random start (SplitMix64 mixing).
pub(crate) fn make() -> Arc<str> {
    let n = NEXT.with(|next| {
        let n = next.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        next.set(n);
        n
    });
    let mixed = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let second = mixed ^ (mixed >> 31);
    let parts = [n >> 32, n, second >> 32, second].map(|part| hex(part as u32));
    // Digits are always text.
    std::str::from_utf8(parts.as_flattened()).unwrap_or_default().into()
}

/// Eight digits at once: one nibble in each byte, then the distance of its digit.
fn hex(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let spread = |bits: u64, by: u32, mask: u64| (bits | bits << by) & mask;
    let pairs = spread(u64::from(number), 16, 0x0000_ffff_0000_ffff);
    let bytes = spread(pairs, 8, 0x00ff_00ff_00ff_00ff);
    let nibbles = spread(bytes, 4, 0x0f0f_0f0f_0f0f_0f0f);
    let letters = (nibbles + ONES * 6) >> 4 & ONES;
    (nibbles + ONES * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)).to_be_bytes()
}

fn plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"._:/+=-".contains(&b)
}
