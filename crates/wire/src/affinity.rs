#![allow(missing_docs)]
use crate::peek::Peek;
// ==== affinity.rs: XXH3 keys ==========================================================================================
/// Prefix key: first `limit` bytes of the decoded system text, mixed with `salt` (route, project). None without a system prompt.
pub fn prefix_key(_body: &[u8], _peek: &Peek, _limit: usize, _salt: u64) -> Option<u64> {
    unimplemented!()
}
/// auto:conversation: system prompt's head and first user message. None without a first user message.
pub fn conversation_key(_body: &[u8], _peek: &Peek, _limit: usize, _salt: u64) -> Option<u64> {
    unimplemented!()
}
/// A session id given by the client. None when blank.
pub fn session_key(_text: &[u8], _salt: u64) -> Option<u64> {
    unimplemented!()
}

