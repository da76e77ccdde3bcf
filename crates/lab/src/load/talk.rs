//! What a session says: a shared prefix, and turns that grow.

use super::{Kind, LoadConfig};
use crate::rng::SeededRng;
use serde_json::{Value, json};

/// Keeps the words of prefixes apart from those of sessions.
const PREFIXES: u64 = 0x5052_4546_4958;

impl Kind {
    /// The path that requests go to.
    #[must_use]
    pub fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Text => "/v1/completions",
        }
    }
}

#[derive(Debug)]
pub(super) struct Talk {
    messages: Vec<Value>,
    /// The whole conversation, where it is one text.
    text: String,
    kind: Kind,
}

impl Talk {
    pub(super) fn new(config: &LoadConfig, rng: &mut SeededRng) -> Self {
        let mut talk = Self { messages: Vec::new(), text: String::new(), kind: config.kind };
        if config.prefixes > 0 {
            let which = rng.below(u64::from(config.prefixes));
            // The same for every session that draws the same number.
            let mut shared = SeededRng::stream(config.seed ^ PREFIXES, which);
            talk.say("system", words_of(&mut shared, config.prefix_tokens, config));
        }
        talk
    }

    /// Adds a user's message; the whole request.
    pub(super) fn ask(&mut self, config: &LoadConfig, rng: &mut SeededRng, tokens: (u32, u32)) -> String {
        self.say("user", words_of(rng, tokens.0, config));
        let mut body = json!({"model": config.model});
        let (name, value) = match self.kind {
            Kind::Chat => ("messages", json!(self.messages)),
            Kind::Text => ("prompt", json!(self.text)),
        };
        body[name] = value;
        body["max_tokens"] = json!(tokens.1);
        if config.ignore_eos {
            body["ignore_eos"] = json!(true);
        }
        body["stream"] = json!(true);
        body["stream_options"] = json!({"include_usage": true});
        body.to_string()
    }

    pub(super) fn answered(&mut self, answer: String) {
        self.say("assistant", answer);
    }

    fn say(&mut self, role: &str, content: String) {
        match self.kind {
            Kind::Chat => self.messages.push(json!({"role": role, "content": content})),
            Kind::Text => self.text.push_str(&content),
        }
    }
}

fn words_of(rng: &mut SeededRng, tokens: u32, config: &LoadConfig) -> String {
    let count = f64::from(tokens) / config.tokens_per_word.max(0.01);
    words(rng, (count.round() as usize).max(1))
}

/// Words without meaning, each with a space behind it.
pub(super) fn words(rng: &mut SeededRng, count: usize) -> String {
    let mut text = String::with_capacity(count * 6);
    for _ in 0..count {
        let word = WORDS.get(rng.below(WORDS.len() as u64) as usize).copied().unwrap_or("water");
        text.push_str(word);
        text.push(' ');
    }
    text
}

const WORDS: [&str; 32] = [
    "river", "gate", "sluice", "water", "level", "open", "shut", "slow", "fast", "stream", "lock", "barge",
    "weir", "north", "ledger", "because", "winter", "bridge", "paper", "seven", "after", "quiet", "stone",
    "market", "between", "copper", "garden", "letter", "morning", "under", "window", "yellow",
];
