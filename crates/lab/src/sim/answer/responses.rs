//! OpenAI's `/v1/responses`.

use super::super::stored::Keep;
use super::{Finish, Usage};
use serde_json::{Value, json};

/// What an answer repeats of its request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Echo {
    pub(in super::super) instructions: Value,
    pub(in super::super) metadata: Value,
    pub(in super::super) temperature: Option<f64>,
    pub(in super::super) top_p: Option<f64>,
    pub(in super::super) previous: Value,
}

/// One response: its ids, what it repeats, and how far its stream is.
#[derive(Debug)]
pub(in super::super) struct Reply {
    id: String,
    item: String,
    created: u64,
    model: String,
    max_output_tokens: u32,
    echo: Echo,
    sequence: u32,
    text: String,
    /// Where it is kept when it has ended; `None` for `store: false`.
    keep: Option<Keep>,
}

impl Reply {
    /// `names`: 16 hexadecimal digits each for the response and its message.
    pub(in super::super) fn new(
        names: [String; 2],
        created: u64,
        model: &str,
        max_output_tokens: u32,
        echo: Echo,
        keep: Option<Keep>,
    ) -> Self {
        let [id, item] = names;
        Self {
            id: format!("resp_{id}"),
            item: format!("msg_{item}"),
            created,
            model: model.to_owned(),
            max_output_tokens,
            echo,
            sequence: 0,
            text: String::new(),
            keep,
        }
    }

    pub(super) fn opening(&mut self) -> String {
        let item = json!(self.item);
        let begun = self.body("in_progress", "null", None, "[]");
        let mut events = self.event("response.created", &format!(r#""response":{begun}"#), "");
        events += &self.event("response.in_progress", &format!(r#""response":{begun}"#), "");
        let added = format!(
            r#""item":{{"id":{item},"content":[],"role":"assistant","status":"in_progress","type":"message","phase":null}},"output_index":0"#
        );
        events += &self.event("response.output_item.added", &added, "");
        let part = format!(
            r#""content_index":0,"item_id":{item},"output_index":0,"part":{{"annotations":[],"text":"","type":"output_text","logprobs":[]}}"#
        );
        events + &self.event("response.content_part.added", &part, "")
    }

    pub(super) fn token(&mut self, text: &str, finish: Option<Finish>, usage: Usage) -> String {
        let item = json!(self.item);
        let mut events = String::new();
        if !text.is_empty() {
            self.text.push_str(text);
            let delta = format!(
                r#""content_index":0,"delta":{},"item_id":{item},"logprobs":[],"output_index":0"#,
                json!(text)
            );
            events = self.event("response.output_text.delta", &delta, "");
        }
        if let Some(finish) = finish {
            events += &self.ending(&item.to_string(), finish, usage);
        }
        events
    }

    fn ending(&mut self, item: &str, finish: Finish, usage: Usage) -> String {
        let all = std::mem::take(&mut self.text);
        let (text, part) = (json!(all), part(&all));
        let done = format!(r#""content_index":0,"item_id":{item},"logprobs":[],"output_index":0"#);
        let mut events = self.event("response.output_text.done", &done, &format!(r#""text":{text},"#));
        let done = format!(r#""content_index":0,"item_id":{item},"output_index":0,"part":{part}"#);
        events += &self.event("response.content_part.done", &done, "");
        let done = format!(r#""item":{},"output_index":0"#, self.message(&all));
        events += &self.event("response.output_item.done", &done, "");
        let whole = self.whole(&all, finish, usage);
        events + &self.event("response.completed", &format!(r#""response":{whole}"#), "")
    }

    pub(super) fn whole(&mut self, text: &str, finish: Finish, usage: Usage) -> String {
        let (status, details) = match finish {
            Finish::Stop | Finish::Abort => ("completed", "null"),
            Finish::Length => ("incomplete", r#"{"reason":"max_output_tokens"}"#),
        };
        let body = self.body(status, details, Some(usage), &format!("[{}]", self.message(text)));
        if let Some(keep) = self.keep.take() {
            keep.put(&self.id, &body, text);
        }
        body
    }

    fn message(&self, text: &str) -> String {
        let (item, part) = (json!(self.item), part(text));
        format!(
            r#"{{"id":{item},"content":[{part}],"role":"assistant","status":"completed","type":"message","phase":null}}"#
        )
    }

    fn body(&self, status: &str, details: &str, usage: Option<Usage>, output: &str) -> String {
        let Self { created, echo, max_output_tokens, .. } = self;
        let Echo { instructions, metadata, temperature, top_p, previous } = echo;
        let (id, model) = (json!(self.id), json!(self.model));
        let (temperature, top_p) = (temperature.unwrap_or(1.0), top_p.unwrap_or(1.0));
        let usage = usage.map_or_else(|| "null".to_owned(), usage_json);
        format!(
            r#"{{"id":{id},"created_at":{created},"incomplete_details":{details},"instructions":{instructions},"metadata":{metadata},"model":{model},"object":"response","output":{output},"parallel_tool_calls":true,"temperature":{temperature:?},"tool_choice":"none","tools":[],"top_p":{top_p:?},"background":false,"max_output_tokens":{max_output_tokens},"max_tool_calls":null,"previous_response_id":{previous},"prompt":null,"reasoning":null,"service_tier":"auto","status":"{status}","text":null,"top_logprobs":null,"truncation":"disabled","usage":{usage},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}}"#
        )
    }

    /// `rest`: members that stand between the number and the type.
    fn event(&mut self, kind: &str, members: &str, rest: &str) -> String {
        let number = self.sequence;
        self.sequence += 1;
        format!(
            "event: {kind}\ndata: {{{members},\"sequence_number\":{number},{rest}\"type\":\"{kind}\"}}\n\n"
        )
    }
}

/// The answer to a GET for a response that is not there.
pub(in super::super) fn not_kept(id: &str) -> String {
    format!("Response with id '{id}' not found.")
}

fn part(text: &str) -> String {
    format!(r#"{{"annotations":[],"text":{},"type":"output_text","logprobs":null}}"#, json!(text))
}

fn usage_json(usage: Usage) -> String {
    let Usage { prompt, completion, cached, created } = usage;
    let total = u64::from(prompt) + u64::from(completion);
    format!(
        r#"{{"input_tokens":{prompt},"input_tokens_details":{{"cached_tokens":{cached},"cache_write_tokens":{created},"input_tokens_per_turn":[],"cached_tokens_per_turn":[]}},"output_tokens":{completion},"output_tokens_details":{{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]}},"total_tokens":{total}}}"#
    )
}

#[cfg(test)]
mod tests;
