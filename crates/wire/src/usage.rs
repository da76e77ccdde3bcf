#![allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub cached_tokens: Option<u64>,
    pub completion_tokens: u64,
    pub reasoning_tokens: Option<u64>,
}
