//! G18 through a whole gateway: two pools of simulated replicas, a route with weights, and the usage lines counted.

use std::net::SocketAddr;

use serde_json::Value;
use sluicegate_lab::client::Endpoint;
use sluicegate_lab::engine::Profile;
use sluicegate_lab::scenario::Finding;
use sluicegate_lab::sim::{Sim, SimConfig};

use super::trial::Trial;
use crate::config::{Config, Overrides};

/// What the smaller of weights 100 and 300 is due, in percent, and how far it may be off.
const DUE: f64 = 25.0;
const OFF: f64 = 1.0;
const REQUESTS: usize = 1_000;

/// Replicas 1/3, then 2/2.
pub(crate) fn run() -> Vec<Finding> {
    let splits = [(1, "replicas 1/3"), (2, "replicas 2/2")];
    let finding = |(first, name): (usize, &str)| {
        let what = format!("share of weight 100 beside 300, {name}, %");
        match share(first) {
            Ok(share) => Finding::new(what, Some(share), Some(DUE - OFF), Some(DUE + OFF)),
            Err(error) => Finding::new(format!("{what}: {error:#}"), None, Some(DUE - OFF), Some(DUE + OFF)),
        }
    };
    splits.into_iter().map(finding).collect()
}

/// The first pool's share of the requests, in percent, where it has so many of the four replicas.
fn share(first: usize) -> anyhow::Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let profile = Profile::named("fast").unwrap_or_default();
        let sim = Sim::start(SimConfig { replicas: 4, profile, ..SimConfig::default() })?;
        let counted = through_a_gateway(&configuration(&sim.addrs(), first)).await;
        sim.shutdown().await;
        counted
    })
}

async fn through_a_gateway(configuration: &str) -> anyhow::Result<f64> {
    let loaded = Config::from_text("G18", configuration, &Overrides::default(), &|_| None);
    let trial = Trial::start(loaded.map_err(|wrong| anyhow::anyhow!("{wrong}"))?).await?;
    let asked = match trial.ready().await {
        Ok(()) => ask(trial.address()).await,
        Err(error) => Err(error),
    };
    let lines = trial.finish().await;
    asked?;
    counted(&lines?)
}

fn configuration(replicas: &[SocketAddr], first: usize) -> String {
    let urls: Vec<String> = replicas.iter().map(|address| format!("\"http://{address}\"")).collect();
    let (one, other) = urls.split_at(first.min(urls.len()));
    format!(
        "listen = {{ address = \"127.0.0.1:0\" }}\nadmin = {{ address = \"127.0.0.1:0\" }}\nusage = {{ output = \"off\" }}\n\
         [[pools]]\nname = \"one\"\nreplicas = [{}]\n[[pools]]\nname = \"other\"\nreplicas = [{}]\n\
         [[routes]]\nmodel = \"sim\"\n\
         targets = [{{ pool = \"one\", weight = 100 }}, {{ pool = \"other\", weight = 300 }}]\n",
        one.join(", "),
        other.join(", ")
    )
}

async fn ask(address: SocketAddr) -> anyhow::Result<()> {
    let endpoint = Endpoint::new(&format!("http://{address}"), None)?;
    let body = r#"{"model":"sim","max_tokens":1,"messages":[{"role":"user","content":"Hello"}]}"#;
    for _ in 0..REQUESTS {
        let answer = endpoint.post("/v1/chat/completions", body.into()).await;
        let answer = answer.map_err(|outcome| anyhow::anyhow!("a request ended by: {outcome}"))?;
        anyhow::ensure!(answer.status == 200, "a request got status {}", answer.status);
    }
    Ok(())
}

fn counted(lines: &[String]) -> anyhow::Result<f64> {
    let pool = |line: &String| {
        let line: Value = serde_json::from_str(line).ok()?;
        line.get("pool")?.as_str().map(str::to_owned)
    };
    let pools: Vec<String> = lines.iter().filter_map(pool).collect();
    anyhow::ensure!(pools.len() == REQUESTS, "{} usage lines of {REQUESTS} requests", pools.len());
    Ok(100.0 * pools.iter().filter(|pool| *pool == "one").count() as f64 / pools.len() as f64)
}
