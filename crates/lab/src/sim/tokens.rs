//! A tokenizer without a vocabulary: four bytes of text are one token.
//!
//! Chat messages are cut separately and answers consist of four-byte words, so the tokens of a conversation's next turn
//! begin with exactly the tokens of the last turn and its answer: prefix caching works as with a real tokenizer.

use crate::rng::mix;
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64_with_seed;

const MESSAGE_START: u64 = 1;
const MESSAGE_END: u64 = 2;
/// Tokens of an image or audio part, whatever its size.
const MEDIA_TOKENS: u64 = 256;
/// Above every token of text; the low bits hold a hash of the part.
const MEDIA: u64 = 1 << 40;

/// The tokens of a text, each told by its length and bytes, so that [`text`] can undo it.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = u64> + '_ {
    text.as_bytes().chunks(4).map(|piece| {
        let bytes = piece.iter().rev().fold(0, |bits, &byte| (bits << 8) | u64::from(byte));
        ((piece.len() as u64) << 32) | bytes
    })
}

/// The text of tokens; those that are no text have none, half characters become U+FFFD.
pub(super) fn text(tokens: impl Iterator<Item = u64>) -> String {
    let mut bytes = Vec::new();
    for token in tokens {
        let length = usize::try_from(token >> 32).ok().filter(|length| *length <= 4).unwrap_or(0);
        bytes.extend(token.to_le_bytes().iter().take(length));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Feeds the tokens of a chat to `push`: tools first, as templates place them, then each message, then the beginning of the
/// answer.
pub(super) fn chat(messages: &[Value], tools: Option<&Value>, push: &mut impl FnMut(u64)) {
    if let Some(tools) = tools.filter(|tools| !tools.is_null()) {
        push(MESSAGE_START);
        pieces(&tools.to_string()).for_each(&mut *push);
        push(MESSAGE_END);
    }
    for message in messages {
        push(MESSAGE_START);
        pieces(message.get("role").and_then(Value::as_str).unwrap_or_default()).for_each(&mut *push);
        content(message.get("content").unwrap_or(&Value::Null), push);
        if let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) {
            pieces(&calls.to_string()).for_each(&mut *push);
        }
        push(MESSAGE_END);
    }
    push(MESSAGE_START);
    pieces("assistant").for_each(push);
}

fn content(content: &Value, push: &mut impl FnMut(u64)) {
    match content {
        Value::String(text) => pieces(text).for_each(push),
        Value::Array(parts) => {
            for part in parts {
                if let Some(text) = part.get("text").and_then(Value::as_str) {
                    pieces(text).for_each(&mut *push);
                } else {
                    let part = xxh3_64_with_seed(part.to_string().as_bytes(), 0) >> 32;
                    (0..MEDIA_TOKENS).for_each(|i| push(MEDIA | mix(part ^ i) >> 32));
                }
            }
        }
        _ => {}
    }
}

/// Counts tokens and chains the hashes of whole blocks: a block's hash covers all tokens up to its end.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    block_bytes: usize,
    count: u32,
    chain: u64,
    pending: Vec<u8>,
    hashes: Vec<u64>,
}

impl Tally {
    pub(super) fn new(block_tokens: u32) -> Self {
        let block_bytes = block_tokens.max(1) as usize * size_of::<u64>();
        Self { block_bytes, count: 0, chain: 0, pending: Vec::with_capacity(block_bytes), hashes: Vec::new() }
    }

    pub(super) fn push(&mut self, token: u64) {
        self.count = self.count.saturating_add(1);
        self.pending.extend_from_slice(&token.to_le_bytes());
        if self.pending.len() == self.block_bytes {
            self.chain = xxh3_64_with_seed(&self.pending, self.chain);
            self.hashes.push(self.chain);
            self.pending.clear();
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Stands for all tokens so far.
    pub(super) fn fingerprint(&self) -> u64 {
        mix(xxh3_64_with_seed(&self.pending, self.chain) ^ u64::from(self.count))
    }

    pub(super) fn into_hashes(self) -> Vec<u64> {
        self.hashes
    }
}

/// The `index`-th word of the answer that `seed` stands for: one token of four bytes, the first of them a space.
pub(super) fn word(seed: u64, index: u32) -> &'static str {
    let at = mix(seed ^ mix(u64::from(index))) as usize % WORDS.len();
    WORDS.get(at).copied().unwrap_or(" the")
}

const WORDS: [&str; 48] = [
    " the", " and", " for", " are", " but", " not", " you", " all", " any", " can", " had", " her", " was",
    " one", " our", " out", " day", " get", " has", " him", " his", " how", " man", " new", " now", " old",
    " see", " two", " way", " who", " boy", " did", " its", " let", " put", " say", " she", " too", " use",
    " sun", " sea", " sky", " air", " ice", " oak", " fog", " map", " key",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tally(messages: &Value) -> Tally {
        let mut tally = Tally::new(16);
        chat(messages.as_array().unwrap(), None, &mut |token| tally.push(token));
        tally
    }

    #[test]
    fn four_bytes_are_a_token_and_the_text_comes_back() {
        for (original, count) in [("", 0), ("a", 1), ("four", 1), ("four5", 2), ("äöü€ 😀", 4)] {
            assert_eq!(pieces(original).count(), count, "{original}");
            assert_eq!(text(pieces(original)), original);
        }
        assert_eq!(text([MESSAGE_START, MEDIA | 7, u64::MAX].into_iter()), "");
    }

    #[test]
    fn every_word_is_one_token() {
        assert!(WORDS.iter().all(|word| pieces(word).count() == 1 && word.starts_with(' ')));
    }

    #[test]
    fn the_next_turn_begins_with_the_tokens_of_the_last_turn_and_its_answer() {
        let question = json!({"role": "user", "content": "What is the time in a place without clocks, and why? ".repeat(9)});
        let mut first = tally(&json!([question]));
        let answer: String = (0..200).map(|i| word(5, i)).collect();
        pieces(&answer).for_each(|token| first.push(token));
        let known = first.into_hashes();
        let next = tally(
            &json!([question, {"role": "assistant", "content": answer}, {"role": "user", "content": "Go on"}]),
        );
        assert_eq!(next.into_hashes().get(..known.len()), Some(&known[..]));
    }

    #[test]
    fn the_hash_of_a_block_covers_all_before_it() {
        let hashes = |first: &str| {
            tally(&json!([{"role": "user", "content": format!("{first}{}", "x".repeat(400))}])).into_hashes()
        };
        let (a, b) = (hashes("abcd"), hashes("abce"));
        assert_eq!(a.len(), b.len());
        assert!(a.iter().zip(&b).all(|(a, b)| a != b));
    }

    #[test]
    fn parts_and_plain_strings_count_alike_and_media_has_a_constant_size() {
        let plain = tally(&json!([{"role": "user", "content": "hello"}]));
        let parts = tally(&json!([{"role": "user", "content": [{"type": "text", "text": "hello"}]}]));
        assert_eq!((plain.count(), plain.fingerprint()), (parts.count(), parts.fingerprint()));
        let image = |url: &str| {
            tally(&json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]))
        };
        assert_eq!(image("a").count(), image(&"b".repeat(9000)).count());
        assert_ne!(image("a").fingerprint(), image("b").fingerprint());
    }
}
