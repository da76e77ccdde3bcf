//! A listener that can be shut without losing its port to somebody else.

use std::io;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Connections the kernel may hold for us before they are accepted.
const BACKLOG: u32 = 1024;

#[derive(Debug)]
pub(super) struct Door {
    addr: SocketAddr,
    state: State,
}

#[derive(Debug)]
enum State {
    Open(TcpListener),
    /// A socket that is bound and does not listen: connections are refused, the port stays ours. `None`: it could not be
    /// bound, and the port may be lost.
    Shut(Option<TcpSocket>),
}

impl Door {
    /// Port 0 takes a free one.
    pub(super) fn open(wanted: SocketAddr) -> io::Result<Self> {
        let listener = bind(wanted)?.listen(BACKLOG)?;
        Ok(Self { addr: listener.local_addr()?, state: State::Open(listener) })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// The next connection; none comes while it is shut.
    pub(super) async fn accept(&self) -> io::Result<TcpStream> {
        match &self.state {
            State::Open(listener) => listener.accept().await.map(|(stream, _)| stream),
            State::Shut(_) => std::future::pending().await,
        }
    }

    /// From now on connections are refused. No effect on a shut one.
    pub(super) fn shut(&mut self) {
        if self.is_open() {
            // The listener has to go before its port can be bound again.
            self.state = State::Shut(None);
            self.state = State::Shut(bind(self.addr).ok());
        }
    }

    /// From now on connections are taken, where the port can still be had. No effect on an open one.
    pub(super) fn reopen(&mut self) {
        if let State::Shut(held) = &mut self.state {
            let socket = held.take().map_or_else(|| bind(self.addr), Ok);
            if let Ok(listener) = socket.and_then(|socket| socket.listen(BACKLOG)) {
                self.state = State::Open(listener);
            }
        }
    }
}

fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A replica that is started again finds connections of its former life in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}
