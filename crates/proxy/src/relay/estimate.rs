//! What an answer is taken to have generated where its engine does not say.

use crate::attempt::{Exchange, reaches_the_engine};
use crate::resolve::generates;

/// Bytes of an answer per generated token, roughly.
const BYTES_PER_TOKEN: u64 = 4;

/// Generated tokens of an answer of `bytes_out` bytes so far. None: it used nothing, its prompt included.
pub(super) fn generated(exchange: &Exchange, bytes_out: u64, whole: bool) -> Option<u64> {
    match exchange.answer.observer() {
        // Engines send a token an event.
        Some(observer) => Some(observer.content_events()),
        None if exchange.status >= 400 => None,
        None if generates(exchange.endpoint) => Some(bytes_out / BYTES_PER_TOKEN),
        // An embedding and the like uses its prompt; a tokenizer nothing.
        None if reaches_the_engine(exchange.endpoint) || !whole => Some(0),
        None => None,
    }
}
