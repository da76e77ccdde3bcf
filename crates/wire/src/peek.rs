//! One pass over a JSON request body: what routing and limits read, and nothing else. No tree is built.
//!
//! Checked here: the body is one object with nothing but white space behind it; its members, and those of the objects
//! that are read (`stream_options`, turns, content parts), are separated as RFC 8259 says; every string and container
//! ends. Left to the engine: UTF-8, control characters and escapes in strings, which bytes make a number or literal,
//! and the inside of values that are not read, where brackets are only counted.
//!
//! Nesting costs neither stack nor heap: values that are not read are passed over with a counter, and the shapes that
//! are read have a fixed depth.

use std::ops::Range;

mod cursor;
mod spans;
mod tail;
mod top;
mod turns;

pub use spans::{MAX_SPANS, MAX_TEXT_HEAD};
pub(crate) use tail::last_texts;
pub(crate) use top::empty_peek;

/// A range of bytes in the body.
pub type Span = Range<usize>;

/// Whose error and usage vocabulary the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// OpenAI's, and that of the engines.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
}

/// Which body shape the endpoint has: where the system prompt, the turns and the usage are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `messages[].role/content`; the system prompt is a turn.
    Chat,
    /// `prompt`.
    Completions,
    /// Anthropic: `system` and `messages`.
    Messages,
    /// `instructions` and `input`.
    Responses,
    /// Embeddings, rerank, tokenize and so on: `input`, `prompt`, `query`, `documents`, `messages`, ...
    Other,
}

/// What was read. Spans are into the body as given (a BOM counts). Strings' spans include their quotes.
#[derive(Debug)]
pub struct Peek {
    /// The body begins with a UTF-8 byte-order mark.
    pub bom: bool,
    /// The value of `model`.
    pub model: Option<Value>,
    /// `stream` is the literal `true`.
    pub stream: bool,
    /// `stream` is neither true, false nor null: an engine that is lax about it may take it for true.
    pub odd_stream: bool,
    /// The value of `stream_options`.
    pub stream_options: Option<StreamOptions>,
    /// The largest of those given: `max_tokens`, `max_completion_tokens` (Responses: `max_output_tokens`) and llama.cpp's
    /// `n_predict` (chat and completions). Read as the laxest engine reads them: also from text, fractions rounded up,
    /// what fits no count as `u64::MAX`. `None` where none is a number, or only less than zero.
    pub max_tokens: Option<u64>,
    /// One of them is less than zero: to some engines that is no maximum at all, whatever the others say.
    pub endless: bool,
    /// `n`, answers asked for of each prompt; read likewise.
    pub n: Option<u64>,
    /// `best_of`, answers made of each prompt (completions); read likewise.
    pub best_of: Option<u64>,
    /// Prompts in `prompt` and the like (completions and others): each text, list of token ids and object; a list of
    /// token ids that is not inside another list counts nothing here, and is one.
    pub prompts: u64,
    /// `background` is the literal `true` (Responses): the answer is made without its client.
    pub background: bool,
    /// (index into the wanted names, string value) in order met; blank, null and non-string values are left out.
    pub session: Vec<(usize, Span)>,
    /// `previous_response_id`, where it is a string that is not blank.
    pub previous_response_id: Option<Span>,
    /// Text parts of the system prompt in order: `system` or `instructions`, then the system and developer turns ahead
    /// of any other turn. At most [`MAX_SPANS`], and no more once they hold [`MAX_TEXT_HEAD`] decoded bytes.
    pub system: Vec<Span>,
    /// Text parts of the first user turn, likewise bounded.
    pub first_user: Vec<Span>,
    /// The value of `tools`: engines put it ahead of the turns.
    pub tools: Option<Span>,
    /// The value of `system` or `instructions`.
    pub instructions: Option<Span>,
    /// The value of `messages`, `input` or `prompt`.
    pub turns: Option<Span>,
    /// A turn of the assistant, or a tool call or its output, is among the turns.
    pub has_assistant_turn: bool,
    /// Bytes of prompt text as written (escapes not decoded): message, prompt, input and system strings, tool results.
    /// Neither token ids nor media count.
    pub text_bytes: u64,
    /// Bytes, as written, of what else engines make a prompt of: tool schemas, and of turns and parts whatever is
    /// neither text nor media, as tool calls, reasoning and names.
    pub other_bytes: u64,
    /// Bytes that are read again for each further pair they stand in, where two lists make pairs (rerank, score).
    pub repeated_bytes: u64,
    /// Token ids in place of prompt text.
    pub token_ids: u64,
    /// Image, audio, video and file parts.
    pub media_parts: u32,
    /// Just after the opening brace: where a member can be spliced in.
    pub members_at: usize,
    /// `{}`
    pub empty: bool,
    /// The body is a form and no JSON: no member can be put in.
    pub form: bool,
}

/// A member's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Text {
        /// The string, quotes included.
        span: Span,
        /// It holds escapes: unescape before comparing.
        escaped: bool,
    },
    /// The content of a form's part: it stands for itself, without quotes or escapes.
    Plain {
        /// The content.
        span: Span,
    },
    /// A number, null, object, ...
    Other {
        /// The value.
        span: Span,
    },
}

impl Value {
    /// Where it stands.
    pub fn span(&self) -> &Span {
        match self {
            Self::Text { span, .. } | Self::Plain { span } | Self::Other { span } => span,
        }
    }
}

/// The value of `stream_options`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamOptions {
    /// The value.
    pub span: Span,
    /// Its `include_usage`; the last one where it is repeated, which is the one engines read.
    pub include_usage: IncludeUsage,
    /// False: null or another type.
    pub object: bool,
    /// The literal `null`.
    pub null: bool,
    /// `{}`
    pub empty: bool,
}

/// What `stream_options` says about usage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncludeUsage {
    /// Nothing.
    Absent,
    /// The literal `true`.
    True,
    /// `false`, null or another value, which can be replaced in place.
    Other(Span),
}

/// Why a body is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PeekError {
    /// The body is no JSON object.
    #[error("the body is not a JSON object: {what} at byte {at}")]
    Syntax {
        /// What was expected or missing.
        what: &'static str,
        /// Offset in the body.
        at: usize,
    },
    /// Two readers could take two different values: refused.
    #[error("the member `{name}` is given twice")]
    Doubled {
        /// The name, unescaped.
        name: String,
        /// Offset of the second one.
        at: usize,
    },
}

/// Reads one request body. `session_names`: top-level members wanted as session keys.
///
/// A top-level member that decides something (`model`, `stream`, `stream_options`, the token limits, `n`,
/// `best_of`, `background`, `previous_response_id`, a session key) may stand there once; names are compared unescaped.
pub fn peek(body: &[u8], shape: Shape, session_names: &[&str]) -> Result<Peek, PeekError> {
    top::read(body, shape, session_names)
}

#[cfg(test)]
mod tests;
