//! One replica's listener and connections.

use super::SimConfig;
use super::realtime::Realtime;
use super::routes::Front;
use crate::engine::Counters;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Connections the kernel may hold for us before they are accepted.
const BACKLOG: u32 = 1024;

/// A serving replica. Dropping it stops it soon; [`Running::stop`] waits for that.
#[derive(Debug)]
pub(super) struct Running {
    addr: SocketAddr,
    realtime: Arc<Realtime>,
    /// Sent to or dropped: the serving task ends.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    pub(super) fn start(config: Arc<SimConfig>, index: usize, wanted: SocketAddr) -> io::Result<Self> {
        let listener = listen(wanted)?;
        let addr = listener.local_addr()?;
        let realtime = Arc::new(Realtime::new(&config, index));
        let front = Arc::new(Front::new(config, Arc::clone(&realtime)));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, front, Arc::clone(&realtime), stopped));
        Ok(Self { addr, realtime, stop, task })
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn counters(&self) -> watch::Receiver<Counters> {
        self.realtime.counters()
    }

    pub(super) async fn stop(self) {
        drop(self.stop);
        // An error would be the task's panic, which the runtime has reported already.
        let _ended = self.task.await;
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A replica that is started again finds connections of its former life in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

async fn serve(
    listener: TcpListener,
    front: Arc<Front>,
    realtime: Arc<Realtime>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    let mut steps = std::pin::pin!(realtime.run());
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            () = &mut steps => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&front)));
                }
                // Out of file descriptors, or a client that left already: one connection lost, not the replica.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, front: Arc<Front>) {
    // Tokens are small writes; without it they would wait for one another. Where it fails they do.
    let _best_effort = stream.set_nodelay(true);
    let keep_alive = front.keep_alive();
    let service = service_fn(move |request| {
        let front = Arc::clone(&front);
        async move { Ok::<_, std::convert::Infallible>(front.respond(request).await) }
    });
    // hyper counts the time until a head is complete from the end of the last answer, so this closes idle connections.
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(keep_alive)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    // Whatever went wrong, the client has gone or spoke no HTTP: there is nobody to tell.
    let _gone = served;
}
