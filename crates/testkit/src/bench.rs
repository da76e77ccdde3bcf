//! The whole app in process, on ports of its own, with its usage lines in memory.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluicegate_core::{Health, KeyUsage, PoolSnapshot, ReplicaSnapshot};

use crate::client::{Answer, RawClient};
use crate::config::Config;
use crate::gate::{patiently, until};
use crate::upstream::Upstream;

/// A running gateway.
pub struct Bench {
    app: crate::app::Running,
}

impl Bench {
    /// Starts the app with this configuration file and does not wait for its replicas.
    ///
    /// # Panics
    /// The configuration is refused, or the app does not start.
    #[must_use]
    pub fn start(config: &str) -> Self {
        Self { app: crate::app::Running::start(config) }
    }

    /// Starts the app and waits until `live` replicas are LIVE.
    #[track_caller]
    pub fn live(config: &Config, live: usize) -> impl Future<Output = Self> + use<> {
        let bench = Self::start(&config.text());
        patiently(async move {
            bench.wait_live(live).await;
            bench
        })
    }

    /// [`Config::new`] with these replicas, all of them LIVE.
    #[track_caller]
    pub fn with_replicas(replicas: &[&Upstream]) -> impl Future<Output = Self> + use<> {
        Self::live(&Config::new(replicas), replicas.len())
    }

    /// Ends the app as its shutdown does, after at most `limit`: the number of requests that were cut, and every usage
    /// line. Blocks.
    ///
    /// # Panics
    /// A usage line is no JSON.
    #[must_use]
    pub fn finish(self, limit: Duration) -> (usize, Vec<Value>) {
        let sink = Arc::clone(self.app.sink());
        let cut = self.app.finish(limit);
        let parsed = |line: &String| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e} in {line}"));
        (cut, sink.lines().iter().map(parsed).collect())
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.app.address()
    }

    /// A new client connection.
    pub async fn client(&self) -> RawClient {
        RawClient::connect(self.address()).await
    }

    /// Sends one request on a connection of its own and reads the whole answer.
    #[track_caller]
    pub fn ask<'a>(&'a self, request: &'a [u8]) -> impl Future<Output = Answer> + 'a {
        patiently(async move { self.client().await.exchange(request).await })
    }

    /// The pools as the core sees them now, in the configuration's order.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolSnapshot> {
        self.app.pools()
    }

    /// One replica as the core sees it now.
    ///
    /// # Panics
    /// The configuration does not name it.
    #[must_use]
    pub fn replica(&self, upstream: &Upstream) -> ReplicaSnapshot {
        let url = upstream.url();
        let is =
            |name: &str| name.strip_prefix(&url).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let found = self.pools().into_iter().flat_map(|p| p.replicas).find(|r| is(&r.name));
        found.unwrap_or_else(|| panic!("no replica {url}"))
    }

    /// What this key has used, as its limits see it now.
    ///
    /// # Panics
    /// The configuration does not name it.
    #[must_use]
    pub fn key_usage(&self, name: &str) -> KeyUsage {
        let found = self.app.keys().into_iter().find(|(key, _)| key == name);
        found.unwrap_or_else(|| panic!("no key {name}")).1
    }

    /// Requests that wait for a slot now.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.app.queues().iter().flat_map(|q| &q.waiting).map(|depth| depth.waiting).sum()
    }

    /// Requests that left the queue because their clients did, so far.
    #[must_use]
    pub fn left_queue(&self) -> u64 {
        self.app.queues().iter().map(|q| q.left).sum()
    }

    /// Where the admin side is.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.app.admin_address()
    }

    /// `GET path` on the admin side.
    #[track_caller]
    pub fn admin<'a>(&'a self, path: &'a str) -> impl Future<Output = Answer> + 'a {
        let address = self.admin_address();
        // It answers to no other name.
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").into_bytes();
        patiently(async move { RawClient::connect(address).await.exchange(&request).await })
    }

    /// The value of one series of the metrics page, its labels as they stand there.
    ///
    /// # Panics
    /// There is no such series.
    #[track_caller]
    pub fn metric<'a>(&'a self, series: &'a str) -> impl Future<Output = f64> + 'a {
        patiently(async move {
            let page = self.admin("/metrics").await.text();
            let value = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
            let value = value.unwrap_or_else(|| panic!("no {series} in\n{page}"));
            value.parse().expect("a number")
        })
    }

    /// Waits until `count` replicas of all pools are LIVE.
    #[track_caller]
    pub fn wait_live(&self, count: usize) -> impl Future<Output = ()> + '_ {
        until(move || {
            let pools = self.pools();
            pools.iter().flat_map(|p| &p.replicas).filter(|r| r.health == Health::Live).count() == count
        })
    }

    /// Waits until this replica is in this state.
    #[track_caller]
    pub fn wait_health<'a>(
        &'a self,
        upstream: &'a Upstream,
        health: Health,
    ) -> impl Future<Output = ()> + 'a {
        until(move || self.replica(upstream).health == health)
    }

    /// Requests open now.
    #[must_use]
    pub fn open_requests(&self) -> u64 {
        self.app.gauges().open_requests
    }

    /// Client connections open now.
    #[must_use]
    pub fn open_connections(&self) -> u64 {
        self.app.gauges().open_connections
    }

    /// Request heads refused before they were requests.
    #[must_use]
    pub fn refused_heads(&self) -> u64 {
        self.app.gauges().refused_heads_total
    }

    /// Usage lines written so far.
    #[must_use]
    pub fn usage_count(&self) -> usize {
        self.app.sink().lines().len()
    }

    /// Waits until there are `count` usage lines, and returns them.
    #[track_caller]
    pub fn usage_lines(&self, count: usize) -> impl Future<Output = Vec<Value>> + '_ {
        let sink = Arc::clone(self.app.sink());
        patiently(async move {
            let lines = sink.wait_for(count).await;
            lines.iter().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e} in {l}"))).collect()
        })
    }

    /// The end of every case: nothing is open any more, every reservation is given back, and there are exactly as many
    /// usage lines as there were requests. Returns the lines.
    ///
    /// # Panics
    /// There are more lines than requests, or a weight is left over.
    #[track_caller]
    pub fn assert_idle(&self, requests: usize) -> impl Future<Output = Vec<Value>> + '_ {
        let lines = self.usage_lines(requests);
        let idle = until(move || {
            let held: u32 = self.pools().iter().flat_map(|p| &p.replicas).map(|r| r.inflight).sum();
            let running: u32 = self.app.keys().iter().map(|(_, usage)| usage.concurrent).sum();
            held == 0 && running == 0 && self.waiting() == 0 && self.open_requests() == 0
        });
        patiently(async move {
            let lines = lines.await;
            idle.await;
            assert_eq!(lines.len(), requests, "usage lines: {lines:#?}");
            assert_eq!(self.usage_count(), requests, "usage lines after all had ended");
            for replica in self.pools().iter().flat_map(|p| &p.replicas) {
                assert!(
                    replica.inflight_weight == 0.0,
                    "weight left at {}: {}",
                    replica.name,
                    replica.inflight_weight
                );
            }
            lines
        })
    }
}
