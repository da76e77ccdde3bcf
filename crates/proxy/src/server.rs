//! Threads and listeners: data-plane threads that each accept and serve on a runtime of their own, and one control
//! thread. The only spawner of threads and of connection tasks.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::buffers;
use crate::clock::{self, Moments};
use crate::connection;
use crate::control;
use crate::gateway::Gateway;
use crate::timer::{self, SWEEP};
use crate::upstream::expire_idle;

/// Connections the kernel keeps ready before they are accepted.
const BACKLOG: i32 = 4096;
/// Wait after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long streams that are cut at the end have to be told so.
const STOP_GRACE: Duration = Duration::from_millis(500);
/// Sweeps in about a second.
const SECOND: u64 = 40;

/// How far the shutdown has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Serving,
    Draining,
    Stopped,
}

/// A gateway at work. Dropping it without [`Self::finish`] ends everything at once.
#[derive(Debug)]
pub struct Running {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    phase: watch::Sender<Phase>,
    threads: Vec<JoinHandle<()>>,
    closed: Arc<AllClosed>,
}

/// Tells when the last listener and the last connection have ended.
#[derive(Debug, Default)]
struct AllClosed {
    /// Listeners that may still bring connections.
    listeners: AtomicUsize,
    changed: Condvar,
    lock: Mutex<()>,
}

impl AllClosed {
    /// Has the waiter look again.
    fn tell(&self) {
        // Under the lock, so that it cannot fall between the waiter's look and its wait.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

impl Running {
    /// The address that was bound.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The shared state.
    #[must_use]
    pub fn gateway(&self) -> &Arc<Gateway> {
        &self.gateway
    }

    /// Stops accepting. [`Gateway::ready`] is false from now on; running requests go on, idle connections close.
    pub fn begin_drain(&self) {
        self.gateway.begin_drain();
        self.phase.send_replace(Phase::Draining);
    }

    /// Waits (blocking) until no connection is open or `limit` is over, then ends what is left. Returns the number
    /// of requests that were cut.
    pub fn finish(mut self, limit: Duration) -> usize {
        self.begin_drain();
        let open = || {
            // In this order: a listener's last connections are counted before it closes.
            self.closed.listeners.load(Ordering::Acquire) > 0
                || self.gateway.counters.open_connections.load(Ordering::Acquire) > 0
        };
        let guard = self.closed.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.closed.changed.wait_timeout_while(guard, limit, |()| open()));
        let cut = self.gateway.counters.open_requests.load(Ordering::Acquire);
        // Streams that are cut are told so, as long as their clients read it soon.
        self.gateway.begin_stop();
        let guard = self.closed.lock.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.closed.changed.wait_timeout_while(guard, STOP_GRACE, |()| open()));
        self.stop();
        usize::try_from(cut).unwrap_or(usize::MAX)
    }

    fn stop(&mut self) {
        self.phase.send_replace(Phase::Stopped);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a gateway thread panicked");
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.gateway.begin_drain();
        self.stop();
    }
}

/// Binds, then starts the threads.
pub(crate) fn start(gateway: Gateway) -> io::Result<Running> {
    let threads = gateway.plan.listen.threads.max(1);
    // Sockets that share a port share it with anybody's: one that does not tells whether it is taken.
    drop(bind(gateway.plan.listen.address, Sharing::Alone)?);
    let first = bind(gateway.plan.listen.address, Sharing::Threads)?;
    let address = first.local_addr()?;
    let mut listeners = vec![first];
    for _ in 1..threads {
        listeners.push(bind(address, Sharing::Threads)?);
    }
    let gateway = Arc::new(gateway);
    let (phase, _) = watch::channel(Phase::Serving);
    let closed = Arc::new(AllClosed::default());
    // Each thread holds one while it waits for its next connection.
    let permits = Arc::new(Semaphore::new(gateway.plan.listen.max_connections.max(1) + threads));
    let mut running = Running { gateway, address, phase, threads: Vec::new(), closed };
    for (i, listener) in listeners.into_iter().enumerate() {
        let gateway = Arc::clone(&running.gateway);
        let open = Listening::new(&running.closed);
        let worker = Worker { gateway, closed: Arc::clone(&running.closed), permits: Arc::clone(&permits) };
        let phase = running.phase.subscribe();
        let runtime = runtime()?;
        running.threads.push(spawn_thread(&format!("data-{i}"), move || {
            runtime.block_on(worker.run(listener, open, phase));
            // What is left is dropped here: each request writes its usage line as it goes.
            runtime.shutdown_background();
        })?);
    }
    let gateway = Arc::clone(&running.gateway);
    let mut phase = running.phase.subscribe();
    let runtime = runtime()?;
    running.threads.push(spawn_thread("control", move || {
        runtime.block_on(async move {
            let stopped = async { drop(phase.wait_for(|p| *p == Phase::Stopped).await) };
            tokio::select! {
                () = control::run(&gateway) => {}
                () = stopped => {}
            }
        });
        runtime.shutdown_background();
    })?);
    Ok(running)
}

