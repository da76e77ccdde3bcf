//! Anthropic's `/v1/messages`, as vLLM translates its chat completions.

use super::super::problem::Problem;
use super::{Finish, Usage};
use serde_json::json;

/// What all parts of one message have in common.
#[derive(Debug)]
pub(in super::super) struct Message {
    /// `chatcmpl-..`: vLLM leaves the id of the completion behind it.
    id: String,
    model: String,
}

impl Message {
    pub(in super::super) fn new(name: &str, model: &str) -> Self {
        Self { id: format!("chatcmpl-{name}"), model: model.to_owned() }
    }

    pub(super) fn opening(&self, usage: Usage) -> String {
        let (id, model, tokens) = (json!(self.id), json!(self.model), usage.prompt);
        let start = format!(
            r#"{{"type":"message_start","message":{{"id":{id},"type":"message","role":"assistant","content":[],"model":{model},"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":{tokens},"output_tokens":0}}}}}}"#
        );
        let block = r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#;
        event("message_start", &start) + &event("content_block_start", block)
    }

    pub(super) fn token(&self, text: &str, finish: Option<Finish>, usage: Usage) -> String {
        let mut events = String::new();
        if !text.is_empty() {
            let delta = format!(
                r#"{{"type":"content_block_delta","delta":{{"type":"text_delta","text":{}}},"index":0}}"#,
                json!(text)
            );
            events += &event("content_block_delta", &delta);
        }
        if let Some(finish) = finish {
            events += &event("content_block_stop", r#"{"type":"content_block_stop","index":0}"#);
            let reason = stop_reason(finish).unwrap_or("null");
            let delta = format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":{reason},"stop_sequence":null}},"usage":{}}}"#,
                usage_json(usage)
            );
            events += &event("message_delta", &delta);
            events += &event("message_stop", r#"{"type":"message_stop"}"#);
        }
        events
    }

    pub(super) fn whole(&self, text: &str, finish: Finish, usage: Usage) -> String {
        let (id, model, text) = (json!(self.id), json!(self.model), json!(text));
        // Members without a value are left out: an aborted message has no reason at all.
        let reason = stop_reason(finish).map(|reason| format!(r#""stop_reason":{reason},"#));
        format!(
            r#"{{"id":{id},"type":"message","role":"assistant","content":[{{"type":"text","text":{text}}}],"model":{model},{}"usage":{}}}"#,
            reason.unwrap_or_default(),
            usage_json(usage)
        )
    }
}

/// An error inside a stream: the stream ends with it, without `message_stop`.
pub(super) fn failure(problem: &Problem) -> String {
    let message = json!(problem.message());
    let error = format!(r#"{{"type":"error","error":{{"type":"internal_error","message":{message}}}}}"#);
    event("error", &error)
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn stop_reason(finish: Finish) -> Option<&'static str> {
    match finish {
        Finish::Stop => Some(r#""end_turn""#),
        Finish::Length => Some(r#""max_tokens""#),
        Finish::Abort => None,
    }
}

fn usage_json(usage: Usage) -> String {
    let Usage { prompt, completion, cached, created } = usage;
    format!(
        r#"{{"input_tokens":{prompt},"output_tokens":{completion},"cache_creation_input_tokens":{created},"cache_read_input_tokens":{cached}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const USAGE: Usage = Usage { prompt: 11, completion: 4, cached: 0, created: 0 };

    /// What vLLM 0.32 sent.
    #[test]
    fn messages_are_those_of_the_real_engine_byte_for_byte() {
        let message = Message::new("abc", "tiny");
        assert_eq!(
            message.whole(" Statisticssparseilitiesreadable", Finish::Length, USAGE),
            r#"{"id":"chatcmpl-abc","type":"message","role":"assistant","content":[{"type":"text","text":" Statisticssparseilitiesreadable"}],"model":"tiny","stop_reason":"max_tokens","usage":{"input_tokens":11,"output_tokens":4,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}"#
        );
        let opening = r#"event: message_start
data: {"type":"message_start","message":{"id":"chatcmpl-abc","type":"message","role":"assistant","content":[],"model":"tiny","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":11,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}

"#;
        assert_eq!(message.opening(USAGE), opening);
        let last = r#"event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" Ex"},"index":0}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":11,"output_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}

event: message_stop
data: {"type":"message_stop"}

"#;
        assert_eq!(message.token(" Ex", Some(Finish::Length), Usage { completion: 3, ..USAGE }), last);
    }

    /// What vLLM 0.32 sent after a SIGTERM: no reason, but a clean end.
    #[test]
    fn an_aborted_message_has_no_stop_reason() {
        let message = Message::new("abc", "tiny");
        let end = message.token("", Some(Finish::Abort), USAGE);
        assert!(end.starts_with("event: content_block_stop\n"));
        assert!(end.contains(r#""delta":{"stop_reason":null,"stop_sequence":null}"#));
        assert!(!message.whole("x", Finish::Abort, USAGE).contains("stop_reason"));
    }
}
