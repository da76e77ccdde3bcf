//! One read or write on a socket that never blocks.

use std::io::{ErrorKind, Read, Write};

use mio::net::TcpStream;

/// Enough for a whole 100 KB request in one read.
pub const SCRATCH: usize = 256 * 1024;

/// What one read brought.
pub enum Received {
    Bytes(usize),
    /// Nothing is there now.
    Nothing,
    Closed,
}

/// Reads once. Less than the scratch holds means that the socket is empty: the next bytes are a new event.
pub fn receive(socket: &mut TcpStream, scratch: &mut [u8]) -> Received {
    match socket.read(scratch) {
        Ok(0) => Received::Closed,
        Ok(length) => Received::Bytes(length),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Received::Nothing
        }
        Err(_) => Received::Closed,
    }
}

/// Writes once: how much the kernel took. Errors: the connection is gone.
pub fn send(socket: &mut TcpStream, bytes: &[u8]) -> std::io::Result<usize> {
    match socket.write(bytes) {
        Ok(taken) => Ok(taken),
        Err(error) if waits(error.kind()) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Also a connection that is still being made.
fn waits(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}
