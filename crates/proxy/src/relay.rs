//! Relaying an answer whose first byte is on its way: bytes pass as they come, read into the thread's scratch buffer
//! and written from there, so that a stream that waits holds no buffer at all.

use std::borrow::Cow;
use std::future::poll_fn;
use std::io::IoSlice;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_core::{Failure, Time, Verdict};
use sluicegate_wire::{ClientFraming, chunk_head, error_event};

use crate::answer::Piece;
use crate::attempt::Exchange;
use crate::buffers::with_scratch;
use crate::client::Client;
use crate::clock;
use crate::record::Record;
use crate::usage::Outcome;

/// Time limits of one relay.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// End of the whole request's time.
    pub(crate) deadline: Time,
    /// Between bytes of a stream.
    pub(crate) silence: Duration,
    /// Without the client taking a byte.
    pub(crate) write_idle: Duration,
}

/// Why a relay stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Whole, and handed to the socket (or kept to be flushed).
    Done,
    /// The client takes no more for now.
    Full,
    Cut,
    ClientGone,
    Silence,
    Total,
    /// The client takes nothing for too long.
    ClientStalled,
}

struct Relay<'a> {
    client: &'a mut Client,
    exchange: Box<Exchange>,
    record: &'a mut Record,
    limits: Limits,
    last_byte: Time,
}

/// Relays to the end. True: the client's connection is in order for a further request.
pub(crate) async fn run(
    client: &mut Client,
    exchange: Box<Exchange>,
    record: &mut Record,
    limits: Limits,
) -> bool {
    let mut relay = Relay { client, exchange, record, limits, last_byte: clock::now() };
    let stop = relay.relay().await;
    relay.conclude(stop).await
}

