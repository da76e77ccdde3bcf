//! Learns the replicas of pools from elsewhere while the gateway runs: a file each for the sources. They run on a thread
//! of their own, and all that they do to the data plane is [`Pool::set_replicas`].
//!
//! A source that fails, or is suddenly empty, changes nothing: the last known replicas stay, and it is said once.

mod backoff;
mod board;
mod catalogue;
mod dns;
mod file;
mod gpustack;
mod http;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use sluicegate_proxy::Pool;
use sluicegate_proxy::plan::{ReplicaPlan, ReplicaUrl};
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::config::{DiscoverPlan, SourcePlan};
use board::Feed;
pub(crate) use board::{Board, SourceView};

/// Running sources; they end when this is dropped.
#[derive(Debug)]
pub(crate) struct Discovery {
    board: Arc<Board>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Discovery {
    /// Starts the sources, on a thread of their own where there are any.
    ///
    /// # Errors
    /// The thread or its runtime cannot be made.
    pub(crate) fn start(plans: Vec<DiscoverPlan>, pools: &[Arc<Pool>]) -> io::Result<Self> {
        let found = |plan: &DiscoverPlan| pools.get(plan.pool).map(Arc::clone);
        let sources: Vec<(SourcePlan, Feed)> = plans
            .iter()
            .filter_map(|plan| Some((plan.source.clone(), Feed::new(found(plan)?, &plan.source))))
            .collect();
        let board = Arc::new(Board::new(sources.iter().map(|(_, feed)| feed)));
        if sources.is_empty() {
            return Ok(Self { board, stop: None, thread: None });
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        let all = async move {
            let mut running = JoinSet::new();
            for (source, feed) in sources {
                running.spawn(follow(source, feed));
            }
            tokio::select! {
                Some(Err(error)) = running.join_next() => tracing::error!(%error, "a source of replicas ended"),
                _ = stopped => {}
            }
        };
        let thread =
            std::thread::Builder::new().name("discovery".into()).spawn(move || runtime.block_on(all))?;
        Ok(Self { board, stop: Some(stop), thread: Some(thread) })
    }

    /// What the sources say of themselves.
    pub(crate) const fn board(&self) -> &Arc<Board> {
        &self.board
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the discovery thread panicked");
        }
    }
}

async fn follow(source: SourcePlan, feed: Feed) -> Infallible {
    match source {
        SourcePlan::File(path) => file::follow(&path, &feed).await,
        SourcePlan::Dns { asked, server } => dns::follow(&asked, server, &feed).await,
        SourcePlan::GpuStack { api, model_id, via } => gpustack::follow(&api, model_id, via, &feed).await,
        SourcePlan::Consul { api, service } => {
            catalogue::follow(&api, &catalogue::Consul { service }, &feed).await
        }
        SourcePlan::Nomad { api, service } => {
            catalogue::follow(&api, &catalogue::Nomad { service }, &feed).await
        }
    }
}

/// A replica at an address.
fn at(address: SocketAddr) -> ReplicaPlan {
    ReplicaPlan { url: url(&address.ip().to_string(), address.port()), headers: Vec::new() }
}

/// A replica at a host, a name or an address.
fn url(host: &str, port: u16) -> ReplicaUrl {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let authority = match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) => format!("[{ip}]:{port}"),
        _ => format!("{bare}:{port}"),
    };
    let text = format!("http://{authority}");
    ReplicaUrl {
        host: bare.into(),
        port,
        tls: false,
        authority: authority.into(),
        prefix: "".into(),
        text: text.into(),
    }
}
