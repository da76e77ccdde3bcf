//! A whole gateway in this process that a promise is put to the test on: started, asked, and ended.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sluicegate_core::ReplicaSnapshot;
use sluicegate_proxy::usage::UsageSink;
use tokio::task::JoinSet;

use crate::app::App;
use crate::config::Loaded;
use crate::inspect::{Inspect, Readiness};
use crate::usage_log::MemorySink;

const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the gateway may take until it has scraped its replicas.
const START_UP: Duration = Duration::from_secs(20);
/// For what still runs when all have been answered: nothing.
const LAST_CALL: Duration = Duration::from_secs(10);

pub(super) struct Trial {
    app: App,
    lines: Arc<MemorySink>,
}

impl Trial {
    pub(super) async fn start(loaded: Loaded) -> anyhow::Result<Self> {
        let lines = Arc::new(MemorySink::default());
        let sink: Arc<dyn UsageSink> = lines.clone();
        // Starting and ending block for a moment, and simulated replicas are to answer meanwhile.
        let app = tokio::task::spawn_blocking(move || App::start(loaded, vec![sink])).await??;
        Ok(Self { app, lines })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.app.address()
    }

    pub(super) fn inspect(&self) -> &dyn Inspect {
        self.app.inspect()
    }

    pub(super) fn replicas(&self) -> Vec<ReplicaSnapshot> {
        self.inspect().pools().into_iter().flat_map(|(_, pool)| pool.replicas).collect()
    }

    /// Every replica has been scraped: a share that falls to a pool without a LIVE one would go to the other.
    ///
    /// # Errors
    /// That takes longer than 20 s.
    pub(super) async fn ready(&self) -> anyhow::Result<()> {
        let live = |replica: &ReplicaSnapshot| replica.health == sluicegate_core::Health::Live;
        let ready = || self.inspect().readiness() == Readiness::Ready && self.replicas().iter().all(live);
        if until(START_UP, ready).await {
            return Ok(());
        }
        let out: Vec<String> =
            self.replicas().into_iter().filter(|one| !live(one)).map(|one| one.name).collect();
        let why = match self.inspect().readiness().reason() {
            _ if !out.is_empty() => format!("no good answer to a scrape from {}", out.join(", ")),
            reason => reason.unwrap_or_default(),
        };
        anyhow::bail!("the gateway was not ready within {} s: {why}", START_UP.as_secs())
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lines()
    }

    /// Ends the gateway; returns every usage line.
    ///
    /// # Errors
    /// A request was still running.
    pub(super) async fn finish(self) -> anyhow::Result<Vec<String>> {
        let Self { app, lines } = self;
        let cut = tokio::task::spawn_blocking(move || app.finish(LAST_CALL)).await?;
        anyhow::ensure!(cut == 0, "{cut} requests were cut");
        Ok(lines.lines())
    }
}

/// Whether it came true within the time.
pub(super) async fn until(within: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let look = async {
        loop {
            looks.tick().await;
            if is_so() {
                return;
            }
        }
    };
    tokio::time::timeout(within, look).await.is_ok()
}

/// All of them at the same time; what each came to, in no order.
pub(super) async fn at_once<T: Send + 'static>(
    calls: impl IntoIterator<Item = impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let mut set = JoinSet::new();
    calls.into_iter().for_each(|call| {
        set.spawn(call);
    });
    set.join_all().await
}
