#![allow(missing_docs)]
use crate::usage::Usage;
// ==== answer.rs: non-stream answers of any length in bounded memory ====================================================
/// Incremental scan of one JSON answer for its top-level `usage`, first `finish_reason`/`stop_reason`, and error type.
pub struct AnswerScan {}
impl AnswerScan {
    pub fn new() -> Self {
        unimplemented!()
    }
    pub fn feed(&mut self, _bytes: &[u8]) {
        unimplemented!()
    }
    pub fn usage(&self) -> Option<Usage> {
        unimplemented!()
    }
    pub fn finish_reason(&self) -> Option<&str> {
        unimplemented!()
    }
    /// `error.type` (nested) or top-level `type` of old vLLM errors.
    pub fn error_type(&self) -> Option<&str> {
        unimplemented!()
    }
}

