//! The promises that make sense in front of real engines, through a gateway that is started for them.
//!
//! Nothing is broken, nobody is overloaded: what needs a dead replica, a flood or hours of traffic stays with the simulated
//! ones.

mod client;
mod promises;

use sluicegate_lab::load::first_model;
use sluicegate_lab::scenario::{Finding, Scenario};

use super::rows::{Row, Verdict};
use super::runs::bar;
use super::trial::Trial;
use crate::config::Loaded;
use client::Client;
use promises::Promise;

/// Why the others do not run live.
const REFUSED: &[(&str, &str)] = &[
    ("G1", "it takes two hours of agents"),
    ("G3", "it needs a prompt of 100,000 tokens"),
    ("G4", "it kills a replica"),
    ("G5", "it kills a replica"),
    ("G6", "it kills a replica every 20 s"),
    ("G8", "it needs load that others send to one replica"),
    ("G10", "it takes an hour and kills a replica"),
    ("G11", "it fills a replica's queue"),
    ("G12", "it kills every replica"),
    ("G14", "nothing runs it yet"),
    ("G15", "it crashes engines"),
    ("G16", "it floods the engines"),
    ("G18", "it needs two pools; in the simulation it runs through a whole gateway anyway"),
];

/// The promises asked for, all that can run live where none is named.
///
/// # Errors
/// One of them cannot run live, or there is none of that name.
pub(crate) fn asked(only: &[String]) -> anyhow::Result<Vec<Promise>> {
    let known = Promise::ALL.map(Promise::id).join(", ");
    let one = |id: &String| {
        let same = |other: &str| other.eq_ignore_ascii_case(id);
        let found = Promise::ALL.into_iter().find(|promise| same(promise.id()));
        let why = REFUSED.iter().find(|(other, _)| same(other));
        found.ok_or_else(|| match why {
            Some((id, why)) => anyhow::anyhow!("--live: {id} does not run live: {why}; these do: {known}"),
            None => anyhow::anyhow!("--live: no promise is {id:?}; these run live: {known}"),
        })
    };
    match only {
        [] => Ok(Promise::ALL.to_vec()),
        only => only.iter().map(one).collect(),
    }
}

/// Starts a gateway and puts the promises to the test, one after the other.
///
/// # Errors
/// The gateway does not start, or the engines do not answer it.
pub(crate) fn run(loaded: Loaded, promises: &[Promise], known: &[Scenario]) -> anyhow::Result<Vec<Row>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let trial = Trial::start(loaded).await?;
        let rows = all(&trial, promises, known).await;
        let ended = trial.finish().await;
        let rows = rows?;
        ended?;
        Ok(rows)
    })
}

async fn all(trial: &Trial, promises: &[Promise], known: &[Scenario]) -> anyhow::Result<Vec<Row>> {
    let bar = bar(promises.len());
    bar.set_message("waiting for the engines");
    bar.tick();
    trial.ready().await?;
    let mode = trial.inspect().routes().first().map_or("-", |route| route.mode);
    let model = first_model(&Client::endpoint(trial)?).await?.name;
    let client = Client::new(trial, model, mode)?;
    let mut rows = Vec::new();
    for promise in promises {
        bar.set_message(promise.id());
        let findings = match promise.put(&client).await {
            Ok(findings) => findings,
            Err(error) => vec![Finding::new(format!("{error:#}"), None, None, None)],
        };
        let passed = findings.iter().all(|finding| finding.passed);
        rows.push(Row {
            id: promise.id().to_owned(),
            promise: words(promise.id(), known),
            mode,
            stage: "live",
            findings,
            verdict: if passed { Verdict::Pass } else { Verdict::Fail },
        });
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(rows)
}

/// The promise in the words of its scenario.
fn words(id: &str, known: &[Scenario]) -> String {
    known.iter().find(|scenario| scenario.id == id).map(|s| s.promise.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_promise_runs_live_or_says_why_not() {
        let known = super::super::builtin().unwrap();
        for scenario in known {
            let runs = Promise::ALL.iter().any(|promise| promise.id() == scenario.id);
            let refused = REFUSED.iter().any(|(id, _)| *id == scenario.id);
            assert!(runs != refused, "{}", scenario.id);
            assert_eq!(asked(std::slice::from_ref(&scenario.id)).is_ok(), runs, "{}", scenario.id);
        }
        assert_eq!(asked(&[]).unwrap().len(), Promise::ALL.len());
    }
}
