//! Response bodies: whole ones, torn ones, and event streams that follow the engine.

use super::answer::Finish;
use super::generate::Generation;
use super::problem::Problem;
use super::realtime::{Ending, Piece};
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
    /// One that announces `length` bytes and breaks off after `half`.
    Torn {
        content_type: Option<&'static str>,
        length: u64,
        half: Option<Bytes>,
        flushed: bool,
    },
}

impl Answer {
    pub(super) fn json(body: String) -> Self {
        Self::Full { content_type: Some("application/json"), body: body.into() }
    }

    pub(super) fn empty() -> Self {
        Self::Full { content_type: None, body: Bytes::new() }
    }

    /// The first half of a whole answer, and then a cut.
    pub(super) fn torn(self) -> Self {
        match self {
            Self::Full { content_type, body } => {
                let half = Some(body.slice(..body.len() / 2));
                Self::Torn { content_type, length: body.len() as u64, half, flushed: false }
            }
            other => other,
        }
    }

    pub(super) fn content_type(&self) -> Option<&'static str> {
        match self {
            Self::Full { content_type, .. } | Self::Torn { content_type, .. } => *content_type,
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
    /// A cut, after what was said has gone out.
    Cut {
        flushed: bool,
    },
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
            Self::Cut { mut flushed } => {
                let cut = poll_cut(&mut flushed, context);
                if cut.is_pending() {
                    *self = Self::Cut { flushed };
                }
                cut.map(|error| Some(Err(error)))
            }
            Self::Running { mut generation, opened } => {
                let Poll::Ready(piece) = generation.ticket.poll_next(context) else {
                    *self = Self::Running { generation, opened };
                    return Poll::Pending;
                };
                // Without a last token the replica has been killed: the stream is cut, not ended.
                let Some(piece) = piece else {
                    return Poll::Ready(Some(Err(cut())));
                };
                self.poll_piece(generation, opened, piece, context)
            }
        }
    }

    fn poll_piece(
        &mut self,
        mut generation: Box<Generation>,
        opened: bool,
        piece: Piece,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        let spoiled = |generated| {
            generation.spoil.as_ref().filter(|spoil| generated > spoil.after).map(|spoil| spoil.says.clone())
        };
        let says = match piece {
            Piece::Token(output) => spoiled(output.generated),
            Piece::Ended(Ending::Died) => Some(Some(Problem::Dead)),
            Piece::Ended(Ending::Aborted) => None,
        };
        let mut events = String::new();
        if let Some(says) = says {
            let Some(failure) = says.and_then(|problem| generation.voice.failure(&problem)) else {
                // Dropping the generation frees its place at once.
                *self = Self::Cut { flushed: false };
                return self.poll_events(context);
            };
            events += &failure;
        } else {
            let (text, finish) = match piece {
                Piece::Token(output) => (generation.book(&output), output.finish.map(Finish::from)),
                Piece::Ended(_) => ("", Some(Finish::Abort)),
            };
            if !opened {
                events += &generation.voice.opening(generation.usage);
            }
            events += &generation.voice.token(text, finish, generation.usage);
            if finish.is_none() {
                *self = Self::Running { generation, opened: true };
            }
        }
        Poll::Ready(Some(Ok(events.into())))
    }
}

fn cut() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

/// The cut itself, one turn late: an error at once would take with it what the connection has not written yet.
fn poll_cut(flushed: &mut bool, context: &mut Context<'_>) -> Poll<io::Error> {
    if *flushed {
        return Poll::Ready(cut());
    }
    *flushed = true;
    context.waker().wake_by_ref();
    Poll::Pending
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let next = match self.get_mut() {
            Self::Full { body, .. } if body.is_empty() => None,
            Self::Full { body, .. } => Some(Ok(std::mem::take(body))),
            Self::Events(events) => ready!(events.poll_events(context)),
            Self::Torn { half, flushed, .. } => match half.take() {
                Some(half) => Some(Ok(half)),
                None => Some(Err(ready!(poll_cut(flushed, context)))),
            },
        };
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full { body, .. } => body.is_empty(),
            Self::Events(events) => matches!(events, EventStream::Ended),
            Self::Torn { .. } => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full { body, .. } => SizeHint::with_exact(body.len() as u64),
            Self::Torn { length, .. } => SizeHint::with_exact(*length),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
