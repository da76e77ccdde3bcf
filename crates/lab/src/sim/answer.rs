//! What an answer says in each dialect, member for member in vLLM's order.

mod messages;
mod openai;
mod responses;

pub(super) use messages::Message;
pub(super) use openai::{Shape, StreamUsage};
pub(super) use responses::{Echo, Reply, not_kept};

use super::problem::Problem;
use crate::engine::FinishReason;

/// How an answer ended, as its last event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    Stop,
    Length,
    /// The server shut down; what had been generated is all there will be.
    Abort,
}

impl From<FinishReason> for Finish {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop => Self::Stop,
            FinishReason::Length => Self::Length,
        }
    }
}

/// Tokens of an answer so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: u32,
    pub(super) completion: u32,
    pub(super) cached: u32,
    /// Prompt tokens in whole blocks that this request added to the cache.
    pub(super) created: u32,
}

/// One answer's dialect, with what its parts have in common.
#[derive(Debug)]
pub(super) enum Voice {
    OpenAi(Shape, StreamUsage),
    Messages(Message),
    Responses(Box<Reply>),
}

impl Voice {
    /// What precedes the first token in a stream.
    pub(super) fn opening(&mut self, usage: Usage) -> String {
        let none_yet = Usage { completion: 0, ..usage };
        match self {
            Self::OpenAi(shape, asked) => {
                shape.opening_event(asked.on_every_event.then_some(none_yet)).unwrap_or_default()
            }
            Self::Messages(message) => message.opening(none_yet),
            Self::Responses(reply) => reply.opening(),
        }
    }

    /// One token, and with the last one everything that ends the stream.
    pub(super) fn token(&mut self, text: &str, finish: Option<Finish>, usage: Usage) -> String {
        match self {
            Self::OpenAi(shape, asked) => shape.token(text, finish, usage, *asked),
            Self::Messages(message) => message.token(text, finish, usage),
            Self::Responses(reply) => reply.token(text, finish, usage),
        }
    }

    /// A whole answer, not streamed.
    pub(super) fn whole(&mut self, text: &str, finish: Finish, usage: Usage) -> String {
        match self {
            Self::OpenAi(shape, _) => shape.whole(text, finish, usage),
            Self::Messages(message) => message.whole(text, finish, usage),
            Self::Responses(reply) => reply.whole(text, finish, usage),
        }
    }

    /// The end of a stream that fails; `None`: in this dialect vLLM breaks off without a word.
    pub(super) fn failure(&self, problem: &Problem) -> Option<String> {
        match self {
            Self::OpenAi(..) => Some(problem.event() + openai::DONE),
            Self::Messages(_) => Some(messages::failure(problem)),
            Self::Responses(_) => None,
        }
    }
}
