#![allow(missing_docs)]
use crate::usage::Usage;
// ==== sse.rs: the observer ============================================================================================
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamError {
    pub code: u16,          // the event's own code where it is an HTTP-like integer, else 500 (Anthropic: overloaded_error is 529, ...)
    pub kind: String,       // `type`, cut to 64 bytes of printable ASCII
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamKind {
    Chat,
    Completions,
    Messages,
    Responses,
    /// Not a known kind: events are counted, ends by framing alone.
    Other,
}
/// Reads along a stream of events fed in any split. Holds no heap between events.
pub struct Observer {}
/// What may be sent on after one `feed`: `held` (kept back by earlier feeds, usually empty) and then the first `keep` bytes of the buffer.
pub struct Pass {
    pub held: Vec<u8>,
    pub keep: usize,
    /// A token-bearing event (content, reasoning or tool call) was completed for the first time in this feed.
    pub first_content: bool,
}
impl Observer {
    /// `hide_usage`: take out the usage-only event (`choices: []` with usage) that the gateway asked for and the client did not.
    pub fn new(_kind: StreamKind, _hide_usage: bool) -> Self {
        unimplemented!()
    }
    /// Bytes of the body (framing already removed). The buffer may be compacted in place where an event is taken out.
    pub fn feed(&mut self, _buf: &mut [u8]) -> Pass {
        unimplemented!()
    }
    /// At the end of the body: what was still held back.
    pub fn finish(&mut self) -> Vec<u8> {
        unimplemented!()
    }
    /// Complete events or comments so far (a complete comment releases the head as well).
    pub fn complete(&self) -> u64 {
        unimplemented!()
    }
    /// Events with data so far (comments and [DONE] not counted).
    pub fn events(&self) -> u64 {
        unimplemented!()
    }
    /// Events that carried content, reasoning or a tool call.
    pub fn content_events(&self) -> u64 {
        unimplemented!()
    }
    pub fn usage(&self) -> Option<Usage> {
        unimplemented!()
    }
    pub fn finish_reason(&self) -> Option<&str> {
        unimplemented!()
    }
    pub fn error(&self) -> Option<&StreamError> {
        unimplemented!()
    }
    /// The kind's own end was seen ([DONE], message_stop, response.completed/incomplete/failed).
    pub fn ended(&self) -> bool {
        unimplemented!()
    }
    /// True between events: what was passed on ends with a blank line (so an error event can be put in without closing a partial line).
    pub fn at_boundary(&self) -> bool {
        unimplemented!()
    }
}

