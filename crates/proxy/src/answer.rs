//! An upstream answer's body on its way through: framing removed in place, an observer reading along.

use std::io;

use sluicegate_wire::{AnswerScan, ChunkDecoder, HeadError, Observer, ResponseFraming, StreamKind, Usage};

use crate::coding::{DecodedCopy, Reader};

/// Removes the framing of one answer and watches what comes out.
#[derive(Debug)]
pub(crate) struct Answer {
    decoder: Decoder,
    pub(crate) watcher: Watcher,
}

#[derive(Debug)]
enum Decoder {
    Length(u64),
    Chunked(ChunkDecoder),
    Close,
}

/// Who reads along.
#[derive(Debug)]
pub(crate) enum Watcher {
    /// An event stream.
    Stream(Observer),
    /// Any other readable answer.
    Whole(Box<AnswerScan>),
    /// Coded content: a decoded copy is read.
    Coded(Box<DecodedCopy>),
    /// Passed on unread.
    Opaque,
}

/// The one that reads, whether from the answer itself or from a copy.
enum Seen<'a> {
    Stream(&'a Observer),
    Whole(&'a AnswerScan),
    Nothing,
}

/// What one read turned into.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    /// Goes out first: held back by an earlier read.
    pub(crate) held: Vec<u8>,
    /// Then this many bytes of the buffer.
    pub(crate) keep: usize,
    /// Then this.
    pub(crate) tail: Vec<u8>,
    /// The body is complete.
    pub(crate) done: bool,
    /// Bytes came after the end: the connection is not to be used again.
    pub(crate) surplus: bool,
    /// The first event with content was in it.
    pub(crate) first_content: bool,
}

impl Piece {
    pub(crate) fn len(&self) -> usize {
        self.held.len() + self.keep + self.tail.len()
    }
}

impl Answer {
    pub(crate) fn new(framing: ResponseFraming, watcher: Watcher) -> Self {
        let decoder = match framing {
            ResponseFraming::None => Decoder::Length(0),
            ResponseFraming::Length(n) => Decoder::Length(n),
            ResponseFraming::Chunked => Decoder::Chunked(ChunkDecoder::new()),
            ResponseFraming::Close => Decoder::Close,
        };
        Self { decoder, watcher }
    }

    /// No body byte is to come.
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self.decoder, Decoder::Length(0))
    }

    /// Takes one read. An error: the framing is broken and the answer cut.
    pub(crate) fn absorb(&mut self, buf: &mut [u8]) -> Result<Piece, HeadError> {
        let (payload, consumed, done) = match &mut self.decoder {
            Decoder::Length(left) => {
                let n = usize::try_from(*left).unwrap_or(usize::MAX).min(buf.len());
                *left -= n as u64;
                (n, n, *left == 0)
            }
            Decoder::Chunked(chunks) => {
                let decoded = chunks.decode(buf)?;
                (decoded.payload, decoded.consumed, decoded.done)
            }
            Decoder::Close => (buf.len(), buf.len(), false),
        };
        let surplus = done && consumed < buf.len();
        let mut piece = self.observe(buf.get_mut(..payload).unwrap_or_default());
        if done {
            self.finish(&mut piece);
        }
        piece.surplus = surplus;
        Ok(piece)
    }

    /// The connection has ended. An error: before the answer's end.
    pub(crate) fn end(&mut self) -> Result<Piece, ()> {
        if !matches!(self.decoder, Decoder::Close) {
            return Err(());
        }
        let mut piece = Piece::default();
        self.finish(&mut piece);
        Ok(piece)
    }

    /// The connection broke. An error: before the answer's end. What a stream itself calls its end is one, also where
    /// the TLS session around it lacks its own.
    pub(crate) fn broke(&mut self, error: &io::Error) -> Result<Piece, ()> {
        let own_end = self.observer().is_some_and(Observer::ended);
        if own_end && error.kind() == io::ErrorKind::UnexpectedEof { self.end() } else { Err(()) }
    }

    /// False for an event stream of a known kind that lacks its own end.
    pub(crate) fn is_whole(&self, kind: StreamKind) -> bool {
        self.observer().is_none_or(|observer| kind == StreamKind::Other || observer.ended())
    }

    /// The bytes are coded: nothing can be put in or taken out.
    pub(crate) fn is_coded(&self) -> bool {
        matches!(self.watcher, Watcher::Coded(_))
    }

    /// The first events of a coded stream as text; the answer's own bytes where they are text already.
    pub(crate) fn opening<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match &self.watcher {
            Watcher::Coded(copy) => copy.opening(),
            Watcher::Stream(_) | Watcher::Whole(_) | Watcher::Opaque => bytes,
        }
    }

    pub(crate) fn observer(&self) -> Option<&Observer> {
        match self.seen() {
            Seen::Stream(observer) => Some(observer),
            Seen::Whole(_) | Seen::Nothing => None,
        }
    }

    pub(crate) fn usage(&self) -> Option<Usage> {
        match self.seen() {
            Seen::Stream(observer) => observer.usage(),
            Seen::Whole(scan) => scan.usage(),
            Seen::Nothing => None,
        }
    }

    pub(crate) fn finish_reason(&self) -> Option<&str> {
        match self.seen() {
            Seen::Stream(observer) => observer.finish_reason(),
            Seen::Whole(scan) => scan.finish_reason(),
            Seen::Nothing => None,
        }
    }

    /// Of the answers of `/v1/responses`: the id of the response.
    pub(crate) fn response_id(&self) -> Option<&str> {
        match self.seen() {
            Seen::Stream(observer) => observer.response_id(),
            Seen::Whole(scan) => scan.response_id(),
            Seen::Nothing => None,
        }
    }

    pub(crate) fn error_type(&self) -> Option<&str> {
        match self.seen() {
            Seen::Whole(scan) => scan.error_type(),
            Seen::Stream(_) | Seen::Nothing => None,
        }
    }

    fn seen(&self) -> Seen<'_> {
        match &self.watcher {
            Watcher::Stream(observer) => Seen::Stream(observer),
            Watcher::Whole(scan) => Seen::Whole(scan),
            Watcher::Coded(copy) => match &copy.reader {
                Reader::Stream(observer) => Seen::Stream(observer),
                Reader::Whole(scan) => Seen::Whole(scan),
            },
            Watcher::Opaque => Seen::Nothing,
        }
    }

    fn observe(&mut self, payload: &mut [u8]) -> Piece {
        match &mut self.watcher {
            Watcher::Stream(observer) => {
                let pass = observer.feed(payload);
                Piece {
                    held: pass.held,
                    keep: pass.keep,
                    first_content: pass.first_content,
                    ..Piece::default()
                }
            }
            Watcher::Whole(scan) => {
                scan.feed(payload);
                Piece { keep: payload.len(), ..Piece::default() }
            }
            Watcher::Coded(copy) => match copy.feed(payload) {
                Ok(first_content) => Piece { keep: payload.len(), first_content, ..Piece::default() },
                // What cannot be decoded is the client's to judge; nothing more is known of it here.
                Err(_) => {
                    self.watcher = Watcher::Opaque;
                    Piece { keep: payload.len(), ..Piece::default() }
                }
            },
            Watcher::Opaque => Piece { keep: payload.len(), ..Piece::default() },
        }
    }

    fn finish(&mut self, piece: &mut Piece) {
        piece.done = true;
        match &mut self.watcher {
            // What the observer still held back.
            Watcher::Stream(observer) => piece.tail = observer.finish(),
            Watcher::Coded(copy) => copy.finish(),
            Watcher::Whole(_) | Watcher::Opaque => {}
        }
    }
}
