//! One usage line as JSON, appended to a byte buffer: no tree, no allocation but the buffer's own growth.

use std::time::Duration;

use sluicegate_core::Micros;
use sluicegate_proxy::usage::UsageLine;

use super::json_text::{append_content, append_string, append_word};
use super::rfc3339::append_time;

/// Appends `line` as one JSON object and a line feed. Field names and their order are a promise to readers
/// (docs/usage-line.md); what is unknown is null. Durations are milliseconds with microseconds as decimals.
pub(crate) fn append_line(out: &mut Vec<u8>, line: &UsageLine<'_>, gateway: &str) {
    let fields = &mut Fields(out);
    fields.text(r#"{"request_id":"#, Some(line.request_id));
    fields.0.extend_from_slice(br#","time":""#);
    append_time(fields.0, line.time);
    fields.text(r#"","key":"#, line.key);
    fields.text(r#","project":"#, line.project);
    fields.text(r#","model":"#, line.model);
    fields.text(r#","route":"#, line.route);
    fields.target(line);
    fields.text(r#","upstream_model":"#, line.upstream_model);
    fields.text(r#","pool":"#, line.pool);
    fields.text(r#","replica":"#, line.replica);
    fields.word(r#","endpoint":"#, line.endpoint);
    fields.flag(r#","stream":"#, line.stream);
    fields.count(r#","status":"#, line.status.map(u64::from));
    fields.word(r#","outcome":"#, Some(line.outcome.as_str()));
    fields.text(r#","error_type":"#, line.error_type);
    fields.word(r#","reason":"#, line.reason);
    fields.word(r#","affinity":"#, line.affinity);
    fields.flag(r#","spilled":"#, line.spilled);
    fields.count(r#","attempts":"#, Some(u64::from(line.attempts)));
    fields.millis(r#","queue_ms":"#, line.queued);
    fields.millis(r#","connect_ms":"#, line.connect);
    fields.millis(r#","ttft_ms":"#, line.ttft);
    fields.millis(r#","total_ms":"#, Some(line.total));
    fields.count(r#","bytes_in":"#, Some(line.bytes_in));
    fields.count(r#","bytes_out":"#, Some(line.bytes_out));
    let usage = line.usage;
    fields.count(r#","prompt_tokens":"#, usage.map(|u| u.prompt_tokens));
    fields.count(r#","cached_tokens":"#, usage.and_then(|u| u.cached_tokens));
    fields.count(r#","completion_tokens":"#, usage.map(|u| u.completion_tokens));
    fields.count(r#","reasoning_tokens":"#, usage.and_then(|u| u.reasoning_tokens));
    fields.word(r#","usage_source":"#, Some(line.usage_source.as_str()));
    fields.text(r#","finish_reason":"#, line.finish_reason);
    fields.count(r#","events":"#, line.events);
    fields.money(r#","cost":"#, line.cost);
    fields.text(r#","gateway":"#, Some(gateway));
    fields.0.extend_from_slice(b"}\n");
}

/// The buffer; each method appends a label, as given, and a value.
///
/// They are inlined: a label whose length is known is a few stores, and else a call.
struct Fields<'a>(&'a mut Vec<u8>);

impl Fields<'_> {
    #[inline(always)]
    fn label(&mut self, label: &'static str) {
        self.0.extend_from_slice(label.as_bytes());
    }

    #[inline(always)]
    fn null(&mut self) {
        self.0.extend_from_slice(b"null");
    }

    #[inline(always)]
    fn text(&mut self, label: &'static str, value: Option<&str>) {
        self.label(label);
        match value {
            Some(text) => append_string(self.0, text),
            None => self.null(),
        }
    }

    /// One of our own words.
    #[inline(always)]
    fn word(&mut self, label: &'static str, value: Option<&'static str>) {
        self.label(label);
        match value {
            Some(word) => append_word(self.0, word),
            None => self.null(),
        }
    }

    #[inline(always)]
    fn count(&mut self, label: &'static str, value: Option<u64>) {
        self.label(label);
        match value {
            Some(number) => self.number(number),
            None => self.null(),
        }
    }

    #[inline(always)]
    fn flag(&mut self, label: &'static str, value: bool) {
        self.label(label);
        self.0.extend_from_slice(if value { b"true" } else { b"false" });
    }

    #[inline(always)]
    fn millis(&mut self, label: &'static str, value: Option<Duration>) {
        self.label(label);
        match value {
            Some(duration) => self.duration(duration),
            None => self.null(),
        }
    }

    fn duration(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.number(micros / 1000);
        let part = micros % 1000;
        let decimal = |value: u64| b'0' + u8::try_from(value % 10).unwrap_or(0);
        self.0.extend([b'.', decimal(part / 100), decimal(part / 10), decimal(part)]);
    }

    /// Exactly the amount, without trailing zeros.
    fn money(&mut self, label: &'static str, value: Option<Micros>) {
        let Some(Micros(micros)) = value else { return self.count(label, None) };
        self.count(label, Some(micros / 1_000_000));
        let mut part = micros % 1_000_000;
        if part > 0 {
            self.0.push(b'.');
        }
        while part > 0 {
            self.0.push(b'0' + u8::try_from(part / 100_000).unwrap_or(0));
            part = part % 100_000 * 10;
        }
    }

    /// A target is one (pool, upstream model) of a route; as long as targets have no names of their own, that pair
    /// names it.
    fn target(&mut self, line: &UsageLine<'_>) {
        self.label(r#","target":"#);
        match (line.pool, line.upstream_model) {
            (Some(pool), Some(model)) => {
                self.0.push(b'"');
                append_content(self.0, pool);
                self.0.push(b'/');
                append_content(self.0, model);
                self.0.push(b'"');
            }
            _ => self.null(),
        }
    }

    fn number(&mut self, number: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}
