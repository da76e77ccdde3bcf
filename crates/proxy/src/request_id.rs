//! The request's id: the client's own where it can be used, else a made one.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use httparse::Header;
use sluicegate_wire::Dialect;

/// Longest client id that is kept.
const MAX: usize = 128;

thread_local! {
    static NEXT: Cell<u64> = Cell::new(RandomState::new().hash_one(0_u8));
}

/// The client's `x-request-id` if it is 1 to 128 characters of `[A-Za-z0-9._:/+=-]`, so that it can be logged and
/// sent on as it is; else a new one.
pub(crate) fn of(headers: &[Header<'_>]) -> Box<str> {
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
pub(crate) fn make() -> Box<str> {
    let n = NEXT.with(|next| {
        let n = next.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        next.set(n);
        n
    });
    let mixed = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let mut id = String::with_capacity(32);
    for half in [n, mixed ^ (mixed >> 31)] {
        let digits = (0..64).step_by(4).rev().map(|shift| (half >> shift & 0xf) as u32);
        id.extend(digits.filter_map(|digit| char::from_digit(digit, 16)));
    }
    id.into()
}

fn plain(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"._:/+=-".contains(&b)
}
