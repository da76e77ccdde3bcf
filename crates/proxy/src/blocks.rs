//! The block hashes of a request's prompt, in buffers that are used again.

use std::cell::RefCell;

use sluicegate_core::Prompt;
use sluicegate_wire::{BLOCK_BYTES, Peek, prompt_blocks};

/// Buffers kept per thread at the most: as many as requests that are between their body and their first byte.
const KEPT: usize = 64;

thread_local! {
    static FREE: RefCell<Vec<Vec<u64>>> = const { RefCell::new(Vec::new()) };
}

/// What an engine will have to read of a request, as far as it can be foreseen.
#[derive(Debug)]
pub(crate) struct Blocks {
    hashes: Vec<u64>,
    tokens: u32,
    block_tokens: u32,
    whole_answer: bool,
}

impl Blocks {
    /// `tokens`: estimated, of the whole prompt. `salt`: what else an engine's cache depends on.
    pub(crate) fn of(body: &[u8], peek: &Peek, salt: u64, tokens: u64) -> Self {
        let mut hashes = FREE.with_borrow_mut(|free| free.pop()).unwrap_or_default();
        let bytes = prompt_blocks(body, peek, salt, &mut hashes);
        let whole = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        let block_tokens = tokens.saturating_mul(BLOCK_BYTES as u64) / bytes.max(1);
        Self {
            hashes,
            tokens: whole(tokens),
            block_tokens: whole(block_tokens.min(tokens)),
            whole_answer: !peek.stream,
        }
    }

    /// The same without hashes: nobody chooses by them.
    pub(crate) fn unhashed(tokens: u64, whole_answer: bool) -> Self {
        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
        Self { hashes: Vec::new(), tokens, block_tokens: 0, whole_answer }
    }

    pub(crate) fn prompt(&self) -> Prompt<'_> {
        let Self { hashes, tokens, block_tokens, whole_answer } = self;
        Prompt { tokens: *tokens, blocks: hashes, block_tokens: *block_tokens, whole_answer: *whole_answer }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        if self.hashes.capacity() > 0 {
            let buffer = std::mem::take(&mut self.hashes);
            // At a thread's end there is no list any more.
            let _ = FREE.try_with(|free| {
                let mut free = free.borrow_mut();
                if free.len() < KEPT {
                    free.push(buffer);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use sluicegate_wire::{Shape, peek};

    use super::*;

    fn blocks(text: usize, tokens: u64) -> Blocks {
        let body = format!(r#"{{"stream":true,"prompt":"{}"}}"#, "x".repeat(text));
        let peek = peek(body.as_bytes(), Shape::Completions, &[]).expect("a body");
        Blocks::of(body.as_bytes(), &peek, 7, tokens)
    }

    #[test]
    fn a_block_has_its_share_of_the_tokens() {
        let blocks = blocks(10 * BLOCK_BYTES, 2500);
        let prompt = blocks.prompt();
        assert_eq!((prompt.blocks.len(), prompt.tokens, prompt.block_tokens), (10, 2500, 250));
        assert!(!prompt.whole_answer);
    }

    #[test]
    fn a_buffer_is_used_again_and_nothing_of_the_last_prompt_is_left_in_it() {
        let first = blocks(50 * BLOCK_BYTES, 12_800);
        let place = first.hashes.as_ptr();
        drop(first);
        let second = blocks(2 * BLOCK_BYTES, 512);
        assert_eq!((second.hashes.as_ptr(), second.prompt().blocks.len()), (place, 2));
    }
}
