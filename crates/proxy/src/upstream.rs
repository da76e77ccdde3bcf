//! Connections to replicas: each data-plane thread keeps its own idle ones.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use sluicegate_core::Time;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

/// Idle connections are kept shorter than engines keep theirs: vLLM and llama-server close after 5 s.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle connections kept per replica and thread.
const IDLE_PER_REPLICA: usize = 512;

thread_local! {
    static IDLE: RefCell<Vec<Vec<Idle>>> = const { RefCell::new(Vec::new()) };
}

struct Idle {
    stream: TcpStream,
    since: Time,
}

/// An open connection to a replica.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) stream: TcpStream,
    /// It has served a request before, so it may have been closed from the other side.
    pub(crate) reused: bool,
}

impl Upstream {
    /// Takes the most recently used idle connection that is still open.
    pub(crate) fn idle(slot: usize, now: Time) -> Option<Self> {
        loop {
            let idle = IDLE.with_borrow_mut(|pools| pools.get_mut(slot)?.pop())?;
            // Costs a system call only when the reactor has seen something (an end, or bytes nobody asked for).
            let quiet =
                matches!(idle.stream.try_read(&mut [0; 1]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
            if quiet && now.since(idle.since) < IDLE_MAX {
                return Some(Self { stream: idle.stream, reused: true });
            }
        }
    }

    /// Opens a new connection. The caller bounds the time.
    pub(crate) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, reused: false })
    }

    /// Keeps the connection for the next request to the same replica.
    pub(crate) fn keep(self, slot: usize, now: Time) {
        IDLE.with_borrow_mut(|pools| {
            if pools.len() <= slot {
                pools.resize_with(slot + 1, Vec::new);
            }
            if let Some(pool) = pools.get_mut(slot)
                && pool.len() < IDLE_PER_REPLICA
            {
                pool.push(Idle { stream: self.stream, since: now });
            }
        });
    }

    /// Reads into `buf`; 0 is the end.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        poll_read(&mut self.stream, cx, buf)
    }
}

/// Closes idle connections of this thread that have been idle for too long.
pub(crate) fn expire_idle(now: Time) {
    IDLE.with_borrow_mut(|pools| {
        for pool in pools.iter_mut() {
            // Oldest first: the list is a stack.
            let expired = pool.iter().take_while(|i| now.since(i.since) >= IDLE_MAX).count();
            pool.drain(..expired);
            if pool.is_empty() && pool.capacity() > 16 {
                pool.shrink_to_fit();
            }
        }
    });
}

/// Reads from `stream` into `buf` with readiness kept exact: a short read clears it without another system call.
pub(crate) fn poll_read(
    stream: &mut TcpStream,
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(buf);
    ready!(Pin::new(stream).poll_read(cx, &mut read))?;
    Poll::Ready(Ok(read.filled().len()))
}
