//! Answers as real engines write them (vLLM 0.32's shapes), whole or as the events of a stream.

use crate::upstream::{Received, Step, send};

/// The end of a chunked body.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The head of a chunked event stream, as vLLM writes it.
pub const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ndate: Sun, 29 Nov 2026 22:00:27 GMT\r\nserver: uvicorn\r\n\
content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// The end of a chat or completions stream.
pub const DONE: &[u8] = b"data: [DONE]\n\n";

/// A whole answer with a Content-Length.
#[must_use]
pub fn answer(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n", body.len()).into_bytes();
    for (name, value) in fields {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

/// A whole JSON answer with a Content-Length.
#[must_use]
pub fn json_answer(status: u16, body: &str) -> Vec<u8> {
    answer(status, &[("content-type", "application/json")], body.as_bytes())
}

/// A vLLM error answer.
#[must_use]
pub fn error_answer(status: u16, message: &str) -> Vec<u8> {
    json_answer(status, &error_json(status, message))
}

/// The body of a vLLM error.
#[must_use]
pub fn error_json(code: u16, message: &str) -> String {
    format!(
        r#"{{"error":{{"message":{message:?},"type":"InternalServerError","param":null,"code":{code}}}}}"#
    )
}

/// The body of a chat completion.
#[must_use]
pub fn chat_json(text: &str, prompt_tokens: u64, completion_tokens: u64) -> String {
    let text = serde_json::Value::from(text);
    format!(
        r#"{{"id":"chatcmpl-a86a53d8321afa7c","object":"chat.completion","created":1795989628,"model":"tiny","choices":[{{"index":0,"message":{{"role":"assistant","content":{text},"refusal":null,"reasoning":null}},"logprobs":null,"finish_reason":"stop","stop_reason":null}}],"service_tier":null,"usage":{},"prompt_logprobs":null,"kv_transfer_params":null}}"#,
        usage_json(prompt_tokens, completion_tokens)
    )
}

/// A whole chat completion answer.
#[must_use]
pub fn chat_answer(text: &str, prompt_tokens: u64, completion_tokens: u64) -> Vec<u8> {
    json_answer(200, &chat_json(text, prompt_tokens, completion_tokens))
}

/// The `usage` object.
#[must_use]
pub fn usage_json(prompt_tokens: u64, completion_tokens: u64) -> String {
    format!(
        r#"{{"prompt_tokens":{prompt_tokens},"total_tokens":{},"completion_tokens":{completion_tokens},"prompt_tokens_details":{{"cached_tokens":3}}}}"#,
        prompt_tokens + completion_tokens
    )
}

/// One chunk of a chunked body.
#[must_use]
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}

/// One `data:` event.
#[must_use]
pub fn event(json: &str) -> Vec<u8> {
    format!("data: {json}\n\n").into_bytes()
}

/// A chat stream's event with this `delta` object.
#[must_use]
pub fn delta_event(delta: &str) -> Vec<u8> {
    event(&format!(
        r#"{{"id":"chatcmpl-b3d9f136","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]}}"#
    ))
}

/// The role event that vLLM sends first.
#[must_use]
pub fn role_event() -> Vec<u8> {
    delta_event(r#"{"role":"assistant","content":""}"#)
}

/// An event with text.
#[must_use]
pub fn text_event(text: &str) -> Vec<u8> {
    delta_event(&format!(r#"{{"content":{}}}"#, serde_json::Value::from(text)))
}

/// The event with the finish reason.
#[must_use]
pub fn finish_event(reason: &str) -> Vec<u8> {
    event(&format!(
        r#"{{"id":"chatcmpl-b3d9f136","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"{reason}","stop_reason":null}}]}}"#
    ))
}

/// The usage-only event.
#[must_use]
pub fn usage_event(prompt_tokens: u64, completion_tokens: u64) -> Vec<u8> {
    event(&format!(
        r#"{{"id":"chatcmpl-b3d9f136","object":"chat.completion.chunk","created":1795989628,"model":"tiny","choices":[],"usage":{}}}"#,
        usage_json(prompt_tokens, completion_tokens)
    ))
}

/// A chat stream as its events, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Each with its blank line.
    pub events: Vec<Vec<u8>>,
    /// Which of them is the usage-only event, where there is one.
    pub usage_at: Option<usize>,
}

impl Stream {
    /// Role, one event per text, finish, usage (`prompt_tokens` 11, one completion token per text), `[DONE]`.
    #[must_use]
    pub fn chat(texts: &[&str]) -> Self {
        let mut events = vec![role_event()];
        events.extend(texts.iter().map(|t| text_event(t)));
        events.push(finish_event("stop"));
        let usage_at = Some(events.len());
        events.push(usage_event(11, texts.len() as u64));
        events.push(DONE.to_vec());
        Self { events, usage_at }
    }

    /// All bytes of the body.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.events.concat()
    }

    /// All bytes of the body but for the usage-only event.
    #[must_use]
    pub fn bytes_without_usage(&self) -> Vec<u8> {
        let kept = self.events.iter().enumerate().filter(|(i, _)| Some(*i) != self.usage_at);
        kept.flat_map(|(_, event)| event.iter().copied()).collect()
    }

    /// The whole answer on the wire, head included, one chunk per event.
    #[must_use]
    pub fn wire(&self) -> Vec<u8> {
        let mut out = STREAM_HEAD.to_vec();
        for event in &self.events {
            out.extend(chunk(event));
        }
        out.extend_from_slice(LAST_CHUNK);
        out
    }

    /// A script: the head, one write per event, the end.
    #[must_use]
    pub fn steps(&self) -> Vec<Step> {
        let mut steps = vec![send(STREAM_HEAD)];
        steps.extend(self.events.iter().map(|e| send(chunk(e))));
        steps.push(send(LAST_CHUNK));
        steps
    }

    /// A script: everything with one write.
    #[must_use]
    pub fn one_write(&self) -> Vec<Step> {
        vec![send(self.wire())]
    }
}

/// The script that opens a stream and sends these events, one write each; the stream stays open.
#[must_use]
pub fn open_stream(events: &[Vec<u8>]) -> Vec<Step> {
    let mut steps = vec![send(STREAM_HEAD)];
    steps.extend(events.iter().map(|e| send(chunk(e))));
    steps
}

/// What an engine with nothing to hide answers: a chat completion of four tokens, or a stream of two where the body
/// says `"stream":true`.
#[must_use]
pub fn polite(request: &Received) -> Vec<Step> {
    if std::str::from_utf8(&request.body).is_ok_and(|body| body.contains(r#""stream":true"#)) {
        return Stream::chat(&["hel", "lo"]).steps();
    }
    vec![send(chat_answer("hello", 11, 4))]
}
