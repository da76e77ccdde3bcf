//! Connections to replicas, plain or TLS: each data-plane thread keeps its own idle ones.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use sluicegate_core::Time;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::plan::ReplicaUrl;
use crate::tls;

/// Idle connections are kept shorter than engines keep theirs: vLLM and llama-server close after 5 s.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle connections kept per replica and thread.
const IDLE_PER_REPLICA: usize = 512;

thread_local! {
    static IDLE: RefCell<Vec<Vec<Idle>>> = const { RefCell::new(Vec::new()) };
}

struct Idle {
    stream: Stream,
    since: Time,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// An open connection to a replica.
#[derive(Debug)]
pub(crate) struct Upstream {
    stream: Stream,
    /// It has served a request before, so it may have been closed from the other side.
    pub(crate) reused: bool,
}

impl Upstream {
    /// Takes the most recently used idle connection that is still open.
    pub(crate) fn idle(slot: usize, now: Time) -> Option<Self> {
        loop {
            let mut idle = IDLE.with_borrow_mut(|pools| pools.get_mut(slot)?.pop())?;
            if idle.stream.is_quiet() && now.since(idle.since) < IDLE_MAX {
                return Some(Self { stream: idle.stream, reused: true });
            }
        }
    }

    /// Opens a new connection to `url` at `address`, looked up here only if it has never been before. The caller
    /// bounds the time.
    pub(crate) async fn connect(url: &ReplicaUrl, address: Option<SocketAddr>) -> io::Result<Self> {
        let address = match address {
            Some(address) => address,
            None => tokio::net::lookup_host((&*url.host, url.port))
                .await?
                .min()
                .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?,
        };
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let stream = if url.tls {
            Stream::Tls(Box::new(tls::connect(&url.host, tcp).await?))
        } else {
            Stream::Plain(tcp)
        };
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
        match &mut self.stream {
            Stream::Plain(tcp) => poll_read(tcp, cx, buf),
            Stream::Tls(tls) => match ready!(poll_read(&mut **tls, cx, buf)) {
                // Without a TLS goodbye: the framing of the answer tells whether it is whole.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(0)),
                read => Poll::Ready(read),
            },
        }
    }

    /// Writes some of `parts`; pending only when the socket takes nothing.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            // Not through `poll_write_vectored`: what the socket has room for is known without asking the reactor.
            Stream::Plain(tcp) => loop {
                match tcp.try_write_vectored(parts) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready!(tcp.poll_write_ready(cx))?,
                    written => return Poll::Ready(written),
                }
            },
            Stream::Tls(tls) => {
                let part = parts.iter().find(|p| !p.is_empty()).map_or(&[][..], |p| p);
                Pin::new(&mut **tls).poll_write(cx, part)
            }
        }
    }

    /// Sends what a TLS session still holds.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(tls) => Pin::new(&mut **tls).poll_flush(cx),
        }
    }

    /// Something has come, or the other side has closed.
    pub(crate) fn poll_news(&self, cx: &mut Context<'_>) -> bool {
        match &self.stream {
            Stream::Plain(tcp) => tcp.poll_read_ready(cx).is_ready(),
            // Records of the session itself look the same: an early answer is found when the send fails.
            Stream::Tls(_) => false,
        }
    }
}

impl Stream {
    /// Nothing has come that nobody asked for, and the other side has not closed. Costs a system call only when the
    /// reactor has seen something.
    fn is_quiet(&mut self) -> bool {
        match self {
            Self::Plain(tcp) => {
                matches!(tcp.try_read(&mut [0; 1]), Err(e) if e.kind() == io::ErrorKind::WouldBlock)
            }
            // Session tickets are taken in by the session; anything else ends its use: bytes that nobody asked for
            // would be the answer to the next request.
            Self::Tls(tls) => {
                let mut cx = Context::from_waker(Waker::noop());
                poll_read(&mut **tls, &mut cx, &mut [0; 1]).is_pending()
            }
        }
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

/// Reads from `stream` into `buf`, with a plain socket's readiness kept exact: a short read clears it without another
/// system call.
pub(crate) fn poll_read(
    stream: &mut (impl AsyncRead + Unpin),
    cx: &mut Context<'_>,
    buf: &mut [u8],
) -> Poll<io::Result<usize>> {
    let mut read = ReadBuf::new(buf);
    ready!(Pin::new(stream).poll_read(cx, &mut read))?;
    Poll::Ready(Ok(read.filled().len()))
}
