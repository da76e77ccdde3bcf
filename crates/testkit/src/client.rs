//! A client that sends and reads raw bytes.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use tokio::net::{TcpSocket, TcpStream};

use crate::connection::Connection;
use crate::gate::patiently;
use crate::message::Head;

/// How an answer's body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// As its framing says: all of its length, its last chunk, or the orderly close that its head announced.
    Whole,
    /// The connection was closed in good order before the framing's end.
    Cut,
    /// The connection was reset.
    Reset,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its head.
    pub head: Head,
    /// Its body, framing removed.
    pub body: Vec<u8>,
    /// Sizes of its chunks, where it came in chunks (the last one, of size 0, left out).
    pub chunks: Vec<u64>,
    /// How it ended.
    pub end: End,
}

impl Answer {
    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// It is none.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {:?}", self.text()))
    }
}

/// What is left of the current answer's body.
#[derive(Debug)]
enum Left {
    Nothing,
    Length(u64),
    /// `started`: a chunk's data was read, so its line end comes first.
    Chunk {
        left: u64,
        started: bool,
    },
    UntilClose,
}

/// A raw HTTP/1.1 client on one connection. Every wait is bounded by [`crate::PATIENCE`].
#[derive(Debug)]
pub struct RawClient {
    connection: Connection,
    left: Left,
    chunks: Vec<u64>,
    pending: Vec<u8>,
}

