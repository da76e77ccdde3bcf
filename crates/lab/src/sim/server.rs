//! One replica's listener and connections.

mod door;

use super::SimConfig;
use super::fault::{Board, Faults, Plan};
use super::generate::Host;
use super::realtime::{Ending, Realtime};
use super::routes::Front;
use super::stored::Stored;
use crate::engine::Counters;
use door::Door;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Sleep, sleep};

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
    pub(super) fn start(
        config: Arc<SimConfig>,
        board: &Arc<Board>,
        faults: &Arc<Faults>,
        index: usize,
        wanted: SocketAddr,
    ) -> io::Result<Self> {
        let door = Door::open(wanted)?;
        let addr = door.addr();
        let realtime = Arc::new(Realtime::new(&config, index));
        let host = Host { config, realtime: Arc::clone(&realtime), stored: Arc::new(Stored::default()) };
        let front = Arc::new(Front::new(host, Arc::clone(board), Arc::clone(faults), index));
        let (stop, stopped) = oneshot::channel();
        let serving = Serving {
            door,
            front,
            realtime: Arc::clone(&realtime),
            faults: Arc::clone(faults),
            plan: Plan::default(),
            connections: JoinSet::new(),
            ends: JoinSet::new(),
            flapping: None,
            leave: watch::Sender::new(()),
        };
        let task = tokio::spawn(serving.serve(stopped));
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

/// One phase of a flapping replica.
struct Phase {
    number: u64,
    alive: bool,
    ends: Pin<Box<Sleep>>,
}

struct Serving {
    door: Door,
    front: Arc<Front>,
    realtime: Arc<Realtime>,
    faults: Arc<Faults>,
    /// What was last made of the faults.
    plan: Plan,
    connections: JoinSet<()>,
    /// Wait for the ends of timed faults.
    ends: JoinSet<()>,
    flapping: Option<Phase>,
    /// Sent to: connections end after the answer under way.
    leave: watch::Sender<()>,
}

impl Serving {
    async fn serve(mut self, mut stopped: oneshot::Receiver<()>) {
        let realtime = Arc::clone(&self.realtime);
        let mut steps = std::pin::pin!(realtime.run());
        let mut changes = self.faults.changes();
        // Faults may have been switched on before the start.
        let version = *changes.borrow_and_update();
        self.apply(version).await;
        loop {
            tokio::select! {
                _ = &mut stopped => break,
                () = &mut steps => break,
                _ = changes.changed() => {
                    let version = *changes.borrow_and_update();
                    self.apply(version).await;
                }
                alive = phase_over(&mut self.flapping) => self.turn(!alive).await,
                accepted = self.door.accept() => match accepted {
                    Ok(stream) => {
                        let (front, leave) = (Arc::clone(&self.front), self.leave.subscribe());
                        self.connections.spawn(connection(stream, front, leave));
                    }
                    // Out of file descriptors, or a client that left already: one connection lost, not the replica.
                    Err(_) => sleep(Duration::from_millis(10)).await,
                },
                Some(_) = self.connections.join_next() => {}
                Some(_) = self.ends.join_next() => {}
            }
            self.faults.connected(self.connections.len());
        }
        drop(self.door);
        self.connections.shutdown().await;
        self.faults.listens(false);
        self.faults.connected(0);
        // Nobody need wait for a replica that is gone.
        self.faults.applied(u64::MAX);
    }

    /// Makes what the faults want.
    async fn apply(&mut self, version: u64) {
        for (number, time) in self.faults.new_ends() {
            let faults = Arc::clone(&self.faults);
            self.ends.spawn(async move {
                sleep(time).await;
                faults.end(number);
            });
        }
        let plan = self.faults.plan();
        self.set_pace(&plan);
        if plan.engine_dead && !self.plan.engine_dead {
            self.realtime.end_all(Ending::Died);
        }
        if plan.sigterm && !self.plan.sigterm {
            self.realtime.end_all(Ending::Aborted);
            self.leave.send_replace(());
        }
        if self.plan.sigterm && !plan.sigterm {
            self.realtime.restart(self.front.config());
            self.set_pace(&plan);
        }
        let flaps = plan.flap.map(|(number, ..)| number);
        if flaps != self.flapping.as_ref().map(|phase| phase.number) {
            self.flapping = plan.flap.map(|(number, alive, _)| Phase {
                number,
                alive: true,
                ends: Box::pin(sleep(alive)),
            });
        }
        let killed = (plan.dead || plan.loading) && !(self.plan.dead || self.plan.loading);
        self.plan = plan;
        self.move_door();
        if killed {
            self.cut().await;
        }
        self.faults.listens(self.door.is_open());
        self.faults.applied(version);
    }

    /// The next phase of a flapping replica.
    async fn turn(&mut self, alive: bool) {
        let (Some(phase), Some((_, alive_for, dead_for))) = (&mut self.flapping, self.plan.flap) else {
            return;
        };
        phase.alive = alive;
        phase.ends = Box::pin(sleep(if alive { alive_for } else { dead_for }));
        self.move_door();
        if !alive {
            self.cut().await;
        }
        self.faults.listens(self.door.is_open());
    }

    /// The process ends and all that was open with it; what comes back is another one.
    async fn cut(&mut self) {
        self.connections.shutdown().await;
        self.realtime.restart(self.front.config());
        self.set_pace(&self.plan);
    }

    fn set_pace(&self, plan: &Plan) {
        let cost = self.front.config().profile.cost.slowed(plan.slowness);
        self.realtime.set_pace(cost, plan.frozen);
    }

    fn move_door(&mut self) {
        let gone = self.flapping.as_ref().is_some_and(|phase| !phase.alive);
        if self.plan.refuse || self.plan.sigterm || self.plan.dead || gone {
            self.door.shut();
        } else {
            self.door.reopen();
        }
    }
}

/// Waits for the phase's end; whether it was one of life.
async fn phase_over(phase: &mut Option<Phase>) -> bool {
    match phase {
        Some(phase) => {
            phase.ends.as_mut().await;
            phase.alive
        }
        None => pending().await,
    }
}

async fn connection(stream: TcpStream, front: Arc<Front>, mut leave: watch::Receiver<()>) {
    // Tokens are small writes; without it they would wait for one another. Where it fails they do.
    let _best_effort = stream.set_nodelay(true);
    let keep_alive = front.config().keep_alive;
    let reset = Arc::new(Notify::new());
    let service = {
        let reset = Arc::clone(&reset);
        service_fn(move |request| {
            let (front, reset) = (Arc::clone(&front), Arc::clone(&reset));
            async move {
                if let Some(response) = front.respond(request).await {
                    return Ok::<_, std::convert::Infallible>(response);
                }
                reset.notify_one();
                pending().await
            }
        })
    };
    // hyper counts the time until a head is complete from the end of the last answer, so this closes idle connections.
    let mut served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(keep_alive)
        .serve_connection(TokioIo::new(stream), service);
    let mut leaving = false;
    loop {
        tokio::select! {
            // Whatever went wrong, the client has gone or spoke no HTTP: there is nobody to tell.
            _gone = &mut served => return,
            () = reset.notified() => {
                // Closing now sends a reset instead of an end.
                let _best_effort = served.into_parts().io.into_inner().set_zero_linger();
                return;
            }
            Ok(()) = leave.changed(), if !leaving => {
                leaving = true;
                Pin::new(&mut served).graceful_shutdown();
            }
        }
    }
}
