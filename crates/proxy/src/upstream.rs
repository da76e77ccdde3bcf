//! Connections to replicas, plain or TLS: each data-plane thread keeps its own idle ones.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use sluicegate_core::Time;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::plan::ReplicaUrl;
use crate::pool::Replica;
use crate::tls;

/// Idle connections are kept shorter than engines keep theirs: vLLM and llama-server close after 5 s.
const IDLE_MAX: Duration = Duration::from_secs(4);
/// Idle connections kept per replica and thread.
const IDLE_PER_REPLICA: usize = 512;

thread_local! {
    /// In order of their slots.
    static IDLE: RefCell<Vec<Shelf>> = const { RefCell::new(Vec::new()) };
}

/// The idle connections to one replica.
struct Shelf {
    slot: usize,
    /// The replica's own: raised when it is gone for good, and this with it.
    gone: Arc<AtomicBool>,
    idle: Vec<Idle>,
}

/// As long as no replica was removed its slot is its place.
fn shelf(shelves: &mut [Shelf], slot: usize) -> Result<&mut Shelf, usize> {
    let place = match shelves.get(slot) {
        Some(shelf) if shelf.slot == slot => slot,
        _ => shelves.binary_search_by_key(&slot, |shelf| shelf.slot)?,
    };
    shelves.get_mut(place).ok_or(place)
}

struct Idle {
    stream: Stream,
    since: Time,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<Session>),
}

#[derive(Debug)]
struct Session {
    tls: TlsStream<TcpStream>,
    /// What has come before it was to be read.
    early: Vec<u8>,
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
            let mut idle = IDLE.with_borrow_mut(|shelves| shelf(shelves, slot).ok()?.idle.pop())?;
            if idle.stream.is_quiet() && now.since(idle.since) < IDLE_MAX {
                return Some(Self { stream: idle.stream, reused: true });
            }
        }
    }

    /// Opens a new connection to `url` at one of its addresses. The caller bounds the time.
    pub(crate) async fn connect(url: &ReplicaUrl, address: SocketAddr) -> io::Result<Self> {
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let stream = if url.tls {
            let tls = tls::connect(&url.host, tcp).await?;
            Stream::Tls(Box::new(Session { tls, early: Vec::new() }))
        } else {
            Stream::Plain(tcp)
        };
        Ok(Self { stream, reused: false })
    }

    /// Keeps the connection for the next request to the same replica.
    pub(crate) fn keep(self, replica: &Replica, now: Time) {
        if replica.gone.load(Ordering::Relaxed) {
            return;
        }
        let idle = Idle { stream: self.stream, since: now };
        IDLE.with_borrow_mut(|shelves| match shelf(shelves, replica.slot) {
            Ok(shelf) if shelf.idle.len() < IDLE_PER_REPLICA => shelf.idle.push(idle),
            Ok(_) => {}
            Err(place) => {
                let (slot, gone) = (replica.slot, Arc::clone(&replica.gone));
                shelves.insert(place, Shelf { slot, gone, idle: vec![idle] });
            }
        });
    }

    /// Reads into `buf`; 0 is the end. A TLS session whose connection ends without its goodbye fails with
    /// `UnexpectedEof`: anybody on the way can do that.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(tcp) => poll_read(tcp, cx, buf),
            Stream::Tls(session) => session.poll_read(cx, buf),
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
            Stream::Tls(session) => {
                let part = parts.iter().find(|p| !p.is_empty()).map_or(&[][..], |p| p);
                Pin::new(&mut session.tls).poll_write(cx, part)
            }
        }
    }

    /// Sends what a TLS session still holds.
    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(session) => Pin::new(&mut session.tls).poll_flush(cx),
        }
    }

    /// Something has come, or the other side has closed.
    pub(crate) fn poll_news(&mut self, cx: &mut Context<'_>) -> bool {
        match &mut self.stream {
            Stream::Plain(tcp) => tcp.poll_read_ready(cx).is_ready(),
            Stream::Tls(session) => session.poll_news(cx),
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
            Self::Tls(session) => {
                let mut cx = Context::from_waker(Waker::noop());
                session.poll_read(&mut cx, &mut [0; 1]).is_pending()
            }
        }
    }
}

impl Session {
    fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if self.early.is_empty() {
            return poll_read(&mut self.tls, cx, buf);
        }
        let n = self.early.len().min(buf.len());
        for (to, from) in buf.iter_mut().zip(self.early.drain(..n)) {
            *to = from;
        }
        if self.early.is_empty() {
            self.early = Vec::new();
        }
        Poll::Ready(Ok(n))
    }

    /// The socket's readiness says nothing: records of the session itself look the same as an answer.
    fn poll_news(&mut self, cx: &mut Context<'_>) -> bool {
        if self.early.is_empty() {
            let mut buf = [0; 1024];
            match poll_read(&mut self.tls, cx, &mut buf) {
                Poll::Ready(Ok(n)) => self.early.extend_from_slice(buf.get(..n).unwrap_or_default()),
                // It will say so again.
                Poll::Ready(Err(_)) => {}
                Poll::Pending => return false,
            }
        }
        true
    }
}

/// Where `url` may be, in a fixed order, so that a name with several addresses does not jump between them.
///
/// # Errors
/// The name cannot be looked up, or has no address.
pub(crate) async fn look_up(url: &ReplicaUrl) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = url.host.parse() {
        return Ok(vec![SocketAddr::new(ip, url.port)]);
    }
    let mut found: Vec<_> = tokio::net::lookup_host((&*url.host, url.port)).await?.collect();
    found.sort_unstable();
    found.dedup();
    if found.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(found) }
}

/// Closes idle connections of this thread that have been idle for too long, and those to replicas that are gone.
pub(crate) fn expire_idle(now: Time) {
    IDLE.with_borrow_mut(|shelves| {
        shelves.retain_mut(|Shelf { gone, idle, .. }| {
            // Oldest first: the list is a stack.
            let expired = idle.iter().take_while(|i| now.since(i.since) >= IDLE_MAX).count();
            idle.drain(..expired);
            if idle.is_empty() && idle.capacity() > 16 {
                idle.shrink_to_fit();
            }
            !gone.load(Ordering::Relaxed)
        });
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
