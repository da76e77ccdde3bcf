//! The one place that knows how the app is started and looked into.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate::config::{Config, Overrides};
use sluicegate::{App, MemorySink};
use sluicegate_core::{KeyUsage, PoolSnapshot, QueueSnapshot};
use sluicegate_proxy::Gauges;

/// The app and its usage lines. Dropping it ends it at once.
pub(crate) struct Running {
    app: App,
    sink: Arc<MemorySink>,
}

impl Running {
    pub(crate) fn start(text: &str) -> Self {
        let loaded = Config::from_text("test.toml", text, &Overrides::default(), &|_| None);
        let loaded = loaded.unwrap_or_else(|e| panic!("the configuration is refused: {e}\n{text}"));
        let sink = Arc::new(MemorySink::default());
        let app = App::start(loaded, vec![Arc::<MemorySink>::clone(&sink)]);
        Self { app: app.unwrap_or_else(|e| panic!("the app does not start: {e}")), sink }
    }

    /// Blocks.
    pub(crate) fn finish(self, limit: Duration) -> usize {
        self.app.finish(limit)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.app.address()
    }

    pub(crate) fn pools(&self) -> Vec<PoolSnapshot> {
        self.app.gateway().pools().iter().map(|p| p.snapshot()).collect()
    }

    pub(crate) fn queues(&self) -> Vec<QueueSnapshot> {
        self.app.gateway().pools().iter().map(|p| p.queue()).collect()
    }

    pub(crate) fn keys(&self) -> Vec<(String, KeyUsage)> {
        self.app.gateway().keys().iter().map(|k| (k.name().to_string(), k.usage())).collect()
    }

    pub(crate) fn admin_address(&self) -> SocketAddr {
        self.app.admin_address()
    }

    pub(crate) fn gauges(&self) -> Gauges {
        self.app.gateway().gauges()
    }

    pub(crate) fn sink(&self) -> &Arc<MemorySink> {
        &self.sink
    }
}
