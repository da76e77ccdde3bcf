//! Response bodies: whole ones, and event streams that follow the engine.

use super::generate::Generation;
use super::problem::Problem;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

const DONE: &str = "data: [DONE]\n\n";

#[derive(Debug)]
pub(super) enum Answer {
    /// With its content type; `None` for an empty body.
    Full {
        content_type: Option<&'static str>,
        body: Bytes,
    },
    Events(EventStream),
}

impl Answer {
    pub(super) fn json(body: String) -> Self {
        Self::Full { content_type: Some("application/json"), body: body.into() }
    }

    pub(super) fn empty() -> Self {
        Self::Full { content_type: None, body: Bytes::new() }
    }

    pub(super) fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Full { content_type, .. } => *content_type,
            Self::Events(_) => Some("text/event-stream; charset=utf-8"),
        }
    }
}

/// Events of one answer. Dropping it (the client left) aborts the request.
#[derive(Debug)]
pub(super) enum EventStream {
    Running {
        generation: Box<Generation>,
        opened: bool,
    },
    /// The last bytes, to be sent as one piece.
    Last(Bytes),
    Ended,
}

impl EventStream {
    pub(super) fn new(generation: Generation) -> Self {
        Self::Running { generation: Box::new(generation), opened: false }
    }

    /// An error as the only event, in a stream whose head says 200.
    pub(super) fn refused(problem: &Problem) -> Self {
        Self::Last(Bytes::from(problem.event() + DONE))
    }

    fn poll_events(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        match std::mem::replace(self, Self::Ended) {
            Self::Ended => Poll::Ready(None),
            Self::Last(bytes) => Poll::Ready(Some(Ok(bytes))),
            Self::Running { mut generation, opened } => {
                let Poll::Ready(output) = generation.ticket.poll_next(context) else {
                    *self = Self::Running { generation, opened };
                    return Poll::Pending;
                };
                // Without a last token the replica has been killed: the stream is cut, not ended.
                let Some(output) = output else {
                    return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
                };
                let usage = generation.usage(&output);
                let asked = generation.stream_usage;
                let running = asked.on_every_event.then_some(usage);
                let mut events = String::new();
                if !opened {
                    let none_yet = running.map(|usage| super::answer::Usage { completion: 0, ..usage });
                    events.extend(generation.shape.opening_event(none_yet));
                }
                let ends = output.finish.is_some();
                events += &generation.shape.token_event(
                    generation.word(&output),
                    output.finish,
                    running,
                    ends && !asked.at_end,
                );
                if !ends {
                    *self = Self::Running { generation, opened: true };
                } else {
                    if asked.at_end {
                        events += &generation.shape.usage_event(usage);
                    }
                    events += DONE;
                }
                Poll::Ready(Some(Ok(events.into())))
            }
        }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match self.get_mut() {
            Self::Full { body, .. } if body.is_empty() => None,
            Self::Full { body, .. } => Some(Ok(std::mem::take(body))),
            Self::Events(events) => ready!(events.poll_events(context)),
        };
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full { body, .. } => body.is_empty(),
            Self::Events(events) => matches!(events, EventStream::Ended),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full { body, .. } => SizeHint::with_exact(body.len() as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