impl Relay<'_> {
    async fn relay(&mut self) -> Stop {
        let first = self.begin();
        let mut rest = Vec::new();
        if self.client.write_or_keep(&[IoSlice::new(&first)], &mut rest).is_err() {
            return Stop::ClientGone;
        }
        drop(first);
        let mut done = self.exchange.done;
        loop {
            if !rest.is_empty()
                && let Some(stop) = self.flush(&mut rest).await
            {
                return stop;
            }
            if done {
                return Stop::Done;
            }
            self.arm();
            match poll_fn(|cx| self.poll_pass(cx, &mut rest)).await {
                Stop::Full => {}
                Stop::Done => done = true,
                stop => return stop,
            }
        }
    }

    /// The head and what came with it; from here on the client has seen something.
    fn begin(&mut self) -> Vec<u8> {
        let exchange = &mut self.exchange;
        self.record.status = Some(exchange.status);
        self.record.bytes_out += exchange.first_len as u64;
        if exchange.first_content {
            self.record.first_content(self.last_byte);
        }
        let first = std::mem::take(&mut exchange.first);
        if exchange.done {
            self.settle();
        }
        first
    }

    /// Passes reads on until there is nothing to read, the client takes no more, or the answer ends.
    fn poll_pass(&mut self, cx: &mut Context<'_>, rest: &mut Vec<u8>) -> Poll<Stop> {
        loop {
            let passed = with_scratch(|buf| {
                let read = self.exchange.upstream.poll_read(cx, buf);
                match read {
                    Poll::Pending => None,
                    Poll::Ready(Err(_)) => Some(Stop::Cut),
                    Poll::Ready(Ok(0)) => Some(match self.exchange.answer.end() {
                        Ok(piece) => self.pass(&[], piece, rest),
                        Err(()) => Stop::Cut,
                    }),
                    Poll::Ready(Ok(n)) => Some(match self.exchange.answer.absorb(&mut buf[..n]) {
                        Ok(piece) => self.pass(buf, piece, rest),
                        Err(_) => Stop::Cut,
                    }),
                }
            });
            match passed {
                // More may be there already.
                Some(Stop::Full) if rest.is_empty() => self.arm(),
                Some(stop) => return Poll::Ready(stop),
                None if self.client.poll_gone(cx) => return Poll::Ready(Stop::ClientGone),
                None => {
                    let now = clock::now();
                    if now >= self.limits.deadline {
                        return Poll::Ready(Stop::Total);
                    }
                    if self.exchange.event_stream && now >= self.last_byte + self.limits.silence {
                        return Poll::Ready(Stop::Silence);
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Writes one piece, framed for the client.
    fn pass(&mut self, buf: &[u8], piece: Piece, rest: &mut Vec<u8>) -> Stop {
        self.last_byte = clock::now();
        if self.exchange.event_stream {
            self.exchange.lease.replica().note_byte(self.last_byte);
        }
        if piece.first_content {
            self.record.first_content(self.last_byte);
        }
        self.record.bytes_out += piece.len() as u64;
        self.exchange.reusable &= !piece.surplus;
        if piece.done {
            if !self.exchange.answer.is_whole(self.exchange.kind) {
                // Orderly framing around an answer that lacks its end: cut all the same.
                let _ = self.write(buf, &piece, false, rest);
                return Stop::Cut;
            }
            // Before the last byte is written: the client's next request must find the place free.
            self.settle();
        }
        match self.write(buf, &piece, piece.done, rest) {
            Err(_) => Stop::ClientGone,
            Ok(()) if piece.done => Stop::Done,
            Ok(()) => Stop::Full,
        }
    }

    fn write(&self, buf: &[u8], piece: &Piece, last: bool, rest: &mut Vec<u8>) -> std::io::Result<()> {
        let keep = buf.get(..piece.keep).unwrap_or_default();
        if self.exchange.framing != ClientFraming::Chunked {
            let parts = [IoSlice::new(&piece.held), IoSlice::new(keep), IoSlice::new(&piece.tail)];
            return if piece.len() == 0 { Ok(()) } else { self.client.write_or_keep(&parts, rest) };
        }
        let mut size = [0; 18];
        let n = if piece.len() > 0 { chunk_head(piece.len(), &mut size) } else { 0 };
        let end: &[u8] = match (piece.len() > 0, last) {
            (true, true) => b"\r\n0\r\n\r\n",
            (true, false) => b"\r\n",
            (false, true) => b"0\r\n\r\n",
            (false, false) => return Ok(()),
        };
        let parts = [
            IoSlice::new(size.get(..n).unwrap_or_default()),
            IoSlice::new(&piece.held),
            IoSlice::new(keep),
            IoSlice::new(&piece.tail),
            IoSlice::new(end),
        ];
        self.client.write_or_keep(&parts, rest)
    }

    /// The client is slow: the replica is not read until it has taken what there is.
    async fn flush(&mut self, rest: &mut Vec<u8>) -> Option<Stop> {
        let mut stalled_at = clock::now() + self.limits.write_idle;
        self.client.timer.set(Some(stalled_at.min(self.limits.deadline)));
        let stop = poll_fn(|cx| {
            let mut progress = false;
            match self.client.poll_flush(cx, rest, &mut progress) {
                Poll::Ready(Ok(())) => return Poll::Ready(None),
                Poll::Ready(Err(_)) => return Poll::Ready(Some(Stop::ClientGone)),
                Poll::Pending => {}
            }
            if self.client.poll_gone(cx) {
                return Poll::Ready(Some(Stop::ClientGone));
            }
            let now = clock::now();
            if progress {
                stalled_at = now + self.limits.write_idle;
                self.client.timer.set(Some(stalled_at.min(self.limits.deadline)));
            }
            if now >= self.limits.deadline {
                Poll::Ready(Some(Stop::Total))
            } else if now >= stalled_at {
                Poll::Ready(Some(Stop::ClientStalled))
            } else {
                Poll::Pending
            }
        })
        .await;
        // The silence of a replica that was not read is not its own.
        self.last_byte = clock::now();
        stop
    }

    fn arm(&self) {
        let silent_at = self.last_byte + self.limits.silence;
        let deadline = self.limits.deadline;
        self.client.timer.set(Some(if self.exchange.event_stream {
            deadline.min(silent_at)
        } else {
            deadline
        }));
    }

    /// The replica's part is over, and whole: its verdict, its outcome, its connection.
    fn settle(&mut self) {
        let exchange = &mut self.exchange;
        let failed = exchange.answer.observer().and_then(|o| o.error());
        let aborted = exchange.answer.finish_reason() == Some("abort");
        let (verdict, outcome, error_type) = match failed {
            Some(e) => {
                let verdict = if e.code >= 500 {
                    Verdict::Failure(Failure::ErrorEvent(e.code))
                } else {
                    Verdict::Neutral
                };
                (verdict, Outcome::UpstreamAborted, Some(Cow::Owned(e.kind.clone())))
            }
            None if aborted => (Verdict::Neutral, Outcome::UpstreamAborted, Some(Cow::Borrowed("abort"))),
            None if exchange.status >= 400 => {
                let kind = exchange.answer.error_type().map(|t| Cow::Owned(t.to_owned()));
                (Verdict::Neutral, Outcome::ClientError, kind)
            }
            None => (Verdict::Success, Outcome::Ok, None),
        };
        self.record.ended(outcome, error_type);
        exchange.lease.settle(verdict);
    }

    /// Ends the relay on the client's side and writes down how it went.
    async fn conclude(mut self, stop: Stop) -> bool {
        let whole = stop == Stop::Done;
        match stop {
            Stop::Done | Stop::Full => {}
            Stop::Cut => {
                self.aborted(Verdict::Failure(Failure::Reset), Outcome::UpstreamAborted, "upstream_cut")
            }
            Stop::ClientGone => self.aborted(Verdict::Neutral, Outcome::ClientGone, "client_gone"),
            Stop::ClientStalled => self.aborted(Verdict::Neutral, Outcome::ClientGone, "client_stalled"),
            Stop::Silence => self.aborted(Verdict::Neutral, Outcome::TimeoutSilence, "timeout_silence"),
            Stop::Total => self.aborted(Verdict::Neutral, Outcome::TimeoutTotal, "timeout_total"),
        }
        let answer = &self.exchange.answer;
        self.record.finished(answer.finish_reason());
        self.record.events = answer.observer().map(|o| o.events());
        self.record.tokens(answer.usage(), answer.observer().map_or(0, |o| o.content_events()));
        if matches!(stop, Stop::Cut | Stop::Silence | Stop::Total) {
            self.tell_cut(stop).await;
        }
        let Exchange { upstream, lease, reusable, framing, .. } = *self.exchange;
        if whole && reusable {
            upstream.keep(lease.replica().slot, clock::now());
        }
        whole && framing != ClientFraming::Close
    }

    fn aborted(&mut self, verdict: Verdict, outcome: Outcome, why: &'static str) {
        // A stop after the answer was settled is the client's: the replica had done its part.
        if self.exchange.lease.settle(verdict) || outcome == Outcome::ClientGone {
            self.record.ended(outcome, Some(Cow::Borrowed(why)));
        }
    }

    /// An answer that broke off must not look whole: an error event, then an abnormal end.
    async fn tell_cut(&mut self, stop: Stop) {
        if self.exchange.framing == ClientFraming::Close && !self.exchange.event_stream {
            // Only a reset tells the end of the connection from the end of the answer.
            self.client.reset = true;
        }
        let Some(observer) = self.exchange.answer.observer() else { return };
        if !matches!(self.exchange.framing, ClientFraming::Chunked | ClientFraming::Close) || observer.ended()
        {
            return;
        }
        let (status, code, message) = match stop {
            Stop::Silence => {
                (504, "timeout_silence", "the replica sent nothing for too long (timeouts.stream_silence)")
            }
            Stop::Total => (504, "timeout_total", "the time limit of this route is over (timeouts.total)"),
            _ => (502, "upstream_aborted", "the replica ended the stream before its end"),
        };
        let mut event = Vec::new();
        if !observer.at_boundary() {
            event.extend_from_slice(b"\n\n");
        }
        event.extend_from_slice(&error_event(self.exchange.kind, status, code, message));
        let piece = Piece { held: event, ..Piece::default() };
        let mut rest = Vec::new();
        if self.write(&[], &piece, false, &mut rest).is_ok() && !rest.is_empty() {
            let _ = self.client.flush(rest, self.limits.write_idle).await;
        }
    }
}
