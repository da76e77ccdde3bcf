//! Sources `consul` and `nomad`: blocking queries on a service catalogue. A query with the index of the last answer is
//! answered when something has changed, or after the wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hyper::HeaderMap;
use serde::Deserialize;
use sluicegate_proxy::plan::ReplicaPlan;

use super::backoff::Backoff;
use super::board::Feed;
use super::{http, url};
use crate::config::ApiPlan;

/// How long a query waits for a change; the server adds up to a sixteenth.
const WAIT: Duration = Duration::from_secs(300);
/// Between two answers: a catalogue that changes all the time is not asked all the time.
const PAUSE: Duration = Duration::from_millis(200);

/// What a catalogue speaks.
pub(super) trait Catalogue {
    /// The field that the token is sent in.
    const TOKEN: &'static str;
    /// The field that the index comes in.
    const INDEX: &'static str;
    /// What is asked for, without index and wait.
    fn path(&self) -> String;
    /// The replicas in an answer.
    fn replicas(&self, body: &[u8]) -> serde_json::Result<Vec<ReplicaPlan>>;
}

pub(super) async fn follow(api: &ApiPlan, catalogue: &impl Catalogue, feed: &Feed) -> Infallible {
    let mut backoff = Backoff::default();
    let mut index = 0;
    loop {
        let pause = match ask(api, catalogue, index).await {
            Ok((next, replicas)) => {
                feed.found(&replicas);
                backoff.reset();
                index = next;
                PAUSE
            }
            Err(error) => {
                feed.failed(&format!("{error:#}"));
                // It may have been restored from an older state.
                index = 0;
                backoff.next()
            }
        };
        tokio::time::sleep(pause).await;
    }
}

async fn ask<C: Catalogue>(
    api: &ApiPlan,
    catalogue: &C,
    index: u64,
) -> anyhow::Result<(u64, Vec<ReplicaPlan>)> {
    let path = catalogue.path();
    let mark = if path.contains('?') { '&' } else { '?' };
    let (asked, wait) = match index {
        0 => (path, http::LIMIT),
        _ => (format!("{path}{mark}index={index}&wait={}s", WAIT.as_secs()), WAIT + WAIT / 16 + http::LIMIT),
    };
    let answer = http::get(api, &asked, (C::TOKEN, ""), wait).await?;
    let next = next(index, answer.headers(), C::INDEX)?;
    let replicas = catalogue.replicas(&answer.body().await?).context("its answer cannot be read")?;
    Ok((next, replicas))
}

/// The index of the next query: one that went back begins anew, and 0 would not wait.
fn next(index: u64, headers: &HeaderMap, name: &str) -> anyhow::Result<u64> {
    let told = headers.get(name).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let told = told.with_context(|| format!("its answer has no {name}"))?;
    Ok(if told < index { 0 } else { told.max(1) })
}

/// A service of Consul's, the passing instances.
pub(super) struct Consul {
    pub(super) service: Arc<str>,
}

/// A service of Nomad's.
pub(super) struct Nomad {
    pub(super) service: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConsulEntry {
    node: Node,
    service: Service,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    address: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(default)]
    address: String,
    port: u16,
}

impl Catalogue for Consul {
    const TOKEN: &'static str = "X-Consul-Token";
    const INDEX: &'static str = "X-Consul-Index";

    fn path(&self) -> String {
        format!("/v1/health/service/{}?passing=true", encoded(&self.service))
    }

    fn replicas(&self, body: &[u8]) -> serde_json::Result<Vec<ReplicaPlan>> {
        let entries: Vec<ConsulEntry> = serde_json::from_slice(body)?;
        // A service without an address of its own is at its node's.
        let host = |entry: &ConsulEntry| match entry.service.address.is_empty() {
            true => entry.node.address.clone(),
            false => entry.service.address.clone(),
        };
        Ok(entries.iter().map(|entry| plan(&host(entry), entry.service.port)).collect())
    }
}

impl Catalogue for Nomad {
    const TOKEN: &'static str = "X-Nomad-Token";
    const INDEX: &'static str = "X-Nomad-Index";

    fn path(&self) -> String {
        format!("/v1/service/{}", encoded(&self.service))
    }

    fn replicas(&self, body: &[u8]) -> serde_json::Result<Vec<ReplicaPlan>> {
        let entries: Vec<Service> = serde_json::from_slice(body)?;
        Ok(entries.iter().map(|entry| plan(&entry.address, entry.port)).collect())
    }
}

fn plan(host: &str, port: u16) -> ReplicaPlan {
    ReplicaPlan { url: url(host, port), headers: Vec::new() }
}

/// As it stands in a path.
fn encoded(name: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    name.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_goes_back_begins_anew_and_is_never_0() {
        let next = |index, told: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-consul-index", told.parse().expect("a value"));
            next(index, &headers, "X-Consul-Index")
        };
        for (index, told, expected) in [(0, "5", 5), (5, "5", 5), (5, "9", 9), (9, "3", 0), (0, "0", 1)] {
            assert_eq!(next(index, told).ok(), Some(expected), "{index} then {told}");
        }
        assert!(next(0, "x").is_err());
    }

    #[test]
    fn a_service_is_at_its_own_address_or_at_its_nodes() {
        let urls = |replicas: Vec<ReplicaPlan>| -> Vec<String> {
            replicas.iter().map(|replica| replica.url.text.to_string()).collect()
        };
        let consul = Consul { service: "vllm chat".into() };
        assert_eq!(consul.path(), "/v1/health/service/vllm%20chat?passing=true");
        let body = r#"[
            {"Node": {"Node": "n1", "Address": "10.0.0.1"}, "Service": {"Address": "10.1.0.1", "Port": 8000}},
            {"Node": {"Node": "n2", "Address": "10.0.0.2"}, "Service": {"ID": "v", "Address": "", "Port": 8001}}
        ]"#;
        let replicas = consul.replicas(body.as_bytes()).expect("it can be read");
        assert_eq!(urls(replicas), ["http://10.1.0.1:8000", "http://10.0.0.2:8001"]);
        let nomad = Nomad { service: "vllm".into() };
        let body = r#"[{"ServiceName": "vllm", "Address": "::1", "Port": 20000, "Tags": []}]"#;
        let replicas = nomad.replicas(body.as_bytes()).expect("it can be read");
        assert_eq!(urls(replicas), ["http://[::1]:20000"]);
    }
}
