//! Chat completions and completions.

use super::super::ask::Dialect;
use super::super::generate::SYSTEM_FINGERPRINT;
use super::{Finish, Usage};
use serde_json::json;

/// Ends every stream of these dialects, whatever became of it.
pub(super) const DONE: &str = "data: [DONE]\n\n";

/// What `stream_options` asked for.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct StreamUsage {
    pub(in super::super) at_end: bool,
    pub(in super::super) on_every_event: bool,
}

/// What all parts of one answer have in common.
#[derive(Clone, Debug)]
pub(in super::super) struct Shape {
    dialect: Dialect,
    /// `"id":..,"object":..,"created":..,"model":..` of an event and of a whole answer.
    event_head: String,
    whole_head: String,
}

impl Shape {
    pub(in super::super) fn new(dialect: Dialect, name: &str, created: u64, model: &str) -> Self {
        let (prefix, event, whole) = match dialect {
            Dialect::Chat => ("chatcmpl", "chat.completion.chunk", "chat.completion"),
            _ => ("cmpl", "text_completion", "text_completion"),
        };
        let id = json!(format!("{prefix}-{name}"));
        let head =
            |object| format!(r#""id":{id},"object":"{object}","created":{created},"model":{}"#, json!(model));
        Self { dialect, event_head: head(event), whole_head: head(whole) }
    }

    /// One token's event, and after the last one what ends the stream.
    pub(super) fn token(
        &self,
        text: &str,
        finish: Option<Finish>,
        usage: Usage,
        asked: StreamUsage,
    ) -> String {
        let running = asked.on_every_event.then_some(usage);
        let mut events = self.token_event(text, finish, running, finish.is_some() && !asked.at_end);
        if finish.is_some() {
            if asked.at_end {
                events += &self.usage_event(usage);
            }
            events += DONE;
        }
        events
    }

    /// The event before the first token; completions have none.
    pub(super) fn opening_event(&self, usage: Option<Usage>) -> Option<String> {
        (self.dialect == Dialect::Chat).then(|| {
            let usage = usage.map(running_usage).unwrap_or_default();
            format!(
                "data: {{{},\"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\
                 \"logprobs\":null,\"finish_reason\":null}}]{usage},\"prompt_token_ids\":null,\"prompt_text\":null}}\n\n",
                self.event_head
            )
        })
    }

    /// One token. `last_of_all`: no usage event will follow, so this one carries the fingerprint.
    pub(super) fn token_event(
        &self,
        text: &str,
        finish: Option<Finish>,
        usage: Option<Usage>,
        last_of_all: bool,
    ) -> String {
        let (text, finish_json) = (json!(text), finish_json(finish));
        let choice = match self.dialect {
            Dialect::Chat => {
                let stop = if finish.is_some() { r#""stop_reason":null,"# } else { "" };
                format!(
                    r#""delta":{{"content":{text}}},"logprobs":null,"finish_reason":{finish_json},{stop}"token_ids":null"#
                )
            }
            _ => format!(
                r#""text":{text},"logprobs":null,"finish_reason":{finish_json},"stop_reason":null,"prompt_token_ids":null,"token_ids":null"#
            ),
        };
        let usage = usage.map(running_usage).unwrap_or_default();
        let fingerprint = if last_of_all { fingerprint() } else { String::new() };
        format!(
            "data: {{{},\"choices\":[{{\"index\":0,{choice}}}]{usage}{fingerprint}}}\n\n",
            self.event_head
        )
    }

    /// The event that `include_usage` asks for.
    pub(super) fn usage_event(&self, usage: Usage) -> String {
        let Usage { prompt, completion, cached, created } = usage;
        let total = u64::from(prompt) + u64::from(completion);
        let created = if self.dialect == Dialect::Chat {
            format!(r#","created_cache_tokens":{created}"#)
        } else {
            String::new()
        };
        format!(
            "data: {{{},\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"total_tokens\":{total},\
             \"completion_tokens\":{completion},\"prompt_tokens_details\":{{\"cached_tokens\":{cached}{created}}}}}{}}}\n\n",
            self.event_head,
            fingerprint()
        )
    }

    /// A whole answer, not streamed.
    pub(super) fn whole(&self, text: &str, finish: Finish, usage: Usage) -> String {
        let Usage { prompt, completion, cached, created } = usage;
        let total = u64::from(prompt) + u64::from(completion);
        let (text, finish) = (json!(text), finish_json(Some(finish)));
        let (choice, created, rest) = match self.dialect {
            Dialect::Chat => (
                format!(
                    r#""message":{{"role":"assistant","content":{text},"refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}},"logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":null,"routed_experts":null"#
                ),
                created.to_string(),
                r#","prompt_logprobs":null,"prompt_token_ids":null,"prompt_text":null,"kv_transfer_params":null,"ec_transfer_params":null,"metrics":null"#,
            ),
            _ => (
                format!(
                    r#""text":{text},"logprobs":null,"finish_reason":{finish},"stop_reason":null,"token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null,"routed_experts":null"#
                ),
                "null".to_owned(),
                r#","kv_transfer_params":null,"ec_transfer_params":null,"metrics":null"#,
            ),
        };
        format!(
            r#"{{{},"choices":[{{"index":0,{choice}}}],"service_tier":null{},"usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion},"prompt_tokens_details":{{"cached_tokens":{cached},"created_cache_tokens":{created},"multimodal_tokens":null}},"completion_tokens_details":null}}{rest}}}"#,
            self.whole_head,
            fingerprint()
        )
    }
}

/// The totals that `continuous_usage_stats` puts on every event.
fn running_usage(usage: Usage) -> String {
    let Usage { prompt, completion, .. } = usage;
    let total = u64::from(prompt) + u64::from(completion);
    format!(
        r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{completion},"completion_tokens_details":null}}"#
    )
}

fn fingerprint() -> String {
    format!(r#","system_fingerprint":"{SYSTEM_FINGERPRINT}""#)
}

fn finish_json(finish: Option<Finish>) -> &'static str {
    match finish {
        None => "null",
        Some(Finish::Stop) => r#""stop""#,
        Some(Finish::Length) => r#""length""#,
        Some(Finish::Abort) => r#""abort""#,
    }
}

#[cfg(test)]
mod tests;
