//! What one answer or event said.

use std::borrow::Cow;

use super::places::Field;
use super::token::printable;
use crate::number::whole;
use crate::usage::Counts;

/// A reason or status; the usual ones cost no heap.
pub(crate) type Word = Cow<'static, str>;

const WORDS: &[&str] = &[
    "stop",
    "length",
    "tool_calls",
    "abort",
    "end_turn",
    "max_tokens",
    "tool_use",
    "stop_sequence",
    "content_filter",
    "function_call",
    "completed",
    "incomplete",
    "in_progress",
    "failed",
    "error",
    "refusal",
    "pause_turn",
    "repetition",
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choices {
    #[default]
    Absent,
    Empty,
    Some,
}

/// What an event's `type` (or its `event:` line) says it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EventKind {
    #[default]
    Untold,
    /// Anthropic's `message_stop`.
    MessageStop,
    /// `response.completed`, `response.incomplete`.
    ResponseEnd,
    /// `response.failed`.
    ResponseFailed,
    /// `response.*.delta` and the like: a piece of text in `delta`.
    Delta,
    /// `response.audio.delta` and the like: a piece of sound, whose bytes are no text.
    SoundDelta,
    Error,
    Another,
}

impl EventKind {
    pub(crate) fn of(name: &[u8]) -> Self {
        match name {
            b"message_stop" => Self::MessageStop,
            b"response.completed" | b"response.incomplete" => Self::ResponseEnd,
            b"response.failed" => Self::ResponseFailed,
            b"error" => Self::Error,
            _ if name.ends_with(b"audio.delta") => Self::SoundDelta,
            _ if name.ends_with(b".delta") => Self::Delta,
            _ => Self::Another,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Of the last usage object that was read to its end.
    pub(crate) counts: Option<Counts>,
    counting: Counts,
    pub(crate) choices: Choices,
    pub(crate) kind: EventKind,
    /// A choice's or an Anthropic delta's text, list or object is not empty.
    pub(crate) payload: bool,
    /// `delta` is a text that is not empty.
    pub(crate) delta_text: bool,
    /// Bytes of those texts, and of tools' names and arguments, as written (escapes not decoded).
    pub(crate) text_bytes: u64,
    /// `content_block` is a tool's use.
    pub(crate) tool_block: bool,
    /// `error` is an object or a text.
    pub(crate) error: bool,
    /// `object` is `error`: the members of the error stand at the top, as in older vLLM.
    pub(crate) object_error: bool,
    pub(crate) finish: Option<Word>,
    pub(crate) stop_reason: Option<Word>,
    pub(crate) status: Option<Word>,
    /// `type`, where it is no event's.
    pub(crate) top_type: Option<Box<str>>,
    pub(crate) error_type: Option<Box<str>>,
    /// `id` of a response, where it is one that can be asked for by.
    pub(crate) id: Option<Box<str>>,
    /// A code in words.
    pub(crate) error_code: Option<Box<str>>,
    /// A code like an HTTP status, 400 to 599.
    pub(crate) code: Option<u16>,
    pub(crate) top_code: Option<u16>,
}

impl Facts {
    pub(super) fn begin_usage(&mut self) {
        self.counting = Counts::default();
    }

    pub(super) fn end_usage(&mut self) {
        self.counts = Some(self.counting);
    }

    /// `cut`: there was more of the word than is read.
    pub(super) fn word(&mut self, field: Field, word: &[u8], cut: bool) {
        match field {
            // One abort among the choices is what matters; else the first reason.
            Field::Finish if self.finish.is_none() || word == b"abort" => self.finish = Some(known(word)),
            Field::StopReason => self.stop_reason = Some(known(word)),
            Field::Status => self.status = Some(known(word)),
            Field::Type => {
                self.kind = EventKind::of(word);
                // Types of events have dots or are known; what is left may be an error's.
                self.top_type = match self.kind {
                    EventKind::Another if !word.contains(&b'.') => Some(printable(word).into()),
                    _ => None,
                };
            }
            // One that was cut is none: another response may begin with it.
            Field::Id => self.id = response_id(word).filter(|_| !cut),
            Field::Object => self.object_error = word == b"error",
            Field::BlockType => self.tool_block = word.ends_with(b"tool_use"),
            Field::ErrorType => self.error_type = Some(printable(word).into()),
            Field::ErrorCode => {
                self.code = status_code(word).or(self.code);
                self.error_code = Some(printable(word).into());
            }
            Field::TopCode => self.top_code = status_code(word),
            _ => {}
        }
    }

    pub(super) fn number(&mut self, field: Field, number: &[u8]) {
        match field {
            Field::Count(count) => {
                if let Some(value) = whole(number) {
                    self.counting.set(count, value);
                }
            }
            Field::ErrorCode => self.code = status_code(number),
            Field::TopCode => self.top_code = status_code(number),
            _ => {}
        }
    }
}

fn status_code(number: &[u8]) -> Option<u16> {
    whole(number).and_then(|code| u16::try_from(code).ok()).filter(|code| (400..600).contains(code))
}

fn response_id(word: &[u8]) -> Option<Box<str>> {
    let plain = word.iter().all(u8::is_ascii_graphic);
    str::from_utf8(word).ok().filter(|id| plain && !id.is_empty()).map(Into::into)
}

fn known(word: &[u8]) -> Word {
    match WORDS.iter().find(|known| known.as_bytes() == word) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(printable(word).into_owned()),
    }
}
