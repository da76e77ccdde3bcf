//! One TCP connection with a read buffer: heads, lengths and chunks, for both ends of a test.

use std::io::{self, ErrorKind};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::message::Head;

/// A connection and what was read from it but not yet used.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        // Each write is its own segment where the kernel allows: tests choose where bytes are split.
        let _ = stream.set_nodelay(true);
        Self { stream, unread: Vec::new() }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Writes all of `bytes` with one call where the kernel takes them.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Ends the sending side.
    pub(crate) async fn half_close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Makes the next drop a reset.
    pub(crate) fn reset_on_drop(&self) -> io::Result<()> {
        self.stream.set_zero_linger()
    }

    /// Reads more; 0 at the end of the peer's sending side. Cancel-safe.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.unread.reserve(16 * 1024);
        self.stream.read_buf(&mut self.unread).await
    }

    /// Reads more; the end is an error.
    async fn must_fill(&mut self) -> io::Result<()> {
        match self.fill().await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Bytes read and not yet used.
    pub(crate) fn unread(&self) -> usize {
        self.unread.len()
    }

    /// The next head; None where the peer ended before its first byte.
    pub(crate) async fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            if let Some(head) = Head::parse(&self.unread) {
                self.unread.drain(..head.raw.len());
                return Ok(Some(head));
            }
            if self.fill().await? == 0 {
                return if self.unread.is_empty() { Ok(None) } else { Err(ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// Up to `most` bytes, at least one; the end is an error.
    pub(crate) async fn some(&mut self, most: u64) -> io::Result<Vec<u8>> {
        if self.unread.is_empty() {
            self.must_fill().await?;
        }
        let n = usize::try_from(most).unwrap_or(usize::MAX).min(self.unread.len());
        if n == self.unread.len() {
            return Ok(std::mem::take(&mut self.unread));
        }
        Ok(self.unread.drain(..n).collect())
    }

    /// Exactly `n` bytes.
    pub(crate) async fn exactly(&mut self, n: u64) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut left = n;
        while left > 0 {
            let piece = self.some(left).await?;
            left -= piece.len() as u64;
            out.extend_from_slice(&piece);
        }
        Ok(out)
    }

    /// One line without its `\r\n`.
    pub(crate) async fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(at) = self.unread.windows(2).position(|w| w == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..at + 2).take(at).collect();
                return String::from_utf8(line).map_err(|_| ErrorKind::InvalidData.into());
            }
            self.must_fill().await?;
        }
    }

    /// The size line of the next chunk.
    pub(crate) async fn chunk_size(&mut self) -> io::Result<u64> {
        let line = self.line().await?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        u64::from_str_radix(digits, 16).map_err(|_| io::Error::new(ErrorKind::InvalidData, line))
    }

    /// The line end after a chunk's data.
    pub(crate) async fn chunk_end(&mut self) -> io::Result<()> {
        match self.line().await?.as_str() {
            "" => Ok(()),
            other => Err(io::Error::new(ErrorKind::InvalidData, other.to_owned())),
        }
    }

    /// The trailer section, thrown away.
    pub(crate) async fn trailers(&mut self) -> io::Result<()> {
        while !self.line().await?.is_empty() {}
        Ok(())
    }

    /// A whole chunked body.
    pub(crate) async fn chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            let size = self.chunk_size().await?;
            if size == 0 {
                self.trailers().await?;
                return Ok(out);
            }
            out.extend(self.exactly(size).await?);
            self.chunk_end().await?;
        }
    }
}
