//! Responses that can be asked for again, as vLLM keeps them with `VLLM_ENABLE_RESPONSES_API_STORE=1`.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Responses kept, at most; the oldest goes first. vLLM has no bound.
const MOST: usize = 1024;
/// Bytes of all of them together, at most, by their bodies and the messages behind them.
const MOST_BYTES: usize = 64 << 20;

#[derive(Debug)]
struct Entry {
    id: String,
    body: String,
    /// The conversation with this answer.
    messages: Vec<Value>,
    bytes: usize,
}

/// The kept responses of one replica.
#[derive(Debug, Default)]
pub(super) struct Stored {
    entries: Mutex<VecDeque<Entry>>,
}

impl Stored {
    /// The response's JSON.
    pub(super) fn body(&self, id: &str) -> Option<String> {
        self.find(id, |entry| entry.body.clone())
    }

    /// The conversation up to and with that response.
    pub(super) fn messages(&self, id: &str) -> Option<Vec<Value>> {
        self.find(id, |entry| entry.messages.clone())
    }

    fn find<T>(&self, id: &str, read: impl FnOnce(&Entry) -> T) -> Option<T> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().rev().find(|entry| entry.id == id).map(read)
    }

    fn put(&self, entry: Entry) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_back(entry);
        let mut bytes: usize = entries.iter().map(|entry| entry.bytes).sum();
        while entries.len() > MOST || bytes > MOST_BYTES {
            let Some(oldest) = entries.pop_front() else { break };
            bytes -= oldest.bytes;
        }
    }
}

/// A response that will be kept when it is whole.
#[derive(Debug)]
pub(super) struct Keep {
    pub(super) stored: Arc<Stored>,
    /// The conversation so far.
    pub(super) messages: Vec<Value>,
}

impl Keep {
    pub(super) fn put(self, id: &str, body: &str, text: &str) {
        let Self { stored, mut messages } = self;
        messages.push(json!({"role": "assistant", "content": text}));
        let said: usize = messages.iter().map(|message| message.to_string().len()).sum();
        let bytes = body.len() + said;
        stored.put(Entry { id: id.to_owned(), body: body.to_owned(), messages, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_bounded_by_number_and_by_bytes() {
        let stored = Arc::new(Stored::default());
        let put = |id: &str, body: &str| {
            Keep { stored: Arc::clone(&stored), messages: vec![json!("x")] }.put(id, body, "y");
        };
        for number in 0..=MOST {
            put(&number.to_string(), "{}");
        }
        assert_eq!((stored.body("0"), stored.body("1").as_deref()), (None, Some("{}")));
        assert_eq!(
            stored.messages("1"),
            Some(vec![json!("x"), json!({"role": "assistant", "content": "y"})])
        );
        put("large", &"x".repeat(MOST_BYTES));
        assert_eq!((stored.body("large"), stored.body("5")), (None, None), "it would not fit alone");
    }
}
