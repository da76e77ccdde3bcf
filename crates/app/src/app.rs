//! The whole gateway in one value: data plane, admin side, usage log and metrics, started and ended in the right order.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_proxy::usage::UsageSink;
use sluicegate_proxy::{Gateway, Running};

use crate::admin::{AdminListener, AdminServer, Shown};
use crate::config::Loaded;
use crate::decisions::{Asking, DecisionServices};
use crate::discovery::Discovery;
use crate::every_sink::EverySink;
use crate::gateway_view::GatewayView;
use crate::inspect::Inspect;
use crate::metrics::Metrics;
use crate::usage_log::UsageLog;

/// Why the gateway did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The client side's address cannot be bound, or a thread not made.
    #[error("cannot listen on {address}")]
    Listen {
        /// As configured.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The admin side's address cannot be bound, or its thread not made.
    #[error("cannot listen on {address} for the admin side")]
    Admin {
        /// As configured.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// Both addresses are in use.
    #[error("cannot listen on {address}, nor on {admin} for the admin side")]
    Taken {
        /// The client side's, as configured.
        address: SocketAddr,
        /// The admin side's, as configured.
        admin: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The thread that learns replicas cannot be made.
    #[error("cannot begin to learn replicas")]
    Discovery(#[source] std::io::Error),
    /// The thread that asks decision services cannot be made.
    #[error("cannot begin to ask decision services")]
    Decisions(#[source] std::io::Error),
    /// The usage log cannot be written.
    #[error("cannot write usage lines{}", file.as_ref().map(|f| format!(" to {}", f.display())).unwrap_or_default())]
    UsageLog {
        /// The file, where there is one.
        file: Option<PathBuf>,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A running gateway. Dropped without [`App::finish`], it ends at once.
pub struct App {
    view: Arc<GatewayView>,
    usage_log: Option<Arc<UsageLog>>,
    admin: AdminServer,
    discovery: Discovery,
    asking: Asking,
    running: Running,
}

impl App {
    /// Binds both listeners and starts every thread. `sinks` get every usage line, next to the log and the metrics.
    /// Blocks for a moment: not for an async task.
    ///
    /// # Errors
    /// A listener cannot be bound, the usage file not opened, or a thread not made; nothing is left running then.
    pub fn start(loaded: Loaded, sinks: Vec<Arc<dyn UsageSink>>) -> Result<Self, StartError> {
        let Loaded { plan, admin, usage, discover, decisions, .. } = loaded;
        let admin_error = |source| StartError::Admin { address: admin.address, source };
        let admin_listener =
            AdminListener::bind(&admin).map_err(|source| match (source.kind(), plan.listen.address) {
                (ErrorKind::AddrInUse, address) if taken(address) => {
                    StartError::Taken { address, admin: admin.address, source }
                }
                _ => admin_error(source),
            })?;
        let usage_log = match usage.stdout || usage.file.is_some() {
            true => {
                let log = UsageLog::start(&usage, Arc::clone(&plan.gateway_id));
                Some(Arc::new(log.map_err(|source| StartError::UsageLog { file: usage.file, source })?))
            }
            false => None,
        };
        let metrics = Arc::new(Metrics::default());
        let sink = EverySink::new(Arc::clone(&metrics), usage_log.clone(), sinks);
        let (address, gateway_id) = (plan.listen.address, Arc::clone(&plan.gateway_id));
        let (decisions, asking) = DecisionServices::start(decisions).map_err(StartError::Decisions)?;
        let running = Gateway::start(plan, Arc::new(sink), decisions.clone())
            .map_err(|source| StartError::Listen { address, source })?;
        let view = Arc::new(GatewayView::new(Arc::clone(running.gateway())));
        let gateway: Arc<dyn Inspect> = view.clone();
        let discovery =
            Discovery::start(discover, running.gateway().pools()).map_err(StartError::Discovery)?;
        let sources = Arc::clone(discovery.board());
        let shown = Shown { gateway_id, gateway, metrics, usage_log: usage_log.clone(), sources, decisions };
        let admin = admin_listener.serve(shown).map_err(admin_error)?;
        Ok(Self { view, usage_log, admin, discovery, asking, running })
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.running.address()
    }

    /// Where the admin side is.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// The data plane.
    #[must_use]
    pub fn gateway(&self) -> &Arc<Gateway> {
        self.running.gateway()
    }

    /// The gateway as the admin side sees it.
    #[must_use]
    pub fn inspect(&self) -> &dyn Inspect {
        &*self.view
    }

    /// Its usage log, where there is one.
    pub(crate) const fn usage_log(&self) -> Option<&Arc<UsageLog>> {
        self.usage_log.as_ref()
    }

    /// Takes no new connections and is not ready any more; running requests go on.
    pub fn begin_drain(&self) {
        self.view.draining();
        self.running.begin_drain();
    }

    /// Ends the gateway: waits up to `limit` for running requests, cuts what is left, and writes out every usage line;
    /// an output that takes none for 2 s loses them.
    /// Returns the number of requests cut. Blocks: not for an async task.
    #[must_use = "requests may have been cut"]
    pub fn finish(self, limit: Duration) -> usize {
        let Self { view, usage_log, admin, discovery, asking, running } = self;
        view.draining();
        running.begin_drain();
        drop(discovery);
        if let Some(log) = &usage_log {
            log.ending();
        }
        let cut = running.finish(limit);
        drop(asking);
        // The admin side shows the drain until the end; after it nobody writes usage lines.
        drop(admin);
        if let Some(log) = usage_log {
            log.close();
        }
        cut
    }
}

/// Asked only where something else has failed already, so that both are told at once.
fn taken(address: SocketAddr) -> bool {
    TcpListener::bind(address).is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}
