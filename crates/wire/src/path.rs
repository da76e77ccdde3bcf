//! The table of routed paths: everything else is unknown.

use std::borrow::Cow;

mod normal;

use crate::{Dialect, Shape, StreamKind};

/// What a routed path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `POST /v1/chat/completions`
    ChatCompletions,
    /// `POST /v1/completions`
    Completions,
    /// `POST /v1/responses`
    Responses,
    /// `POST /v1/embeddings`
    Embeddings,
    /// `POST /v1/rerank`, `/rerank`
    Rerank,
    /// `POST /v1/score`, `/score`
    Score,
    /// `POST /v1/pooling`, `/pooling`
    Pooling,
    /// `POST /v1/classify`, `/classify`
    Classify,
    /// `POST /v1/messages`
    Messages,
    /// `POST /v1/messages/count_tokens`
    CountTokens,
    /// `POST /v1/audio/{kind}`
    Audio,
    /// `POST /v1/images/{kind}`
    Images,
    /// `POST /tokenize`
    Tokenize,
    /// `POST /detokenize`
    Detokenize,
    /// `GET`, `DELETE /v1/responses/{id}`
    ResponseById,
    /// `POST /v1/responses/{id}/cancel`
    ResponseCancel,
    /// `GET /v1/models`
    Models,
    /// `GET /v1/models/{id}`
    Model,
}

impl Endpoint {
    /// The path as usage lines and metric labels name it: a closed list.
    pub fn label(self) -> &'static str {
        match self {
            Self::ChatCompletions => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Embeddings => "/v1/embeddings",
            Self::Rerank => "/v1/rerank",
            Self::Score => "/v1/score",
            Self::Pooling => "/v1/pooling",
            Self::Classify => "/v1/classify",
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
            Self::Audio => "/v1/audio/*",
            Self::Images => "/v1/images/*",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
            Self::ResponseById => "/v1/responses/{id}",
            Self::ResponseCancel => "/v1/responses/{id}/cancel",
            Self::Models => "/v1/models",
            Self::Model => "/v1/models/{id}",
        }
    }

    /// The shape of the request body.
    pub fn shape(self) -> Shape {
        match self {
            Self::ChatCompletions => Shape::Chat,
            Self::Completions => Shape::Completions,
            Self::Messages | Self::CountTokens => Shape::Messages,
            Self::Responses => Shape::Responses,
            _ => Shape::Other,
        }
    }

    /// The dialect of the gateway's own errors.
    pub fn dialect(self) -> Dialect {
        match self {
            Self::Messages | Self::CountTokens => Dialect::Anthropic,
            _ => Dialect::OpenAi,
        }
    }

    /// The kind of stream the endpoint answers with where it streams.
    pub fn stream_kind(self) -> StreamKind {
        match self {
            Self::ChatCompletions => StreamKind::Chat,
            Self::Completions => StreamKind::Completions,
            Self::Messages => StreamKind::Messages,
            Self::Responses | Self::ResponseById => StreamKind::Responses,
            _ => StreamKind::Other,
        }
    }

    /// Whether it is about one response that was made before: its request names no model.
    pub fn is_stored_response(self) -> bool {
        matches!(self, Self::ResponseById | Self::ResponseCancel)
    }

    /// The methods served, as `Allow` lists them. HEAD is not served: no client of these APIs sends it.
    fn allow(self) -> &'static str {
        match self {
            Self::ResponseById => "GET, DELETE",
            Self::Models | Self::Model => "GET",
            _ => "POST",
        }
    }
}

/// Why a path is not routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// 404: not in the table, or no path at all after normalisation.
    Unknown,
    /// 405: in the table under other methods.
    Method {
        /// The value for `Allow`.
        allow: &'static str,
    },
}

