//! What an event's facts mean in each kind of stream.

use super::{StreamError, StreamKind};
use crate::scan::{Choices, EventKind, Facts, Word};

/// Whether `[DONE]` is this kind's end.
pub(super) fn ends_with_done(kind: StreamKind) -> bool {
    matches!(kind, StreamKind::Chat | StreamKind::Completions | StreamKind::Other)
}

/// Whether this event is the kind's end.
pub(super) fn ends(kind: StreamKind, event: EventKind) -> bool {
    match kind {
        StreamKind::Messages => event == EventKind::MessageStop,
        StreamKind::Responses => matches!(event, EventKind::ResponseEnd | EventKind::ResponseFailed),
        StreamKind::Chat | StreamKind::Completions | StreamKind::Other => false,
    }
}

/// Whether something generated is in it. A role alone, or an empty text, is not.
pub(super) fn content(kind: StreamKind, event: EventKind, facts: &Facts) -> bool {
    let delta = matches!(event, EventKind::Delta | EventKind::SoundDelta) && facts.delta_text;
    match kind {
        StreamKind::Chat | StreamKind::Completions => facts.payload,
        StreamKind::Messages => facts.payload || facts.tool_block,
        StreamKind::Responses => delta,
        StreamKind::Other => facts.payload || delta,
    }
}

/// Bytes of generated text in it, as written: sound is none.
pub(super) fn content_bytes(event: EventKind, facts: &Facts) -> u64 {
    if event == EventKind::SoundDelta { 0 } else { facts.text_bytes }
}

/// The event that `include_usage` adds: no choices, usage, and no error.
pub(super) fn usage_only(facts: &Facts) -> bool {
    facts.choices == Choices::Empty && facts.counts.is_some() && !facts.error
}

pub(super) fn finish(kind: StreamKind, event: EventKind, facts: &Facts) -> Option<&Word> {
    match kind {
        StreamKind::Chat | StreamKind::Completions | StreamKind::Other => facts.finish.as_ref(),
        StreamKind::Messages => facts.stop_reason.as_ref(),
        StreamKind::Responses => facts.status.as_ref().filter(|_| ends(kind, event)),
    }
}

pub(super) fn is_error(event: EventKind, name: &[u8], facts: &Facts) -> bool {
    let told = matches!(event, EventKind::Error | EventKind::ResponseFailed);
    told || name == b"error" || facts.error || facts.object_error
}

pub(super) fn error(kind: StreamKind, facts: &Facts) -> StreamError {
    let word = [&facts.error_type, &facts.top_type, &facts.error_code].into_iter().flatten().next();
    let word = word.map_or("error", |word| word);
    let own = facts.code.or(facts.top_code);
    let code = match kind {
        StreamKind::Messages => own.unwrap_or_else(|| anthropic_status(word)),
        _ => own.unwrap_or(500),
    };
    StreamError { code, kind: word.to_owned() }
}

/// HTTP statuses of error types, as Anthropic's API documents them.
fn anthropic_status(kind: &str) -> u16 {
    match kind {
        "invalid_request_error" => 400,
        "authentication_error" => 401,
        "billing_error" => 402,
        "permission_error" => 403,
        "not_found_error" => 404,
        "request_too_large" => 413,
        "rate_limit_error" => 429,
        "timeout_error" => 504,
        "overloaded_error" => 529,
        _ => 500,
    }
}
