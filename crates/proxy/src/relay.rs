//! Relaying an answer whose first byte is on its way: bytes pass as they come, read into the thread's scratch buffer
//! and written from there, so that a stream that waits holds no buffer at all.

mod ending;
mod estimate;
mod slow;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::future::poll_fn;
use std::io::IoSlice;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_core::{Failure, Time, Verdict};
use sluicegate_wire::{ClientFraming, chunk_head};

use crate::answer::Piece;
use crate::attempt::{Shown, reaches_the_engine};
use crate::batch::others_first;
use crate::buffers::with_scratch;
use crate::client::Client;
use crate::clock;
use crate::record::Record;
use crate::usage::Outcome;

/// Largest piece, in bytes, that waits for a batch.
const BATCHED: usize = 4096;

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
    /// Not at the end yet: more to read, or a client that has to be waited for.
    More,
    Cut,
    ClientGone,
    Silence,
    Total,
    /// The client takes nothing for too long.
    ClientStalled,
    GatewayStopped,
}

struct Relay<'a> {
    client: &'a mut Client,
    shown: Box<Shown>,
    record: &'a mut Record,
    limits: Limits,
    last_byte: Time,
    /// Handed to the client's socket and not taken by it yet. Nothing may be written before it.
    rest: Vec<u8>,
    /// The replica's part is over: whole, or cut. Its place is free already, and `rest` is still the client's.
    over: Option<Stop>,
    /// What was generated has been written down.
    counted: bool,
    /// How it went has been written down.
    concluded: bool,
}

impl Drop for Relay<'_> {
    /// The task was dropped in the middle of a relay: the gateway's end, or a panic.
    fn drop(&mut self) {
        if !self.concluded {
            self.broke_off(Verdict::Neutral, Outcome::GatewayStopped, "gateway_stopped");
        }
    }
}

/// Relays to the end. True: the client's connection is in order for a further request.
pub(crate) async fn run(client: &mut Client, shown: Box<Shown>, record: &mut Record, limits: Limits) -> bool {
    let last_byte = clock::now();
    let mut relay = Relay {
        client,
        shown,
        record,
        limits,
        last_byte,
        rest: Vec::new(),
        over: None,
        counted: false,
        concluded: false,
    };
    let stop = relay.relay().await;
    relay.conclude(stop).await
}

