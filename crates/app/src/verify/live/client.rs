//! What the promises ask of the gateway, and what they read of its usage lines.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sluicegate_lab::client::{Endpoint, Outcome, Told};
use tokio::sync::Notify;

use super::super::trial::{Trial, until};

/// How long the engines may take until nothing runs any more by their own numbers.
const IDLE_WITHIN: Duration = Duration::from_secs(120);
/// How long a usage line may take after its answer.
const LINE_WITHIN: Duration = Duration::from_secs(30);

pub(super) struct Client<'a> {
    trial: &'a Trial,
    pub(super) endpoint: Endpoint,
    model: String,
    /// The mode of the gateway's route.
    pub(super) mode: &'static str,
}

impl<'a> Client<'a> {
    pub(super) fn new(trial: &'a Trial, model: String, mode: &'static str) -> anyhow::Result<Self> {
        Ok(Self { trial, endpoint: Self::endpoint(trial)?, model, mode })
    }

    pub(super) fn endpoint(trial: &Trial) -> anyhow::Result<Endpoint> {
        Ok(Endpoint::new(&format!("http://{}", trial.address()), None)?)
    }

    /// A chat completion of exactly so many tokens, where the engine lets us ask for that.
    pub(super) fn body(&self, messages: &[Value], tokens: u32, stream: bool) -> Bytes {
        let body = json!({ "model": self.model, "messages": messages, "max_tokens": tokens, "ignore_eos": true,
            "stream": stream });
        body.to_string().into()
    }

    pub(super) fn replicas(&self) -> usize {
        self.trial.replicas().len()
    }

    pub(super) fn ejections(&self) -> u64 {
        self.trial.replicas().iter().map(|replica| replica.ejections).sum()
    }

    /// Waits until nothing runs, by our own counts and by the last scrape of every engine.
    pub(super) async fn idle(&self) -> anyhow::Result<()> {
        let idle = || self.trial.replicas().iter().all(|one| one.effective_running == 0.0);
        let is_idle = until(IDLE_WITHIN, idle).await;
        anyhow::ensure!(is_idle, "the engines are not idle: others send requests, too");
        Ok(())
    }

    /// Requests that the gateway counts as open, or in flight at a replica, or waiting; waits for them to end.
    pub(super) async fn left_behind(&self) -> u64 {
        let left = || {
            let inflight: u64 = self.trial.replicas().iter().map(|one| u64::from(one.inflight)).sum();
            let waiting: usize = self.trial.inspect().queues().iter().map(|queue| queue.waiting).sum();
            self.trial.inspect().gauges().open_requests + inflight + waiting as u64
        };
        until(LINE_WITHIN, || left() == 0).await;
        left()
    }

    pub(super) fn seen(&self) -> usize {
        self.trial.lines().len()
    }

    /// The usage lines after the first `before`, once there are `count` of them or no more come.
    pub(super) async fn lines(&self, before: usize, count: usize) -> Vec<Value> {
        until(LINE_WITHIN, || self.seen() >= before + count).await;
        let parsed = self.trial.lines().into_iter().skip(before);
        parsed.filter_map(|line| serde_json::from_str(&line).ok()).collect()
    }

    /// Most and fewest of these lines at a replica.
    pub(super) fn extremes(&self, lines: &[Value]) -> (f64, f64) {
        let mut counts: BTreeMap<String, u32> =
            self.trial.replicas().into_iter().map(|replica| (replica.name, 0)).collect();
        for count in lines.iter().filter_map(|line| counts_of(line, "replica")) {
            *counts.entry(count).or_default() += 1;
        }
        let (most, fewest) = (counts.values().max(), counts.values().min());
        (f64::from(most.copied().unwrap_or(0)), f64::from(fewest.copied().unwrap_or(0)))
    }
}

fn counts_of(line: &Value, field: &str) -> Option<String> {
    Some(line.get(field)?.as_str()?.to_owned())
}

pub(super) fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Sends a chat completion; true: it was answered whole.
pub(super) async fn whole(endpoint: Endpoint, body: Bytes) -> bool {
    endpoint.post("/v1/chat/completions", body).await.is_ok_and(|answer| answer.status == 200)
}

/// The same as a stream, read to its end.
pub(super) async fn stream(endpoint: Endpoint, session: String, body: Bytes) -> (Outcome, Told) {
    endpoint.stream("/v1/chat/completions", &session, body, |_| {}).await
}

/// The same, left at its first token.
pub(super) async fn leave(endpoint: Endpoint, session: String, body: Bytes) {
    let first = Notify::new();
    tokio::select! {
        _ = endpoint.stream("/v1/chat/completions", &session, body, |_| first.notify_one()) => {}
        () = first.notified() => {}
    }
}