impl RawClient {
    /// Connects.
    ///
    /// # Panics
    /// Nobody listens there.
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = patiently(TcpStream::connect(address)).await.expect("the gateway accepts");
        Self::over(stream)
    }

    /// Connects with a receive buffer of a few KiB: the peer's own buffer fills as soon as this client is slow.
    ///
    /// # Panics
    /// Nobody listens there.
    pub async fn connect_narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("SO_RCVBUF");
        let stream = patiently(socket.connect(address)).await.expect("the gateway accepts");
        Self::over(stream)
    }

    fn over(stream: TcpStream) -> Self {
        Self {
            connection: Connection::new(stream),
            left: Left::Nothing,
            chunks: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Sends all of `bytes`.
    ///
    /// # Panics
    /// The peer does not take them.
    #[track_caller]
    pub fn send<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = ()> + 'a {
        let sent = patiently(self.connection.write(bytes));
        async move { sent.await.expect("the peer takes the bytes") }
    }

    /// Sends what the peer takes; an error where it closed before all of it was taken.
    #[track_caller]
    pub fn try_send<'a>(&'a mut self, bytes: &'a [u8]) -> impl Future<Output = io::Result<()>> + 'a {
        patiently(self.connection.write(bytes))
    }

    /// Sends `bytes` in writes of `size`, letting everything else run in between.
    #[track_caller]
    pub fn send_in_pieces<'a>(&'a mut self, bytes: &'a [u8], size: usize) -> impl Future<Output = ()> + 'a {
        let sent = patiently(async move {
            for piece in bytes.chunks(size) {
                self.connection.write(piece).await?;
                tokio::task::yield_now().await;
            }
            io::Result::Ok(())
        });
        async move { sent.await.expect("the peer takes the bytes") }
    }

    /// The next head; None where the peer closed or reset instead.
    #[track_caller]
    pub fn maybe_head(&mut self) -> impl Future<Output = Option<Head>> + '_ {
        patiently(async move {
            let head = self.connection.head().await.ok().flatten()?;
            self.left = left_after(&head);
            self.chunks.clear();
            self.pending.clear();
            Some(head)
        })
    }

    /// The next head.
    ///
    /// # Panics
    /// The peer closed instead.
    #[track_caller]
    pub fn head(&mut self) -> impl Future<Output = Head> + '_ {
        let head = self.maybe_head();
        async move { head.await.expect("an answer head") }
    }

    /// The next piece of the body as it comes, never more than one chunk; `Ok(None)` at its end.
    ///
    /// # Errors
    /// [`End::Cut`] or [`End::Reset`] where the body ends before its framing does.
    #[track_caller]
    pub fn piece(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>, End>> + '_ {
        patiently(async move {
            if !self.pending.is_empty() {
                return Ok(Some(std::mem::take(&mut self.pending)));
            }
            self.next_piece().await.map_err(|e| match e.kind() {
                ErrorKind::UnexpectedEof => End::Cut,
                ErrorKind::InvalidData => panic!("broken framing: {e}"),
                _ => End::Reset,
            })
        })
    }

    /// Reads the body until at least `n` bytes of it are there, and returns all that came.
    ///
    /// # Panics
    /// It ends before.
    #[track_caller]
    pub fn at_least(&mut self, n: usize) -> impl Future<Output = Vec<u8>> + '_ {
        patiently(async move {
            let mut out = Vec::new();
            while out.len() < n {
                let piece = self.piece().await.expect("more of the body");
                out.extend(piece.unwrap_or_else(|| panic!("{} bytes, not {n}", out.len())));
            }
            out
        })
    }

    /// The next event or comment of a stream, its blank line included.
    ///
    /// # Panics
    /// The stream ends before.
    #[track_caller]
    pub fn event(&mut self) -> impl Future<Output = Vec<u8>> + '_ {
        patiently(async move {
            let mut out = Vec::new();
            loop {
                let Ok(Some(piece)) = self.piece().await else {
                    panic!("the stream ended after {:?}", String::from_utf8_lossy(&out))
                };
                let before = out.len();
                out.extend(piece);
                if let Some(end) = event_end(&out, before) {
                    self.pending = out.split_off(end);
                    return out;
                }
            }
        })
    }

    /// The rest of the body, and how it ended.
    #[track_caller]
    pub fn rest(&mut self) -> impl Future<Output = (Vec<u8>, End)> + '_ {
        patiently(async move {
            let mut out = Vec::new();
            loop {
                match self.piece().await {
                    Ok(Some(piece)) => out.extend(piece),
                    Ok(None) => return (out, End::Whole),
                    Err(end) => return (out, end),
                }
            }
        })
    }

    /// The rest of an answer whose head was read.
    #[track_caller]
    pub fn rest_of(&mut self, head: Head) -> impl Future<Output = Answer> + '_ {
        patiently(async move {
            let (body, end) = self.rest().await;
            Answer { head, body, chunks: self.chunks.clone(), end }
        })
    }

    /// A whole answer.
    ///
    /// # Panics
    /// The peer closes before its head is there.
    #[track_caller]
    pub fn answer(&mut self) -> impl Future<Output = Answer> + '_ {
        patiently(async move {
            let head = self.head().await;
            self.rest_of(head).await
        })
    }

    /// Sends a whole request and reads the whole answer, both at once as far as the peer allows: a refusal that comes
    /// before the request was taken is read all the same.
    #[track_caller]
    pub fn exchange<'a>(&'a mut self, request: &'a [u8]) -> impl Future<Output = Answer> + 'a {
        patiently(async move {
            // A failed write shows in the answer that is, or is not, there.
            let _ = self.connection.write(request).await;
            self.answer().await
        })
    }

    /// Waits until the peer has closed, and says how. Bytes that still come are thrown away.
    #[track_caller]
    pub fn closed(&mut self) -> impl Future<Output = End> + '_ {
        patiently(async move {
            loop {
                match self.connection.fill().await {
                    Ok(0) => return End::Cut,
                    Ok(_) => {}
                    Err(_) => return End::Reset,
                }
            }
        })
    }

    /// True where nothing of the peer waits to be read at this moment (but the line end of a chunk already read).
    #[must_use]
    pub fn nothing_came(&self) -> bool {
        let mut byte = [0];
        let peeked = self.connection.stream().try_read(&mut byte);
        let chunk_end = if matches!(self.left, Left::Chunk { left: 0, started: true }) { 2 } else { 0 };
        self.pending.is_empty()
            && self.connection.unread() <= chunk_end
            && matches!(peeked, Err(e) if e.kind() == ErrorKind::WouldBlock)
    }

    /// Ends the sending side and keeps reading.
    ///
    /// # Panics
    /// The peer has reset the connection.
    pub async fn half_close(&mut self) {
        self.connection.half_close().await.expect("an open connection");
    }

    /// Closes in good order.
    pub async fn close(mut self) {
        // The peer may have closed first: that is closed too.
        let _ = self.connection.half_close().await;
    }

    /// Closes with a reset.
    pub fn reset(self) {
        let _ = self.connection.reset_on_drop();
    }

    async fn next_piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        match &mut self.left {
            Left::Nothing => Ok(None),
            Left::Length(0) => {
                self.left = Left::Nothing;
                Ok(None)
            }
            Left::Length(left) => {
                let piece = self.connection.some(*left).await?;
                *left -= piece.len() as u64;
                Ok(Some(piece))
            }
            Left::UntilClose => match self.connection.some(u64::MAX).await {
                Ok(piece) => Ok(Some(piece)),
                Err(e) if e.kind() == ErrorKind::UnexpectedEof => {
                    self.left = Left::Nothing;
                    Ok(None)
                }
                Err(e) => Err(e),
            },
            Left::Chunk { left, started } => {
                if *left == 0 {
                    if std::mem::take(started) {
                        self.connection.chunk_end().await?;
                    }
                    let size = self.connection.chunk_size().await?;
                    if size == 0 {
                        self.connection.trailers().await?;
                        self.left = Left::Nothing;
                        return Ok(None);
                    }
                    self.chunks.push(size);
                    (*left, *started) = (size, true);
                }
                let piece = self.connection.some(*left).await?;
                *left -= piece.len() as u64;
                Ok(Some(piece))
            }
        }
    }
}

fn left_after(head: &Head) -> Left {
    let status = head.status();
    if status < 200 || status == 204 || status == 304 {
        return Left::Nothing;
    }
    match (head.get("transfer-encoding"), head.get("content-length")) {
        (Some(coding), None) => {
            assert_eq!(coding, "chunked");
            Left::Chunk { left: 0, started: false }
        }
        (None, Some(length)) => Left::Length(length.parse().expect("a length")),
        (None, None) => Left::UntilClose,
        (Some(_), Some(_)) => panic!("both framings in one answer: {head:?}"),
    }
}

/// Where the first event ends in `bytes`, of which the first `looked` bytes hold no end.
fn event_end(bytes: &[u8], looked: usize) -> Option<usize> {
    let from = looked.saturating_sub(3);
    let of = |mark: &[u8]| {
        bytes[from..].windows(mark.len()).position(|w| w == mark).map(|at| from + at + mark.len())
    };
    [of(b"\n\n"), of(b"\r\n\r\n"), of(b"\r\r")].into_iter().flatten().min()
}
