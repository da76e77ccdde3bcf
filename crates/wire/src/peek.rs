#![allow(missing_docs)]
use std::ops::Range;
// ==== peek.rs: one pass over a JSON body, no tree ====================================================================
pub type Span = Range<usize>;
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    OpenAi,
    Anthropic,
}
/// Which body shape the endpoint has: where the system prompt, the turns and the usage are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Chat,        // messages[].role/content
    Completions, // prompt
    Messages,    // Anthropic: system, messages
    Responses,   // instructions, input
    Other,       // embeddings, rerank, tokenize, ...
}
/// What was read. Spans are into the body as given (a BOM counts). Strings' spans include their quotes.
#[derive(Debug)]
pub struct Peek {
    pub bom: bool,
    pub model: Option<Value>,
    pub stream: bool,                 // true only for a literal `true`
    pub stream_options: Option<StreamOptions>,
    pub max_tokens: Option<u64>,      // max_completion_tokens wins over max_tokens where both are given
    pub n: Option<u64>,
    pub session: Vec<(usize, Span)>,  // (index into the wanted names, string value) in order met; blank, null, non-string left out
    pub previous_response_id: Option<Span>,
    pub system: Vec<Span>,            // text parts of the system prompt in order, bounded to what the prefix hash reads
    pub first_user: Vec<Span>,        // text parts of the first user message, likewise bounded
    pub has_assistant_turn: bool,
    pub text_bytes: u64,              // bytes of prompt text (message/prompt/input/system strings; not schema keys)
    pub media_parts: u32,             // image, audio, file parts
    pub members_at: usize,            // just after the opening brace: where a member can be spliced in
    pub empty: bool,                  // `{}`
}
#[derive(Debug, Clone)]
pub enum Value {
    Text { span: Span, escaped: bool },
    Other { span: Span },             // a number, null, object, ...
}
#[derive(Debug, Clone)]
pub struct StreamOptions {
    pub span: Span,
    pub include_usage: IncludeUsage,
    pub object: bool,                 // false: null or another type
    pub empty: bool,
}
#[derive(Debug, Clone)]
pub enum IncludeUsage {
    Absent,
    True,
    Other(Span),                      // false, null, ...: replaced in place
}
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PeekError {
    #[error("the body is not a JSON object: {what} at byte {at}")]
    Syntax { what: &'static str, at: usize },
    #[error("the member `{name}` is given twice")]
    Doubled { name: String, at: usize },
}
/// `session_names`: top-level members wanted as session keys.
pub fn peek(_body: &[u8], _shape: Shape, _session_names: &[&str]) -> Result<Peek, PeekError> {
    unimplemented!()
}
