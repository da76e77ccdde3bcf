//! A client that takes less than its replica gives.

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::{Relay, Stop};
use crate::buffers::Ahead;
use crate::clock;

impl Relay<'_> {
    /// Waits for the client to take what there is. Meanwhile the rest of the answer is taken off the replica as far as
    /// it may be kept: most answers end within that, and then the replica's place is free although the client still
    /// reads. Beyond it the client slows the replica down, which is at work for it, and keeps its place.
    pub(super) async fn flush(&mut self) -> Option<Stop> {
        let mut ahead = None;
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
            if self.over.is_none() && (ahead.is_some() || Ahead::take(&mut ahead)) {
                self.read_ahead(cx);
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

    /// Nothing is written, as something waits to be: what is read is put behind it.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        while self.rest.len() < Ahead::EACH {
            match self.poll_piece(cx) {
                None => return,
                Some(stop @ (Stop::Done | Stop::Cut)) => return self.replica_is_done(stop),
                // Appending cannot fail.
                Some(_) => {}
            }
        }
    }
}
