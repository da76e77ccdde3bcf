//! A conversation as one bounded text, for somebody who is to judge it.

use crate::peek::{Peek, Shape, last_texts};
use crate::text::{RAW_PER_BYTE, decode, inside, unescape};

/// The system prompt gets one part in so many.
const PARTS: usize = 4;
/// Raw bytes that are read beyond what is needed: where a cut falls into an escape or a character, its pieces lie in
/// these and are cut off.
const SLACK: usize = 64;

/// What a conversation is about: the beginning of its system prompt, in a quarter of `limit` at most, and the end of its
/// turns in the rest. At most `limit` bytes, cut at character boundaries. Empty where there is no text.
///
/// Each turn begins with `user: `, `assistant: `, `system: ` or `tool: ` and ends with a blank line; the texts of one turn
/// stand on lines of their own.
pub fn conversation_state(body: &[u8], peek: &Peek, shape: Shape, limit: usize) -> String {
    let mut state = system(body, peek, limit / PARTS);
    let between = if state.is_empty() { "" } else { "\n\n" };
    let end = turns(body, peek, shape, limit.saturating_sub(state.len() + between.len()));
    if !end.is_empty() {
        state.push_str(between);
        state.push_str(&end);
    }
    state
}

/// The beginning of the system prompt, in at most `limit` bytes.
fn system(body: &[u8], peek: &Peek, limit: usize) -> String {
    let mut text = String::from("system: ");
    let label = text.len();
    for span in &peek.system {
        unescape(body, span, limit.saturating_sub(text.len()), &mut text);
    }
    if text.len() > label { text } else { String::new() }
}

/// The end of the turns, in at most `limit` bytes.
fn turns(body: &[u8], peek: &Peek, shape: Shape, limit: usize) -> String {
    let enough = limit.saturating_mul(RAW_PER_BYTE).saturating_add(SLACK);
    let mut text = String::new();
    for said in last_texts(body, peek, shape, enough) {
        if text.is_empty() || said.first {
            text.push_str(if text.is_empty() { "" } else { "\n\n" });
            text.push_str(said.by);
            text.push_str(": ");
        } else {
            text.push('\n');
        }
        let raw = inside(body, &said.span);
        decode(raw.get(raw.len().saturating_sub(enough)..).unwrap_or(raw), |piece| {
            text.push_str(piece);
            true
        });
    }
    let from = text.ceil_char_boundary(text.len().saturating_sub(limit));
    text.split_off(from)
}

#[cfg(test)]
mod tests;
