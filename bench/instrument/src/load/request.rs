//! The requests of a load, and the answers they must get.

use super::Settings;
use crate::answers::{MODEL, json_body, stream_body};

/// The key whose hash stands in `bench/tenancy.toml`.
const KEY: &str = "sk-test-0123456789abcdef0123456789abcdef";
/// Text with what makes JSON work: escapes and line ends, about as often as in code and chat.
const WORDS: &str =
    r#"The lock-keeper said \"wait for the bell\", then closed the lower gate.\nWater rose. "#;
const MIXED: [usize; 6] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// One request, as bytes, and what must come back.
pub(super) struct Request {
    pub(super) bytes: Vec<u8>,
    /// Tokens of the stream; 0 for a JSON answer.
    pub(super) tokens: u32,
    /// The answer's body as the replica says it.
    pub(super) expected: Vec<u8>,
}

/// The different requests of a load: connections take them in turn.
pub(super) fn all(settings: &Settings) -> Vec<Request> {
    if !settings.mixed {
        return vec![request(settings, settings.body, settings.tokens)];
    }
    let streams = [0, 0, settings.tokens];
    let both = streams.iter().flat_map(|tokens| MIXED.iter().map(|body| (*body, *tokens)));
    both.map(|(body, tokens)| request(settings, body, tokens)).collect()
}

fn request(settings: &Settings, length: usize, tokens: u32) -> Request {
    let body = body(length, tokens);
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nuser-agent: instrument\r\naccept: application/json\r\n\
         authorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        settings.to,
        body.len()
    );
    let expected = if tokens > 0 { stream_body(tokens) } else { json_body(body.len()).into_bytes() };
    Request { bytes: (head + &body).into_bytes(), tokens, expected }
}

/// A chat completion of about that many bytes: its prompt fills it up.
pub(crate) fn body(length: usize, tokens: u32) -> String {
    let start = format!(
        "{{\"model\":\"{MODEL}\",\"stream\":{},\"max_tokens\":{},\"temperature\":0.7,\"messages\":[{{\"role\":\
         \"system\",\"content\":\"You keep a lock.\"}},{{\"role\":\"user\",\"content\":\"",
        tokens > 0,
        tokens.max(1)
    );
    let end = "\"}]}";
    let room = length.saturating_sub(start.len() + end.len());
    let words = WORDS.repeat(room / WORDS.len());
    let rest = ".".repeat(room - words.len());
    [start.as_str(), &words, &rest, end].concat()
}

#[cfg(test)]
mod tests {
    use super::body;

    #[test]
    fn a_body_is_json_of_the_length_asked_for() {
        for length in [1024, 102_400] {
            let text = body(length, 100);
            assert_eq!(text.len(), length);
            serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON");
        }
    }
}
