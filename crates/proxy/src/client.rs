//! The client's side of a connection: reading with what came early kept, writing all or keeping the rest, noticing
//! that the client has left.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use sluicegate_core::Time;
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::buffers::Body;
use crate::clock;
use crate::gateway::Gateway;
use crate::timer::Timer;
use crate::upstream::poll_read;

/// Bytes of further requests that are taken in while one is being answered. Beyond that the client waits.
const INBOX_MAX: usize = 16 * 1024;

/// A client connection.
#[derive(Debug)]
pub(crate) struct Client {
    gateway: Arc<Gateway>,
    pub(crate) stream: TcpStream,
    /// Received and not consumed yet: the rest of a read, or pipelined requests.
    pub(crate) inbox: Vec<u8>,
    pub(crate) timer: Timer,
    /// The client has shut down its sending side and is served all the same.
    half_closed: bool,
    /// Closing is to be a reset: an orderly end would pass for the end of the answer.
    pub(crate) reset: bool,
}

/// Why waiting for the client ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientEnd {
    /// It closed or reset the connection.
    Gone,
    /// The deadline of the connection's timer passed.
    Timeout,
    /// There is no memory for what it sends.
    NoMemory,
    /// The gateway ends.
    Stopped,
}

impl Client {
    pub(crate) async fn new(stream: TcpStream, gateway: Arc<Gateway>) -> Self {
        let timer = poll_fn(|cx| Poll::Ready(Timer::new(cx))).await;
        Self { gateway, stream, inbox: Vec::new(), timer, half_closed: false, reset: false }
    }

    /// Whatever is waited for on behalf of this client is not worth it any more: the gateway ends.
    pub(crate) fn is_stopping(&self) -> bool {
        self.gateway.is_stopping()
    }

    /// Reads what there is into `buf`; 0 is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        poll_read(&mut self.stream, cx, buf)
    }

    /// Drops the first `n` bytes of the inbox, and its memory when nothing is left.
    pub(crate) fn consume(&mut self, n: usize) {
        if n >= self.inbox.len() {
            self.inbox = Vec::new();
        } else {
            self.inbox.drain(..n);
        }
    }

    /// Fills `body` up to `length` bytes, giving up at `end` or when there is no progress for `idle`.
    pub(crate) async fn fill(
        &mut self,
        body: &mut Body,
        length: usize,
        idle: Duration,
        end: Time,
    ) -> Result<(), ClientEnd> {
        while body.len() < length {
            let deadline = (clock::now() + idle).min(end);
            self.timer.set(Some(deadline));
            let room = body.room(length).map_err(|_| ClientEnd::NoMemory)?;
            let n = poll_fn(|cx| match poll_read(&mut self.stream, cx, room) {
                Poll::Ready(Ok(n)) if n > 0 => Poll::Ready(Ok(n)),
                Poll::Ready(_) => Poll::Ready(Err(ClientEnd::Gone)),
                Poll::Pending if self.gateway.is_stopping() => Poll::Ready(Err(ClientEnd::Stopped)),
                Poll::Pending if clock::now() >= deadline => Poll::Ready(Err(ClientEnd::Timeout)),
                Poll::Pending => Poll::Pending,
            })
            .await?;
            body.filled(n);
        }
        Ok(())
    }

    /// True when the client has left. What it sends meanwhile is kept for later, bounded.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> bool {
        while !self.half_closed && self.inbox.len() < INBOX_MAX {
            if self.stream.poll_read_ready(cx).is_pending() {
                return false;
            }
            let mut buf = [0; 2048];
            match self.poll_read(cx, &mut buf) {
                Poll::Pending => return false,
                Poll::Ready(Ok(0)) if self.gateway.plan.listen.serve_half_closed => self.half_closed = true,
                Poll::Ready(Ok(0) | Err(_)) => return true,
                Poll::Ready(Ok(n)) => self.inbox.extend_from_slice(&buf[..n]),
            }
        }
        // Nothing more is read, so no read tells of its leaving: the socket's state is looked at every second.
        self.timer.watch();
        self.hung_up(cx)
    }

    fn hung_up(&self, cx: &mut Context<'_>) -> bool {
        let ready = pin!(self.stream.ready(Interest::READABLE));
        match ready.poll(cx) {
            Poll::Ready(Ok(ready)) if self.half_closed => ready.is_write_closed() || ready.is_error(),
            Poll::Ready(Ok(ready)) => ready.is_read_closed(),
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        }
    }

    /// No further request can come.
    pub(crate) fn is_half_closed(&self) -> bool {
        self.half_closed
    }

    /// Writes as much as the socket takes at once and appends the rest to `rest`.
    pub(crate) fn write_or_keep(&self, parts: &[IoSlice<'_>], rest: &mut Vec<u8>) -> io::Result<()> {
        let mut written = if rest.is_empty() {
            match self.stream.try_write_vectored(parts) {
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
                Err(e) => return Err(e),
            }
        } else {
            0
        };
        for part in parts {
            let skip = written.min(part.len());
            written -= skip;
            rest.extend_from_slice(&part[skip..]);
        }
        Ok(())
    }

    /// One step of writing `rest` out: ready when it is empty. `progress` says whether bytes went out.
    pub(crate) fn poll_flush(
        &self,
        cx: &mut Context<'_>,
        rest: &mut Vec<u8>,
        progress: &mut bool,
    ) -> Poll<io::Result<()>> {
        let mut done = 0;
        while done < rest.len() {
            match self.stream.try_write(&rest[done..]) {
                Ok(n) => {
                    done += n;
                    *progress = true;
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => match self.stream.poll_write_ready(cx) {
                    Poll::Ready(Ok(())) => {}
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                    Poll::Pending => {
                        rest.drain(..done);
                        return Poll::Pending;
                    }
                },
                Err(e) => return Poll::Ready(Err(e)),
            }
        }
        *rest = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Writes `rest` out, giving up when the client takes nothing for `idle`.
    pub(crate) async fn flush(&mut self, mut rest: Vec<u8>, idle: Duration) -> Result<(), ClientEnd> {
        let mut deadline = clock::now() + idle;
        self.timer.set(Some(deadline));
        poll_fn(|cx| {
            let mut progress = false;
            match self.poll_flush(cx, &mut rest, &mut progress) {
                Poll::Ready(r) => return Poll::Ready(r.map_err(|_| ClientEnd::Gone)),
                Poll::Pending if progress => {
                    deadline = clock::now() + idle;
                    self.timer.set(Some(deadline));
                }
                Poll::Pending => {}
            }
            self.stalled(cx, deadline)
        })
        .await
    }

    /// Writes `bytes` whole, giving up when the client takes nothing for `idle`.
    pub(crate) async fn write_all(&mut self, bytes: &[u8], idle: Duration) -> Result<(), ClientEnd> {
        let mut rest = Vec::new();
        self.write_or_keep(&[IoSlice::new(bytes)], &mut rest).map_err(|_| ClientEnd::Gone)?;
        if rest.is_empty() { Ok(()) } else { self.flush(rest, idle).await }
    }

    /// While bytes wait to be taken: has the client left, or the deadline passed?
    fn stalled(&mut self, cx: &mut Context<'_>, deadline: Time) -> Poll<Result<(), ClientEnd>> {
        if self.poll_gone(cx) {
            return Poll::Ready(Err(ClientEnd::Gone));
        }
        if clock::now() >= deadline {
            return Poll::Ready(Err(ClientEnd::Timeout));
        }
        Poll::Pending
    }
}
