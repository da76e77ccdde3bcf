//! Relaying an answer whose first byte is on its way: bytes pass as they come, read into the thread's scratch buffer
//! and written from there, so that a stream that waits holds no buffer at all.

mod estimate;

use std::borrow::Cow;
use std::future::poll_fn;
use std::io::IoSlice;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_core::{Failure, Time, Verdict};
use sluicegate_wire::{ClientFraming, chunk_head, error_event};

use crate::answer::Piece;
use crate::attempt::{Shown, reaches_the_engine};
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
        counted: false,
        concluded: false,
    };
    let stop = relay.relay().await;
    relay.conclude(stop).await
}

impl Relay<'_> {
    async fn relay(&mut self) -> Stop {
        let first = self.begin();
        let written = self.client.write_or_keep(&[IoSlice::new(&first)], &mut self.rest);
        drop(first);
        if written.is_err() {
            return Stop::ClientGone;
        }
        let mut done = self.shown.exchange.done;
        loop {
            if !self.rest.is_empty()
                && let Some(stop) = self.flush().await
            {
                return stop;
            }
            if done {
                return Stop::Done;
            }
            self.arm();
            match poll_fn(|cx| self.poll_pass(cx)).await {
                Stop::More => {}
                Stop::Done => done = true,
                stop => return stop,
            }
        }
    }

    /// The head and what came with it; from here on the client has seen something.
    fn begin(&mut self) -> Vec<u8> {
        let exchange = &mut self.shown.exchange;
        self.record.status = Some(exchange.status);
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
            let passed = with_scratch(|buf| {
                let read = match &mut self.shown.exchange.upstream {
                    Some(upstream) => upstream.poll_read(cx, buf),
                    None => return Some(Stop::Cut),
                };
                let answer = &mut self.shown.exchange.answer;
                let piece = match read {
                    Poll::Pending => return None,
                    Poll::Ready(Err(error)) => answer.broke(&error),
                    Poll::Ready(Ok(0)) => answer.end(),
                    Poll::Ready(Ok(n)) => answer.absorb(&mut buf[..n]).map_err(drop),
                };
                Some(piece.map_or(Stop::Cut, |piece| self.pass(buf, piece)))
            });
            match passed {
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
            return if piece.len() == 0 { Ok(()) } else { self.client.write_or_keep(&parts, &mut self.rest) };
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
        self.client.write_or_keep(&parts, &mut self.rest)
    }

    /// The client is slow: the replica is not read until it has taken what there is.
    async fn flush(&mut self) -> Option<Stop> {
        let mut stalled_at = clock::now() + self.limits.write_idle;
        self.client.timer.set(Some(stalled_at.min(self.limits.deadline)));
        let stop = poll_fn(|cx| {
            let mut progress = false;
            match self.client.poll_flush(cx, &mut self.rest, &mut progress) {
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
            if self.client.is_stopping() {
                Poll::Ready(Some(Stop::GatewayStopped))
            } else if now >= self.limits.deadline {
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
        self.shown.lease.settle(verdict, Some(self.record.used()));
        let exchange = &mut self.shown.exchange;
        if let Some(upstream) = exchange.upstream.take().filter(|_| exchange.reusable) {
            upstream.keep(self.shown.lease.replica().slot, clock::now());
        }
    }

    /// Ends the relay on the client's side and writes down how it went.
    async fn conclude(mut self, stop: Stop) -> bool {
        self.concluded = true;
        let observer = self.shown.exchange.answer.observer();
        let ended = observer.is_some_and(|o| o.ended());
        let failed = observer.is_some_and(|o| o.error().is_some());
        match stop {
            Stop::Done | Stop::More => {}
            // The engine said itself what went wrong, and then closed.
            Stop::Cut if failed => self.settle(),
            Stop::Cut => {
                self.broke_off(Verdict::Failure(Failure::Reset), Outcome::UpstreamAborted, "upstream_cut")
            }
            // It has read the stream's own end, and did not wait for the end of the framing.
            Stop::ClientGone if ended && self.rest.is_empty() => {
                self.shown.exchange.reusable = false;
                self.settle();
            }
            Stop::ClientGone => self.broke_off(Verdict::Neutral, Outcome::ClientGone, "client_gone"),
            Stop::ClientStalled => self.broke_off(Verdict::Neutral, Outcome::ClientGone, "client_stalled"),
            Stop::Silence => self.broke_off(Verdict::Neutral, Outcome::TimeoutSilence, "timeout_silence"),
            Stop::Total => self.broke_off(Verdict::Neutral, Outcome::TimeoutTotal, "timeout_total"),
            Stop::GatewayStopped => {
                self.broke_off(Verdict::Neutral, Outcome::GatewayStopped, "gateway_stopped");
            }
        }
        if stop == Stop::Done {
            return self.shown.exchange.framing != ClientFraming::Close;
        }
        let told = !failed && !ended && self.tell(stop).await;
        // Where the end of the connection is the end of the answer, only a reset tells a cut from it.
        self.client.reset = self.shown.exchange.framing == ClientFraming::Close && !told && !failed;
        false
    }

    fn broke_off(&mut self, verdict: Verdict, outcome: Outcome, why: &'static str) {
        self.record.ended(outcome, Some(Cow::Borrowed(why)));
        self.count(false);
        self.shown.lease.settle(verdict, Some(self.record.used()));
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

    /// Tells an event stream's client that the stream broke off: an error event before the abnormal end. False where
    /// that cannot be said, or would land inside of a chunk.
    async fn tell(&mut self, stop: Stop) -> bool {
        let (status, code, message) = match stop {
            Stop::Silence => {
                (504, "timeout_silence", "the replica sent nothing for too long (timeouts.stream_silence)")
            }
            Stop::Total => (504, "timeout_total", "the time limit of this route is over (timeouts.total)"),
            Stop::GatewayStopped => {
                (503, "gateway_stopped", "the gateway was stopped before the stream's end")
            }
            Stop::Cut => (502, "upstream_aborted", "the replica ended the stream before its end"),
            _ => return false,
        };
        let answer = &self.shown.exchange.answer;
        let Some(observer) = answer.observer().filter(|_| !answer.is_coded()) else { return false };
        if !self.rest.is_empty() {
            return false;
        }
        let mut event = Vec::new();
        if !observer.at_boundary() {
            event.extend_from_slice(b"\n\n");
        }
        event.extend_from_slice(&error_event(
            self.shown.exchange.endpoint.stream_kind(),
            status,
            code,
            message,
        ));
        let piece = Piece { held: event, ..Piece::default() };
        self.write(&[], &piece, false).is_ok() && (self.rest.is_empty() || self.flush().await.is_none())
    }
}
