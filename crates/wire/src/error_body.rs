//! The gateway's own errors, in the shape each dialect's clients expect.

use std::fmt::Write;

use crate::{Dialect, StreamKind};

/// Most bytes of a message that are put into an error; the rest is cut at a character boundary.
pub const MAX_ERROR_MESSAGE: usize = 1024;
/// Most bytes of a code or a parameter name that are put into an error.
const MAX_ERROR_NAME: usize = 128;

/// `{"error":{"message","type","param","code"}}`, or Anthropic's `{"type":"error","error":{"type","message"}}`.
/// `type` follows from the status; the official SDKs choose their exception by the status alone.
pub fn error_body(d: Dialect, status: u16, code: &str, param: Option<&str>, message: &str) -> Vec<u8> {
    let mut out = String::with_capacity(160 + message.len().min(MAX_ERROR_MESSAGE));
    match d {
        Dialect::OpenAi => {
            out.push_str(r#"{"error":"#);
            push_openai(&mut out, status, code, param, message);
            out.push('}');
        }
        Dialect::Anthropic => push_anthropic(&mut out, status, message),
    }
    out.into_bytes()
}

/// The error as one event in the dialect of the stream, closed by a blank line. Chat, completions and unknown kinds:
/// a data line with the error object, which the OpenAI SDK raises. Messages: `event: error`. Responses:
/// `event: error` with the members of the API's error event, and the error object beside them, because the SDK
/// raises only that one.
pub fn error_event(k: StreamKind, status: u16, code: &str, message: &str) -> Vec<u8> {
    let mut out = String::with_capacity(320 + message.len().min(MAX_ERROR_MESSAGE));
    match k {
        StreamKind::Chat | StreamKind::Completions | StreamKind::Other => {
            out.push_str(r#"data: {"error":"#);
            push_openai(&mut out, status, code, None, message);
            out.push('}');
        }
        StreamKind::Messages => {
            out.push_str("event: error\ndata: ");
            push_anthropic(&mut out, status, message);
        }
        StreamKind::Responses => {
            out.push_str("event: error\ndata: {\"type\":\"error\",\"code\":");
            push_text(&mut out, code, MAX_ERROR_NAME);
            out.push_str(r#","message":"#);
            push_text(&mut out, message, MAX_ERROR_MESSAGE);
            out.push_str(r#","param":null,"error":"#);
            push_openai(&mut out, status, code, None, message);
            out.push('}');
        }
    }
    out.push_str("\n\n");
    out.into_bytes()
}

fn push_openai(out: &mut String, status: u16, code: &str, param: Option<&str>, message: &str) {
    out.push_str(r#"{"message":"#);
    push_text(out, message, MAX_ERROR_MESSAGE);
    out.push_str(r#","type":""#);
    out.push_str(openai_type(status));
    out.push_str(r#"","param":"#);
    match param {
        Some(param) => push_text(out, param, MAX_ERROR_NAME),
        None => out.push_str("null"),
    }
    out.push_str(r#","code":"#);
    push_text(out, code, MAX_ERROR_NAME);
    out.push('}');
}

fn push_anthropic(out: &mut String, status: u16, message: &str) {
    out.push_str(r#"{"type":"error","error":{"type":""#);
    out.push_str(anthropic_type(status));
    out.push_str(r#"","message":"#);
    push_text(out, message, MAX_ERROR_MESSAGE);
    out.push_str("}}");
}

fn openai_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        500.. => "server_error",
        _ => "invalid_request_error",
    }
}

fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}

/// A JSON string of at most `limit` bytes of `text`. Control bytes are escaped, so it is one line of an event.
fn push_text(out: &mut String, text: &str, limit: usize) {
    out.push('"');
    let end = text.floor_char_boundary(limit);
    for character in text.get(..end).unwrap_or_default().chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\x1f' | '\x7f' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
