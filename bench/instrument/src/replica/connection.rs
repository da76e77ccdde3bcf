//! A connection of the replica: one request after another.

use anyhow::Result;
use mio::net::TcpStream;

use super::asked::Asked;
use crate::answers::Answers;
use crate::message::{Body, request};
use crate::socket::send;

/// What has just been read.
pub(super) enum Told {
    /// Nothing whole.
    Nothing,
    /// A request for anything but a completion.
    Page(String),
    Completion {
        /// Bytes of its body.
        received: usize,
    },
    Stream,
}

enum Reading {
    /// The head, as far as it is here.
    Head(Vec<u8>),
    Body(Body, Asked),
}

pub(super) struct Connection {
    pub(super) socket: TcpStream,
    reading: Reading,
    /// What the kernel has not taken yet.
    unsent: Vec<u8>,
    /// The stream that runs on this connection, or ran last; 0 before the first.
    pub(super) stream_id: u64,
    tokens_sent: u32,
    tokens: u32,
    usage: bool,
}

impl Connection {
    pub(super) fn new(socket: TcpStream) -> Self {
        Self {
            socket,
            reading: Reading::Head(Vec::new()),
            unsent: Vec::new(),
            stream_id: 0,
            tokens_sent: 0,
            tokens: 0,
            usage: false,
        }
    }

    /// Reads on: what it says, and how many bytes were used.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<(Told, usize)> {
        match &mut self.reading {
            Reading::Head(so_far) => {
                let before = so_far.len();
                so_far.extend_from_slice(input);
                let Some((head, length)) = request(so_far)? else { return Ok((Told::Nothing, input.len())) };
                let used = length.saturating_sub(before);
                if head.method != "POST" {
                    so_far.clear();
                    return Ok((Told::Page(head.path), used));
                }
                self.reading = Reading::Body(head.body, Asked::default());
                Ok((self.told(), used))
            }
            Reading::Body(body, asked) => {
                let used = body.read(input, |piece| asked.read(piece))?;
                Ok((self.told(), used))
            }
        }
    }

    /// The request, if its body is whole.
    fn told(&mut self) -> Told {
        let Reading::Body(body, asked) = &self.reading else { return Told::Nothing };
        if !body.is_done() {
            return Told::Nothing;
        }
        let received = asked.received;
        let told = if asked.stream() { Told::Stream } else { Told::Completion { received } };
        (self.tokens, self.tokens_sent, self.usage) = (asked.max_tokens(), 0, asked.usage());
        self.reading = Reading::Head(Vec::new());
        told
    }

    /// Sends the next token, the last one with all that follows it. Whether more will come.
    pub(super) fn token(&mut self, answers: &Answers) -> std::io::Result<bool> {
        self.tokens_sent += 1;
        let (first, last) = (self.tokens_sent == 1, self.tokens_sent >= self.tokens);
        if !first && !last {
            return self.send(&answers.token).map(|()| true);
        }
        let head: &[u8] = if first { &answers.stream_head } else { &[] };
        let tail = if last { answers.tail(self.usage) } else { Vec::new() };
        self.send(&[head, &answers.token, &tail].concat()).map(|()| !last)
    }

    /// Sends, or keeps what the kernel does not take. Errors: the connection is gone.
    pub(super) fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let taken = if self.unsent.is_empty() { send(&mut self.socket, bytes)? } else { 0 };
        self.unsent.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Sends what was kept.
    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        if !self.unsent.is_empty() {
            let taken = send(&mut self.socket, &self.unsent)?;
            self.unsent.drain(..taken);
        }
        Ok(())
    }
}
