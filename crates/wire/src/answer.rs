//! Non-stream answers of any length in bounded memory.

use crate::scan::{Facts, Form, Scan};
use crate::sse::StreamKind;
use crate::usage::Usage;

/// Incremental scan of one JSON answer for its top-level `usage`, first `finish_reason` or `stop_reason`, and error
/// type. What it holds does not grow with the answer. An answer that is no JSON object says nothing.
#[derive(Debug)]
pub struct AnswerScan {
    scan: Scan,
    facts: Facts,
}

impl Default for AnswerScan {
    fn default() -> Self {
        Self::new()
    }
}

impl AnswerScan {
    /// Ahead of the answer's first byte.
    pub fn new() -> Self {
        Self { scan: Scan::new(Form::Answer), facts: Facts::default() }
    }

    /// Ahead of the first byte of an answer of this kind: of Responses the `id` is read as well.
    pub fn of(kind: StreamKind) -> Self {
        let form = if kind == StreamKind::Responses { Form::Response } else { Form::Answer };
        Self { scan: Scan::new(form), facts: Facts::default() }
    }

    /// The next bytes of the body, in any split.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.scan.feed(bytes, &mut self.facts);
    }

    /// The last top-level `usage` that was read whole and holds a count.
    pub fn usage(&self) -> Option<Usage> {
        self.facts.counts.and_then(|counts| counts.usage())
    }

    /// `finish_reason` of the first choice; else the top-level `stop_reason` (Messages) or `status` (Responses).
    pub fn finish_reason(&self) -> Option<&str> {
        let facts = &self.facts;
        facts.finish.as_deref().or(facts.stop_reason.as_deref()).or(facts.status.as_deref())
    }

    /// The response's `id`, of printable ASCII, at most [`MAX_RESPONSE_ID`](crate::MAX_RESPONSE_ID) bytes as written; only where it was made with [`Self::of`].
    pub fn response_id(&self) -> Option<&str> {
        self.facts.id.as_deref()
    }

    /// `error.type`, or the top-level `type` of an `"object":"error"` (older vLLM). At most 64 bytes, printable ASCII.
    pub fn error_type(&self) -> Option<&str> {
        let at_top = || self.facts.top_type.as_deref().filter(|_| self.facts.object_error);
        self.facts.error_type.as_deref().or_else(at_top)
    }
}

#[cfg(test)]
mod tests;
