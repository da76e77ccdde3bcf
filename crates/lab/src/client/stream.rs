//! A stream of completions, read along.

use super::Outcome;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

/// Bytes of one event, at most; a longer one is not ours to understand.
const MAX_EVENT: usize = 1 << 20;
/// Bytes of one stream, at most: a server that never ends must not fill our memory before the time limit does its part.
const MAX_STREAM: usize = 256 << 20;

/// Tokens that are believed of one request.
const MOST_TOKENS: u64 = u32::MAX as u64;

/// What a stream has said so far.
#[derive(Debug, Default)]
pub struct Told {
    /// Bytes of an event that is not complete.
    rest: Vec<u8>,
    /// Bytes of the stream so far.
    bytes: usize,
    finished: bool,
    done: bool,
    error: Option<u16>,
    /// The answer's text.
    pub text: String,
    /// Events with content.
    pub events: u32,
    /// Prompt tokens, as reported; 0 where nothing was.
    pub prompt_tokens: u64,
    /// Those of them that came from a prefix cache, as reported.
    pub cached_tokens: u64,
    /// Tokens of the answer, as reported.
    pub completion_tokens: u64,
}

impl Told {
    pub(super) async fn read(&mut self, mut body: Incoming, mut on_events: impl FnMut(u32)) -> Outcome {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Outcome::Cut };
            let Ok(bytes) = frame.into_data() else { continue };
            let before = self.events;
            self.feed(&bytes);
            if self.events > before {
                on_events(self.events - before);
            }
            if self.rest.len() > MAX_EVENT || self.bytes > MAX_STREAM {
                return Outcome::Cut;
            }
        }
        self.outcome()
    }

    fn outcome(&self) -> Outcome {
        match self.error {
            Some(code) => Outcome::ErrorEvent(code),
            None if self.done && self.finished => Outcome::Ok,
            None => Outcome::Cut,
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.rest.extend_from_slice(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut lines = rest.split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next_if(|line| line.ends_with(b"\n")) {
            // Engines put an event's whole data on one line.
            if let Some(data) = line.strip_prefix(b"data:") {
                self.data(data.trim_ascii());
            }
        }
        self.rest.extend(lines.flatten());
    }

    fn data(&mut self, data: &[u8]) {
        if data == b"[DONE]" {
            self.done = true;
            return;
        }
        let Ok(event) = serde_json::from_slice::<Value>(data) else { return };
        if let Some(error) = event.get("error") {
            let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
            self.error = Some(code.unwrap_or(0));
        }
        if let Some(choice) = event.pointer("/choices/0") {
            self.choice(choice);
        }
        if let Some(usage) = event.get("usage") {
            // No more than a request can have: sums of what a server claims do not overflow.
            let tokens = |path| usage.pointer(path).and_then(Value::as_u64).unwrap_or(0).min(MOST_TOKENS);
            self.prompt_tokens = tokens("/prompt_tokens");
            self.cached_tokens = tokens("/prompt_tokens_details/cached_tokens");
            self.completion_tokens = tokens("/completion_tokens");
        }
    }

    fn choice(&mut self, choice: &Value) {
        // A reasoning model's first tokens stand beside the content.
        let parts = ["/delta/content", "/delta/reasoning", "/delta/reasoning_content", "/text"];
        let said: Vec<&str> = parts
            .iter()
            .filter_map(|path| choice.pointer(path)?.as_str())
            .filter(|text| !text.is_empty())
            .collect();
        self.events += u32::from(!said.is_empty());
        let content = choice.pointer("/delta/content").or_else(|| choice.get("text"));
        self.text.push_str(content.and_then(Value::as_str).unwrap_or_default());
        // A server that shuts down says "abort": the answer is not whole.
        self.finished |=
            choice.get("finish_reason").and_then(Value::as_str).is_some_and(|end| end != "abort");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_that_no_request_can_have_are_not_believed() {
        let mut told = Told::default();
        let most = u64::MAX;
        told.feed(
            format!("data: {{\"usage\":{{\"prompt_tokens\":{most},\"completion_tokens\":{most}}}}}\n\n")
                .as_bytes(),
        );
        assert_eq!((told.prompt_tokens, told.completion_tokens), (MOST_TOKENS, MOST_TOKENS));
    }

    #[test]
    fn a_stream_is_whole_only_with_a_finish_reason_and_done_and_without_error() {
        let token = r#"data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}"#;
        let last = r#"data: {"choices":[{"index":0,"delta":{"content":"y"},"finish_reason":"stop"}]}"#;
        let text = r#"data: {"choices":[{"index":0,"text":"y","finish_reason":"stop"}]}"#;
        let aborted = r#"data: {"choices":[{"index":0,"delta":{"content":"y"},"finish_reason":"abort"}]}"#;
        let error = r#"data: {"error": {"message": "dead", "code": 500}}"#;
        let done = "data: [DONE]";
        let table: [(&[&str], Outcome, u32); 7] = [
            (&[token, last, done], Outcome::Ok, 2),
            (&[text, done], Outcome::Ok, 1),
            (&[token, last], Outcome::Cut, 2),
            (&[token, done], Outcome::Cut, 1),
            (&[token, aborted, done], Outcome::Cut, 2),
            (&[token, error, done], Outcome::ErrorEvent(500), 1),
            (&[], Outcome::Cut, 0),
        ];
        for (events, outcome, with_content) in table {
            let bytes: String = events.iter().map(|event| format!("{event}\n\n")).collect();
            // In any pieces.
            for size in [1, 7, bytes.len().max(1)] {
                let mut told = Told::default();
                bytes.as_bytes().chunks(size).for_each(|piece| told.feed(piece));
                assert_eq!(
                    (told.outcome(), told.events),
                    (outcome, with_content),
                    "{events:?} in pieces of {size}"
                );
            }
        }
    }
}
