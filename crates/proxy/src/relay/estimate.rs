//! What an answer is taken to have generated where its engine does not say.

use sluicegate_wire::Uncounted;

use crate::attempt::{Exchange, reaches_the_engine};
use crate::resolve::generates;

/// Bytes of an answer per generated token, roughly.
const BYTES_PER_TOKEN: u64 = 4;

/// Generated tokens of an answer of `bytes_out` bytes so far, as far as its engine has not counted them. None: it used
/// nothing, its prompt included.
pub(super) fn generated(exchange: &Exchange, bytes_out: u64, whole: bool) -> Option<u64> {
    match exchange.answer.observer() {
        Some(observer) => Some(of_stream(observer.uncounted())),
        None if exchange.status >= 400 => None,
        None if exchange.answer.usage().is_some() => Some(0),
        None if generates(exchange.endpoint) => Some(bytes_out / BYTES_PER_TOKEN),
        // An embedding and the like uses its prompt; a tokenizer nothing.
        None if reaches_the_engine(exchange.endpoint) || !whole => Some(0),
        None => None,
    }
}

/// Most engines send a token an event. Some send many in one, and then its text is longer than a token is.
fn of_stream(seen: Uncounted) -> u64 {
    u64::from(seen.events).max(u64::from(seen.bytes) / BYTES_PER_TOKEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_s_tokens_are_its_events_or_its_text_by_four_bytes_whichever_is_more() {
        for (events, bytes, tokens) in
            [(0, 0, 0), (50, 100, 50), (50, 203, 50), (50, 204, 51), (1, 4_000, 1_000)]
        {
            assert_eq!(of_stream(Uncounted { events, bytes }), tokens, "{events} events, {bytes} bytes");
        }
    }
}
