//! How a relay ends: for the replica, in the record, and on the client's side.

use std::borrow::Cow;

use sluicegate_core::{Failure, Verdict};
use sluicegate_wire::{ClientFraming, error_event};

use super::{Relay, Stop};
use crate::answer::Piece;
use crate::usage::Outcome;

impl Relay<'_> {
    /// Ends the relay on the client's side and writes down how it went.
    pub(super) async fn conclude(&mut self, stop: Stop) -> bool {
        self.concluded = true;
        let observer = self.shown.exchange.answer.observer();
        let ended = observer.is_some_and(|o| o.ended());
        let failed = observer.is_some_and(|o| o.error().is_some());
        match stop {
            Stop::Done | Stop::Cut | Stop::More => {}
            // Why it stopped is known already: the client only did not wait to be told.
            Stop::ClientGone | Stop::ClientStalled if self.over == Some(Stop::Cut) => {}
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
        // First of all the engine is to stop: whoever is told now may be slow to read it.
        self.shown.exchange.upstream = None;
        let told = !failed && !ended && self.tell(stop).await;
        // Where the end of the connection is the end of the answer, only a reset tells a cut from it.
        self.client.reset = self.shown.exchange.framing == ClientFraming::Close && !told && !failed;
        false
    }

    /// The replica has sent all that it will: its place is given back, whether or not the client has read everything.
    pub(super) fn replica_is_done(&mut self, how: Stop) {
        let failed = self.shown.exchange.answer.observer().is_some_and(|o| o.error().is_some());
        self.over = Some(how);
        match how {
            // The engine said itself what went wrong, and then closed.
            Stop::Cut if failed => self.settle(),
            Stop::Cut => {
                self.broke_off(Verdict::Failure(Failure::Reset), Outcome::UpstreamAborted, "upstream_cut");
            }
            // Settled before its last byte was written.
            _ => {}
        }
    }

    pub(super) fn broke_off(&mut self, verdict: Verdict, outcome: Outcome, why: &'static str) {
        self.record.ended(outcome, Some(Cow::Borrowed(why)));
        self.count(false);
        self.shown.lease.settle(verdict, Some(self.record.served(false)));
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
