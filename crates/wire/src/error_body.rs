//! Error bodies in both dialects.
#![allow(missing_docs)]
use crate::{Dialect, StreamKind};
/// `{"error":{"message","type","param","code"}}` or Anthropic's `{"type":"error","error":{"type","message"}}`.
pub fn error_body(_d: Dialect, _status: u16, _code: &str, _param: Option<&str>, _message: &str) -> Vec<u8> {
    unimplemented!()
}
/// The error as one SSE event in the dialect of the stream (`event: error` for Anthropic and Responses).
pub fn error_event(_k: StreamKind, _status: u16, _code: &str, _message: &str) -> Vec<u8> {
    unimplemented!()
}