/// Looks a target in origin form up in the table, and returns the endpoint and the path to send on (with its query,
/// untouched), borrowed where it was normal already.
///
/// Normal means: doubled slashes are one, dot segments are resolved (above the root: unknown), percent-coded
/// unreserved bytes are plain (RFC 3986 section 6.2.2). Coded slashes, backslashes and control bytes are unknown,
/// and so is a trailing slash. Only what is in the table goes on, so a path that a replica could read in another way
/// never does: `{id}` and `{kind}` are one segment of letters, digits, `-`, `_` and `.`, not led by a dot.
/// `GET /v1/models/{id}` is answered here and not sent on; its id may hold slashes, plain or coded, and any other
/// coded byte: see [`model_id`].
pub fn endpoint<'a>(method: &str, target: &'a str) -> Result<(Endpoint, Cow<'a, str>), PathError> {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    if let Some(found) = fixed(path) {
        return allowed(method, found).map(|found| (found, Cow::Borrowed(target)));
    }
    let normal = normal::normalise(path).ok_or(PathError::Unknown)?;
    let found = fixed(&normal).or_else(|| with_id(&normal)).ok_or(PathError::Unknown)?;
    let found = allowed(method, found)?;
    Ok((
        found,
        match normal {
            Cow::Borrowed(_) => Cow::Borrowed(target),
            Cow::Owned(path) => Cow::Owned(path + query),
        },
    ))
}

/// The id in a normal `/v1/models/{id}` path, percent-decoded. `None`: another path, or not UTF-8 when decoded.
pub fn model_id(path: &str) -> Option<Cow<'_, str>> {
    let path = path.split('?').next().unwrap_or_default();
    let id = path.strip_prefix("/v1/models/").filter(|id| !id.is_empty())?;
    normal::decode(id)
}

/// The response id of a normalised `/v1/responses/{id}` or `/v1/responses/{id}/cancel`.
pub fn response_id(path: &str) -> Option<&str> {
    let path = path.split('?').next().unwrap_or_default();
    let id = path.strip_prefix("/v1/responses/")?;
    Some(id.strip_suffix("/cancel").unwrap_or(id))
}

fn allowed(method: &str, found: Endpoint) -> Result<Endpoint, PathError> {
    let allow = found.allow();
    // Nearly every path has one method.
    if allow == method || allow.split(", ").any(|served| served == method) {
        Ok(found)
    } else {
        Err(PathError::Method { allow })
    }
}

fn fixed(path: &str) -> Option<Endpoint> {
    Some(match path {
        "/v1/chat/completions" => Endpoint::ChatCompletions,
        "/v1/completions" => Endpoint::Completions,
        "/v1/responses" => Endpoint::Responses,
        "/v1/embeddings" => Endpoint::Embeddings,
        "/v1/rerank" | "/rerank" => Endpoint::Rerank,
        "/v1/score" | "/score" => Endpoint::Score,
        "/v1/pooling" | "/pooling" => Endpoint::Pooling,
        "/v1/classify" | "/classify" => Endpoint::Classify,
        "/v1/messages" => Endpoint::Messages,
        "/v1/messages/count_tokens" => Endpoint::CountTokens,
        "/v1/models" => Endpoint::Models,
        "/tokenize" => Endpoint::Tokenize,
        "/detokenize" => Endpoint::Detokenize,
        _ => return None,
    })
}

fn with_id(path: &str) -> Option<Endpoint> {
    let (collection, rest) = path.strip_prefix("/v1/")?.split_once('/')?;
    match (collection, rest) {
        ("models", id) if !id.is_empty() && !id.ends_with('/') => Some(Endpoint::Model),
        ("audio", kind) if is_plain_segment(kind) => Some(Endpoint::Audio),
        ("images", kind) if is_plain_segment(kind) => Some(Endpoint::Images),
        ("responses", id) => match id.strip_suffix("/cancel") {
            Some(id) => is_plain_segment(id).then_some(Endpoint::ResponseCancel),
            None => is_plain_segment(id).then_some(Endpoint::ResponseById),
        },
        _ => None,
    }
}

fn is_plain_segment(segment: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !segment.is_empty() && !segment.starts_with('.') && segment.bytes().all(plain)
}

#[cfg(test)]
mod tests;
