//! A connection of the load: sends a request, reads the answer, compares it with what the replica said.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use memchr::memchr_iter;
use mio::net::TcpStream;

use super::request::Request;
use crate::message::{Body, answer};
use crate::socket::send;

/// How far the answer is.
pub(super) enum Progress {
    Underway,
    Answered(Answered),
}

/// A whole answer.
pub(super) struct Answered {
    pub(super) took: Duration,
    pub(super) first: Duration,
    /// The body is, byte for byte, what the replica sent.
    pub(super) verbatim: bool,
    pub(super) closes: bool,
}

enum Reading {
    /// The head, as far as it is here.
    Head(Vec<u8>),
    Body {
        body: Body,
        found: Found,
        first: Duration,
        closes: bool,
    },
}

/// What has been found of a body so far.
struct Found {
    length: usize,
    verbatim: bool,
    events: u32,
    /// The last byte ended a line, so that one more ends an event.
    line_ended: bool,
}

pub(super) struct Connection {
    pub(super) socket: TcpStream,
    /// Place of its request in the list.
    request: usize,
    sent: usize,
    reading: Reading,
    begun: Instant,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, request: usize, now: Instant) -> Self {
        Self { socket, request, sent: 0, reading: Reading::Head(Vec::new()), begun: now }
    }

    /// The next request begins.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.sent, self.begun) = (0, now);
    }

    /// Sends what the kernel takes.
    pub(super) fn write(&mut self, requests: &[Request]) -> Result<()> {
        let rest = &requests[self.request].bytes[self.sent..];
        if !rest.is_empty() {
            self.sent += send(&mut self.socket, rest)?;
        }
        Ok(())
    }

    /// Reads on: how far it is, and how many tokens were in the bytes. Errors: the answer is not what it must be.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        requests: &[Request],
        now: Instant,
    ) -> Result<(Progress, u32)> {
        let request = &requests[self.request];
        let mut owned = Vec::new();
        let mut input = input;
        if let Reading::Head(so_far) = &mut self.reading {
            so_far.extend_from_slice(input);
            let Some((head, length)) = answer(so_far)? else { return Ok((Progress::Underway, 0)) };
            ensure!(head.status == 200, "status {}: {}", head.status, text(&so_far[length..]));
            owned = so_far.split_off(length);
            input = &owned;
            let found = Found { length: 0, verbatim: true, events: 0, line_ended: false };
            let first = now.duration_since(self.begun);
            self.reading = Reading::Body { body: head.body, found, first, closes: head.closes };
        }
        let Reading::Body { body, found, first, closes } = &mut self.reading else { bail!("no body") };
        let before = found.tokens(request);
        let used = body.read(input, |piece| found.read(piece, request))?;
        ensure!(used == input.len(), "bytes behind the end of an answer: {}", text(&input[used..]));
        let tokens = found.tokens(request) - before;
        if !body.is_done() {
            return Ok((Progress::Underway, tokens));
        }
        found.check(request)?;
        ensure!(self.sent == request.bytes.len(), "an answer before the request was whole");
        let took = now.duration_since(self.begun);
        let verbatim = found.verbatim && found.length == request.expected.len();
        let answered = Answered { took, first: *first, verbatim, closes: *closes };
        owned.clear();
        self.reading = Reading::Head(owned);
        Ok((Progress::Answered(answered), tokens))
    }
}

impl Found {
    fn read(&mut self, piece: &[u8], request: &Request) {
        let expected = request.expected.get(self.length..self.length + piece.len());
        self.verbatim &= expected == Some(piece);
        self.length += piece.len();
        if request.tokens == 0 {
            return;
        }
        // An event ends with an empty line.
        let mut line_ended_at = self.line_ended.then_some(0);
        for at in memchr_iter(b'\n', piece) {
            let ends = line_ended_at == Some(at);
            self.events += u32::from(ends);
            line_ended_at = (!ends).then_some(at + 1);
        }
        self.line_ended = line_ended_at == Some(piece.len());
    }

    fn tokens(&self, request: &Request) -> u32 {
        self.events.min(request.tokens)
    }

    /// Errors: something is missing. A stream has an event for each token, one for its end and `[DONE]`.
    fn check(&self, request: &Request) -> Result<()> {
        if request.tokens > 0 {
            let wanted = request.tokens + 2;
            ensure!(self.events >= wanted, "a stream of {} events, not {wanted}", self.events);
        } else {
            ensure!(self.length > 100, "an answer of {} bytes", self.length);
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Found, Request};
    use crate::answers::stream_body;

    #[test]
    fn events_are_counted_however_the_stream_is_cut() {
        let expected = stream_body(5);
        let request = Request { bytes: Vec::new(), tokens: 5, expected: expected.clone() };
        for size in [1, 2, 7, 300, 10_000] {
            let mut found = Found { length: 0, verbatim: true, events: 0, line_ended: false };
            expected.chunks(size).for_each(|piece| found.read(piece, &request));
            assert_eq!((found.events, found.verbatim), (7, true), "pieces of {size}");
            assert!(found.check(&request).is_ok());
        }
    }

    #[test]
    fn a_stream_without_its_end_is_found_out() {
        let expected = stream_body(5);
        let request = Request { bytes: Vec::new(), tokens: 5, expected: expected.clone() };
        let mut found = Found { length: 0, verbatim: true, events: 0, line_ended: false };
        found.read(&expected[..expected.len() - 20], &request);
        assert!(found.check(&request).is_err());
    }
}