impl Relay<'_> {
    async fn relay(&mut self) -> Stop {
        self.rest = self.begin();
        self.over = self.shown.exchange.done.then_some(Stop::Done);
        loop {
            if !self.rest.is_empty()
                && let Some(stop) = self.write_rest().await
            {
                return stop;
            }
            if let Some(stop) = self.over {
                return stop;
            }
            self.arm();
            match poll_fn(|cx| self.poll_pass(cx)).await {
                Stop::More => {}
                stop @ (Stop::Done | Stop::Cut) => self.replica_is_done(stop),
                stop => return stop,
            }
        }
    }

    /// The head and what came with it.
    fn begin(&mut self) -> Vec<u8> {
        let exchange = &mut self.shown.exchange;
        // A stream's first event names the response: it may be asked for, or cancelled, while it is being made.
        self.record.note_response(exchange);
        self.record.bytes_out += exchange.first_len as u64;
        if exchange.first_content {
            self.record.first_content(self.last_byte);
        }
        let first = std::mem::take(&mut exchange.first);
        if exchange.done {
            self.settle();
        } else {
            self.count_early();
        }
        first
    }

    /// Passes reads on until there is nothing to read, the client takes no more, or the answer ends.
    fn poll_pass(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        loop {
            match self.poll_piece(cx) {
                // More may be there already.
                Some(Stop::More) if self.rest.is_empty() => self.arm(),
                Some(stop) => return Poll::Ready(stop),
                None if self.client.poll_gone(cx) => return Poll::Ready(Stop::ClientGone),
                None => {
                    let now = clock::now();
                    if self.client.is_stopping() {
                        return Poll::Ready(Stop::GatewayStopped);
                    }
                    if now >= self.limits.deadline {
                        return Poll::Ready(Stop::Total);
                    }
                    if self.shown.exchange.event_stream && now >= self.last_byte + self.limits.silence {
                        return Poll::Ready(Stop::Silence);
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// One read, passed on. None: there is nothing to read.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Option<Stop> {
        with_scratch(|buf| {
            let read = match &mut self.shown.exchange.upstream {
                Some(upstream) => upstream.poll_read(cx, buf),
                None => return Some(Stop::Cut),
            };
            match read {
                Poll::Pending => None,
                Poll::Ready(Err(error)) => Some(match self.shown.exchange.answer.broke(&error) {
                    Ok(piece) => self.pass(&[], piece),
                    Err(_) => Stop::Cut,
                }),
                Poll::Ready(Ok(0)) => Some(match self.shown.exchange.answer.end() {
                    Ok(piece) => self.pass(&[], piece),
                    Err(()) => Stop::Cut,
                }),
                Poll::Ready(Ok(n)) => Some(match self.shown.exchange.answer.absorb(&mut buf[..n]) {
                    Ok(piece) => self.pass(buf, piece),
                    Err(_) => Stop::Cut,
                }),
            }
        })
    }

    /// Writes one piece, framed for the client.
    fn pass(&mut self, buf: &[u8], piece: Piece) -> Stop {
        self.last_byte = clock::now();
        if self.shown.exchange.event_stream {
            self.shown.lease.replica().note_byte(self.last_byte);
        }
        if piece.first_content {
            self.record.first_content(self.last_byte);
        }
        self.record.bytes_out += piece.len() as u64;
        self.shown.exchange.reusable &= !piece.surplus;
        self.count_early();
        let whole =
            piece.done && self.shown.exchange.answer.is_whole(self.shown.exchange.endpoint.stream_kind());
        if whole {
            // Before the last byte is written: the client's next request must find the place free.
            self.settle();
        }
        match self.write(buf, &piece, whole) {
            Err(_) => Stop::ClientGone,
            Ok(()) if whole => Stop::Done,
            // Orderly framing around an answer that lacks its end: cut all the same.
            Ok(()) if piece.done => Stop::Cut,
            Ok(()) => Stop::More,
        }
    }

    fn write(&mut self, buf: &[u8], piece: &Piece, last: bool) -> std::io::Result<()> {
        let keep = buf.get(..piece.keep).unwrap_or_default();
        if self.shown.exchange.framing != ClientFraming::Chunked {
            let parts = [IoSlice::new(&piece.held), IoSlice::new(keep), IoSlice::new(&piece.tail)];
            return if piece.len() == 0 { Ok(()) } else { self.write_parts(&parts) };
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
        self.write_parts(&parts)
    }

    /// Small ones are gathered for a [batch](crate::batch), others written at once: they cost more to copy than to wake
    /// somebody for.
    fn write_parts(&mut self, parts: &[IoSlice<'_>]) -> std::io::Result<()> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if len > BATCHED {
            return self.client.write_or_keep(parts, &mut self.rest);
        }
        self.rest.reserve(len);
        parts.iter().for_each(|part| self.rest.extend_from_slice(part));
        Ok(())
    }

    /// Writes what has been gathered, in one batch with others, and waits where the client does not take it at once.
    async fn write_rest(&mut self) -> Option<Stop> {
        others_first().await;
        let rest = std::mem::take(&mut self.rest);
        if self.client.write_or_keep(&[IoSlice::new(&rest)], &mut self.rest).is_err() {
            return Some(Stop::ClientGone);
        }
        // Not before: a client that left ahead of the first write was told nothing.
        self.record.status = Some(self.shown.exchange.status);
        if self.rest.is_empty() { None } else { self.flush().await }
    }

    fn arm(&self) {
        let silent_at = self.last_byte + self.limits.silence;
        let deadline = self.limits.deadline;
        self.client.timer.set(Some(if self.shown.exchange.event_stream {
            deadline.min(silent_at)
        } else {
            deadline
        }));
    }

    /// The replica's part is over, and whole: its verdict, its outcome, its connection.
    fn settle(&mut self) {
        let exchange = &mut self.shown.exchange;
        let error = exchange.answer.observer().and_then(|o| o.error());
        let (verdict, outcome, error_type) = match error {
            Some(e) => {
                let failure = Verdict::Failure(Failure::ErrorEvent(e.code));
                let verdict = if e.code >= 500 { failure } else { Verdict::Neutral };
                (verdict, Outcome::UpstreamAborted, Some(Cow::Owned(e.kind.clone())))
            }
            None if exchange.answer.finish_reason() == Some("abort") => {
                (Verdict::Neutral, Outcome::UpstreamAborted, Some(Cow::Borrowed("abort")))
            }
            None if exchange.status >= 400 => {
                let kind = exchange.answer.error_type().map(|t| Cow::Owned(t.to_owned()));
                (Verdict::Neutral, Outcome::ClientError, kind)
            }
            None if !reaches_the_engine(exchange.endpoint) => (Verdict::Neutral, Outcome::Ok, None),
            None => (Verdict::Success, Outcome::Ok, None),
        };
        self.record.ended(outcome, error_type);
        self.count(true);
        self.shown.lease.settle(verdict, Some(self.record.served(verdict == Verdict::Success)));
        let exchange = &mut self.shown.exchange;
        if let Some(upstream) = exchange.upstream.take().filter(|_| exchange.reusable) {
            upstream.keep(self.shown.lease.replica(), clock::now());
        }
    }

    /// A stream's own end is known: its key is free before the client, which may not wait for the end of the framing,
    /// can ask again. The replica's verdict waits for that end.
    fn count_early(&mut self) {
        if self.shown.exchange.answer.observer().is_some_and(|o| o.ended()) {
            self.count(true);
        }
    }

    /// Writes down what was generated and settles the key with it: the engine's own counts, else an estimate.
    fn count(&mut self, whole: bool) {
        if std::mem::replace(&mut self.counted, true) {
            return;
        }
        let exchange = &self.shown.exchange;
        self.record.note_response(exchange);
        let answer = &exchange.answer;
        self.record.finished(answer.finish_reason());
        self.record.events = answer.observer().map(|o| o.events());
        let generated = estimate::generated(exchange, self.record.bytes_out, whole);
        let whole = answer.observer().map_or(whole, |o| o.ended());
        self.record.tokens(answer.usage(), generated, whole);
    }
}
