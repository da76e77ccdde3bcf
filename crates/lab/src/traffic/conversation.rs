//! A chat that grows turn by turn.

use super::TrafficConfig;
use crate::rng::SeededRng;
use serde_json::{Value, json};

/// A request's body.
pub(super) struct Body {
    pub(super) json: String,
    pub(super) heavy: bool,
}

#[derive(Debug)]
pub(super) struct Conversation {
    messages: Vec<Value>,
    bytes: usize,
}

impl Conversation {
    pub(super) fn new(config: &TrafficConfig, rng: &mut SeededRng) -> Self {
        let mut conversation = Self { messages: Vec::new(), bytes: 0 };
        if config.shared_system_prompts > 0 {
            let which = rng.below(config.shared_system_prompts as u64);
            // The same for every conversation that draws the same number.
            let mut words = SeededRng::stream(config.seed ^ SYSTEM_PROMPTS, which);
            let content = format!(
                "You are assistant number {which}. {}",
                prose(&mut words, config.system_prompt_bytes)
            );
            conversation.say("system", &content);
        }
        conversation
    }

    /// Adds a user's message; the whole request.
    pub(super) fn ask(&mut self, config: &TrafficConfig, rng: &mut SeededRng) -> Body {
        let heavy = rng.chance(config.heavy_share);
        let light_bytes = rng.exponential(config.user_bytes as f64) as usize;
        let bytes = if heavy { config.heavy_bytes } else { light_bytes };
        self.say("user", &prose(rng, bytes.max(1)));
        let body = json!({
            "model": config.model,
            "messages": self.messages,
            "max_tokens": config.max_tokens,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        Body { json: body.to_string(), heavy }
    }

    pub(super) fn answered(&mut self, answer: &str) {
        self.say("assistant", answer);
    }

    /// Bytes of all messages so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn say(&mut self, role: &str, content: &str) {
        self.bytes += content.len();
        self.messages.push(json!({"role": role, "content": content}));
    }
}

/// Keeps the words of system prompts apart from those of sessions, which are drawn from the seed itself.
const SYSTEM_PROMPTS: u64 = 0x5359_5354_454d;

/// Words without meaning, `bytes` bytes of them.
fn prose(rng: &mut SeededRng, bytes: usize) -> String {
    const WORDS: [&str; 16] = [
        "river", "gate", "sluice", "water", "level", "open", "shut", "slow", "fast", "stream", "lock",
        "barge", "weir", "north", "ledger", "because",
    ];
    let mut text = String::with_capacity(bytes + 8);
    while text.len() < bytes {
        let word = WORDS.get(rng.below(WORDS.len() as u64) as usize).copied().unwrap_or("water");
        text.push_str(word);
        text.push(' ');
    }
    // All words are ASCII: any byte is a boundary.
    text.truncate(bytes);
    text
}
