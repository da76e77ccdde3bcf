//! Source `gpustack`: the running instances of a model, listed and then watched. The watch is begun before the list is
//! read, so that no change falls between them, and instances are kept by their number, so that one told twice is one.

mod events;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use sluicegate_proxy::plan::{Credential, ReplicaPlan};

use self::events::{Event, Events};
use super::backoff::Backoff;
use super::board::Feed;
use super::{http, url};
use crate::config::{ApiPlan, Via};

/// A watch that says nothing for so long, no heartbeat either, is dead.
const SILENCE: Duration = Duration::from_secs(90);
/// The port of a worker.
const WORKER: u16 = 10_150;
/// What a request through a worker says whom it is for.
const INSTANCE: &str = "x-gpustack-model-instance";
/// Most pages of a list.
const PAGES: u32 = 100;

/// One instance as the API tells of it.
#[derive(Debug, Clone, Deserialize)]
struct Instance {
    id: u64,
    model_id: Option<u64>,
    state: Option<String>,
    worker_ip: Option<String>,
    worker_advertise_address: Option<String>,
    port: Option<u16>,
    draining_since: Option<serde_json::Value>,
    role: Option<String>,
}

#[derive(Deserialize)]
struct Page {
    items: Vec<Instance>,
    pagination: Option<Pagination>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    total_page: Option<u32>,
}

pub(super) async fn follow(api: &ApiPlan, model_id: u32, via: Via, feed: &Feed) -> Infallible {
    let mut backoff = Backoff::default();
    loop {
        let Err(error) = watch(api, model_id, via, feed, &mut backoff).await;
        feed.failed(&format!("{error:#}"));
        tokio::time::sleep(backoff.next()).await;
    }
}

async fn watch(
    api: &ApiPlan,
    model_id: u32,
    via: Via,
    feed: &Feed,
    backoff: &mut Backoff,
) -> anyhow::Result<Infallible> {
    let token = ("authorization", "Bearer ");
    // Without the state: who leaves it must be told of, too.
    let path = format!("/v2/model-instances?model_id={model_id}&watch=true");
    let mut stream = http::get(api, &path, token, http::LIMIT).await.context("watch")?;
    let mut instances = list(api, model_id).await.context("list")?;
    let mut events = Events::default();
    feed.found(&replicas(&instances, model_id, via));
    backoff.reset();
    loop {
        let piece = tokio::time::timeout(SILENCE, stream.piece()).await;
        let Some(piece) = piece.context("watch: no heartbeat for 90 s")?? else {
            bail!("watch: it has ended");
        };
        let mut changed = false;
        for event in events.read(&piece)? {
            changed = true;
            match event {
                Event::Is(instance) => drop(instances.insert(instance.id, instance)),
                Event::Gone(id) => drop(instances.remove(&id)),
            }
        }
        if changed {
            feed.found(&replicas(&instances, model_id, via));
        }
    }
}

async fn list(api: &ApiPlan, model_id: u32) -> anyhow::Result<BTreeMap<u64, Instance>> {
    let mut instances = BTreeMap::new();
    for page in 1..=PAGES {
        let more = if page > 1 { format!("&page={page}") } else { String::new() };
        let path = format!("/v2/model-instances?model_id={model_id}&state=running{more}");
        let answer = http::get(api, &path, ("authorization", "Bearer "), http::LIMIT).await?;
        let Page { items, pagination } =
            serde_json::from_slice(&answer.body().await?).context("its answer cannot be read")?;
        instances.extend(items.into_iter().map(|instance| (instance.id, instance)));
        if pagination.and_then(|pages| pages.total_page).is_none_or(|last| page >= last) {
            return Ok(instances);
        }
    }
    bail!("more than {PAGES} pages")
}

/// Those that take requests, in the order of their numbers.
fn replicas(instances: &BTreeMap<u64, Instance>, model_id: u32, via: Via) -> Vec<ReplicaPlan> {
    let of_model = |instance: &&Instance| instance.model_id.is_none_or(|id| id == u64::from(model_id));
    instances.values().filter(of_model).filter_map(|instance| instance.replica(model_id, via)).collect()
}

impl Instance {
    fn replica(&self, model_id: u32, via: Via) -> Option<ReplicaPlan> {
        let draining = self.draining_since.as_ref().is_some_and(|since| !since.is_null());
        // Of a group one instance takes the requests and passes them on.
        let entrance = self.role.as_deref().is_none_or(|role| role.is_empty() || role == "router");
        if self.state.as_deref() != Some("running") || draining || !entrance {
            return None;
        }
        let named = |host: &&String| !host.is_empty();
        let advertised = self.worker_advertise_address.as_ref().filter(named);
        let host = advertised.or(self.worker_ip.as_ref()).filter(named)?;
        Some(match via {
            Via::Direct => ReplicaPlan { url: url(host, self.port?), headers: Vec::new() },
            Via::Worker => {
                let mut url = url(host, WORKER);
                let instance = format!("model-{model_id}-{}.static", self.id);
                // Instances of one worker have one address: the name tells them apart.
                url.text = format!("{}#{instance}", url.text).into();
                ReplicaPlan { url, headers: vec![(INSTANCE.into(), Credential(instance.into()))] }
            }
        })
    }
}

#[cfg(test)]
mod tests;
