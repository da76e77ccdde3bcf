//! Which members are read, by the object they stand in.

use super::Form;
use super::token::{MAX_RESPONSE_ID, WORD};
use crate::usage::Count;

/// An object or array that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Top,
    Choices,
    Choice,
    ChoiceDelta,
    /// `response` of a Responses event.
    Response,
    /// `message` of Anthropic's `message_start`.
    Message,
    /// `delta` of an Anthropic event.
    Delta,
    /// Anthropic's `content_block`.
    Block,
    Error,
    Usage,
    PromptDetails,
    CompletionDetails,
    /// `tool_calls` of a choice's delta.
    ToolCalls,
    ToolCall,
    /// What a call says: `function`, `custom`, or the older `function_call`.
    Call,
}

impl Place {
    pub(super) fn is_array(self) -> bool {
        matches!(self, Self::Choices | Self::ToolCalls)
    }
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Nothing,
    Choices,
    Choice,
    ChoiceDelta,
    Response,
    Message,
    /// An object in Messages, a text in Responses.
    Delta,
    Block,
    Error,
    Usage,
    PromptDetails,
    CompletionDetails,
    /// A generated text, list or object: what matters is whether it is empty, and of a text how long it is.
    Payload,
    Count(Count),
    /// `finish_reason` of a choice.
    Finish,
    StopReason,
    Status,
    /// `type` of the event or answer.
    Type,
    /// `object` of the event or answer.
    Object,
    /// `id` of a response.
    Id,
    TopCode,
    BlockType,
    ErrorType,
    ErrorCode,
    ToolCalls,
    ToolCall,
    Call,
}

impl Field {
    /// The place that a value beginning with `bracket` opens, if its inside is read.
    pub(super) fn place(self, bracket: u8) -> Option<Place> {
        Some(match (self, bracket) {
            (Field::Choices, b'[') => Place::Choices,
            (Field::Choice, b'{') => Place::Choice,
            (Field::ChoiceDelta, b'{') => Place::ChoiceDelta,
            (Field::ToolCalls, b'[') => Place::ToolCalls,
            (Field::ToolCall, b'{') => Place::ToolCall,
            (Field::Call, b'{') => Place::Call,
            (Field::Response, b'{') => Place::Response,
            (Field::Message, b'{') => Place::Message,
            (Field::Delta, b'{') => Place::Delta,
            (Field::Block, b'{') => Place::Block,
            (Field::Error, b'{') => Place::Error,
            (Field::Usage, b'{') => Place::Usage,
            (Field::PromptDetails, b'{') => Place::PromptDetails,
            (Field::CompletionDetails, b'{') => Place::CompletionDetails,
            _ => return None,
        })
    }

    /// Whether a string here is read for what it says.
    pub(super) fn is_word(self) -> bool {
        use Field::{BlockType, ErrorCode, ErrorType, Finish, Id, Object, Status, StopReason, TopCode, Type};
        matches!(
            self,
            BlockType | ErrorCode | ErrorType | Finish | Id | Object | Status | StopReason | TopCode | Type
        )
    }

    /// Bytes of a string here that are read.
    pub(super) fn longest(self) -> usize {
        if self == Field::Id { MAX_RESPONSE_ID } else { WORD }
    }
}

/// What the member `name` of an object at `place` is.
pub(super) fn field_of(form: Form, place: Place, name: &[u8]) -> Field {
    match place {
        Place::Top => top(form, name),
        Place::Choice => match name {
            b"finish_reason" => Field::Finish,
            b"delta" => Field::ChoiceDelta,
            b"text" => Field::Payload,
            _ => Field::Nothing,
        },
        Place::ChoiceDelta => match name {
            b"content" | b"reasoning" | b"reasoning_content" | b"refusal" | b"text" | b"audio" => {
                Field::Payload
            }
            b"tool_calls" => Field::ToolCalls,
            b"function_call" => Field::Call,
            _ => Field::Nothing,
        },
        Place::ToolCall if matches!(name, b"function" | b"custom") => Field::Call,
        Place::Call if matches!(name, b"name" | b"arguments" | b"input") => Field::Payload,
        Place::Response => match name {
            b"usage" => Field::Usage,
            b"status" => Field::Status,
            b"error" => Field::Error,
            b"id" => Field::Id,
            _ => Field::Nothing,
        },
        Place::Message if name == b"usage" => Field::Usage,
        Place::Delta => match name {
            b"text" | b"thinking" | b"partial_json" => Field::Payload,
            b"stop_reason" => Field::StopReason,
            _ => Field::Nothing,
        },
        Place::Block if name == b"type" => Field::BlockType,
        Place::Error => match name {
            b"type" => Field::ErrorType,
            b"code" => Field::ErrorCode,
            _ => Field::Nothing,
        },
        Place::Usage => usage(name),
        Place::PromptDetails if name == b"cached_tokens" => Field::Count(Count::Cached),
        Place::CompletionDetails if name == b"reasoning_tokens" => Field::Count(Count::Reasoning),
        _ => Field::Nothing,
    }
}

fn top(form: Form, name: &[u8]) -> Field {
    match (name, form) {
        (b"choices", _) => Field::Choices,
        (b"usage", _) => Field::Usage,
        (b"error", _) => Field::Error,
        (b"object", _) => Field::Object,
        (b"type", _) => Field::Type,
        (b"code", _) => Field::TopCode,
        (b"stop_reason", _) => Field::StopReason,
        (b"status", _) => Field::Status,
        (b"id", Form::Response) => Field::Id,
        (b"delta", Form::Event) => Field::Delta,
        (b"content_block", Form::Event) => Field::Block,
        (b"message", Form::Event) => Field::Message,
        (b"response", Form::Event) => Field::Response,
        _ => Field::Nothing,
    }
}

fn usage(name: &[u8]) -> Field {
    match name {
        b"prompt_tokens" => Field::Count(Count::Prompt),
        b"input_tokens" => Field::Count(Count::Input),
        b"completion_tokens" | b"output_tokens" => Field::Count(Count::Completion),
        b"cache_read_input_tokens" => Field::Count(Count::CacheRead),
        b"cache_creation_input_tokens" => Field::Count(Count::CacheCreated),
        b"prompt_tokens_details" | b"input_tokens_details" => Field::PromptDetails,
        b"completion_tokens_details" | b"output_tokens_details" => Field::CompletionDetails,
        _ => Field::Nothing,
    }
}
