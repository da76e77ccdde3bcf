//! The table of routed paths.
#![allow(missing_docs)]
use crate::{Dialect, Shape, StreamKind};
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    ChatCompletions, Completions, Responses, Embeddings, Rerank, Score, Pooling, Classify, Messages, CountTokens, Audio, Images,
    Tokenize, Detokenize, ResponseById, ResponseCancel, Models, Model,
}
impl Endpoint {
    /// The path as usage lines and metric labels name it (a closed list), e.g. `/v1/chat/completions`.
    pub fn label(self) -> &'static str {
        unimplemented!()
    }
    pub fn shape(self) -> Shape {
        unimplemented!()
    }
    pub fn dialect(self) -> Dialect {
        unimplemented!()
    }
    pub fn stream_kind(self) -> StreamKind {
        unimplemented!()
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// 404
    Unknown,
    /// 405 with Allow
    Method { allow: &'static str },
}
/// Normalises (dot segments, doubled slashes, percent-coded unreserved; coded slashes, backslashes, NUL refused) and matches the allow-list. The query is ignored for matching.
/// Returns the endpoint and the normalised path to send on (with its query), borrowed where it was normal already.
pub fn endpoint<'a>(_method: &str, _target: &'a str) -> Result<(Endpoint, std::borrow::Cow<'a, str>), PathError> {
    unimplemented!()
}