/// One data-plane thread.
struct Worker {
    gateway: Arc<Gateway>,
    closed: Arc<AllClosed>,
    permits: Arc<Semaphore>,
}

impl Worker {
    async fn run(self, listener: StdListener, open: Listening, mut phase: watch::Receiver<Phase>) {
        let sweeping = tokio::spawn(sweep(Arc::clone(&self.gateway)));
        let mut serving = phase.clone();
        match TcpListener::from_std(listener) {
            Err(error) => tracing::error!(%error, "a data-plane thread cannot accept"),
            Ok(listener) => {
                tokio::select! {
                    () = self.accept(&listener) => {}
                    _ = serving.wait_for(|p| *p > Phase::Serving) => {}
                }
                if let Err(error) = self.accept_what_is_there(listener) {
                    tracing::warn!(%error, "accept failed: connections that wait are reset");
                }
            }
        }
        drop(open);
        let _ = phase.wait_for(|p| *p == Phase::Stopped).await;
        sweeping.abort();
    }

    /// Connections that the kernel has completed would be reset with the listener: they are served once.
    fn accept_what_is_there(&self, listener: TcpListener) -> io::Result<()> {
        // The kernel is asked itself: the runtime may not have heard of them yet.
        let listener = listener.into_std()?;
        // Without permits: there are no more of them than the backlog holds, and each ends with its first request.
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    self.serve(TcpStream::from_std(stream)?, None);
                }
                // Its client has gone already.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    async fn accept(&self, listener: &TcpListener) {
        loop {
            let Ok(permit) = Arc::clone(&self.permits).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, _)) => self.serve(stream, Some(permit)),
                Err(error) => {
                    // Out of descriptors, or the client was gone already: neither may end the listener.
                    tracing::warn!(%error, "accept failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, permit: Option<OwnedSemaphorePermit>) {
        let open = Open::new(&self.gateway, &self.closed, permit);
        if stream.set_nodelay(true).is_err() {
            return;
        }
        let gateway = Arc::clone(&self.gateway);
        tokio::spawn(Moments::new(async move {
            connection::run(gateway, stream).await;
            drop(open);
        }));
    }
}

/// Counts one listener, on every path.
struct Listening(Arc<AllClosed>);

impl Listening {
    fn new(closed: &Arc<AllClosed>) -> Self {
        closed.listeners.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(closed))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.listeners.fetch_sub(1, Ordering::Release);
        self.0.tell();
    }
}

/// Counts one open connection, on every path.
struct Open {
    gateway: Arc<Gateway>,
    closed: Arc<AllClosed>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Open {
    fn new(gateway: &Arc<Gateway>, closed: &Arc<AllClosed>, permit: Option<OwnedSemaphorePermit>) -> Self {
        gateway.counters.accepted.fetch_add(1, Ordering::Relaxed);
        gateway.counters.open_connections.fetch_add(1, Ordering::Relaxed);
        Self { gateway: Arc::clone(gateway), closed: Arc::clone(closed), _permit: permit }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let last = self.gateway.counters.open_connections.fetch_sub(1, Ordering::Release) == 1;
        if last {
            self.closed.tell();
        }
    }
}

/// Looks at the deadlines of this thread, and at idle connections to replicas now and then.
async fn sweep(gateway: Arc<Gateway>) {
    let mut ticker = tokio::time::interval(SWEEP);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut seen = gateway.wake.get();
    for turn in 0_u64.. {
        ticker.tick().await;
        let now = clock::now();
        let epoch = gateway.wake.get();
        let second = turn.is_multiple_of(SECOND);
        timer::sweep(now, epoch != seen, second);
        seen = epoch;
        expire_idle(now);
        if second {
            buffers::trim();
        }
    }
}

/// Who else may listen on the same port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Threads,
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Threads)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

fn spawn_thread(name: &str, f: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(f)
}
