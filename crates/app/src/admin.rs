//! The admin listener: metrics, health of the gateway itself, the state of pools and replicas, `explain`, drains. It
//! has its own thread and runtime, so nothing here is ever in the way of a request.

mod answer;
mod callers;
mod connections;
mod explain;
mod routes;
mod state;
#[cfg(test)]
mod tests;
mod token;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use crate::config::AdminPlan;
use crate::decisions::DecisionServices;
use crate::discovery::Board;
use crate::inspect::Inspect;
use crate::metrics::Metrics;
use crate::usage_log::UsageLog;

/// What the admin side shows.
#[derive(Clone)]
pub struct Shown {
    /// The gateway's name.
    pub gateway_id: Arc<str>,
    /// The gateway.
    pub gateway: Arc<dyn Inspect>,
    /// Its counters.
    pub metrics: Arc<Metrics>,
    /// Its usage log, where it has one.
    pub usage_log: Option<Arc<UsageLog>>,
    /// What the sources of replicas say of themselves.
    pub(crate) sources: Arc<Board>,
    /// The decision services.
    pub(crate) decisions: Arc<DecisionServices>,
}

impl Shown {
    fn lost_lines(&self) -> u64 {
        self.usage_log.as_ref().map_or(0, |log| log.lost())
    }
}

/// A bound address, before there is a gateway to show.
#[derive(Debug)]
pub struct AdminListener {
    listener: TcpListener,
    plan: AdminPlan,
}

/// A running admin listener; it ends when this is dropped.
#[derive(Debug)]
pub struct AdminServer {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminListener {
    /// Binds the address.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(plan: &AdminPlan) -> io::Result<Self> {
        let listener = TcpListener::bind(plan.address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, plan: plan.clone() })
    }

    /// Serves on a thread of its own.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
    pub fn serve(self, shown: Shown) -> io::Result<AdminServer> {
        let address = self.listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(self.listener)?
        };
        let router = routes::router(shown, self.plan.token);
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = async move {
            tokio::select! {
                never = connections::serve(listener, router) => match never {},
                _ = stopped => {}
            }
        };
        let thread =
            std::thread::Builder::new().name("admin".into()).spawn(move || runtime.block_on(serve))?;
        Ok(AdminServer { address, stop: Some(stop), thread: Some(thread) })
    }
}

impl AdminServer {
    /// The address bound.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for AdminServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the admin thread panicked");
        }
    }
}
