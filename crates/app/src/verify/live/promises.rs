//! What each promise asks, and what it measures.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sluicegate_lab::client::Outcome;
use sluicegate_lab::scenario::Finding;

use super::client::{Client, leave, stream, user, whole};
use crate::verify::trial::at_once;

/// A promise that runs live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Bursts are spread.
    G2,
    /// Sessions stay.
    G7,
    /// A shared system prompt is spread.
    G9,
    /// Nothing is left behind.
    G13,
    /// Long answers are delivered whole.
    G17,
}

/// Tokens of an answer that is to last as long as its burst takes to arrive.
const BURST_TOKENS: u32 = 48;
/// Long for an engine on a CPU, and within the context of small models.
const LONG_TOKENS: u32 = 400;
const SESSIONS: usize = 4;
const TURNS: usize = 6;
const WAVES: usize = 3;
/// Of each kind of end.
const OF_EACH: usize = 8;

impl Promise {
    pub(crate) const ALL: [Self; 5] = [Self::G2, Self::G7, Self::G9, Self::G13, Self::G17];

    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::G2 => "G2",
            Self::G7 => "G7",
            Self::G9 => "G9",
            Self::G13 => "G13",
            Self::G17 => "G17",
        }
    }

    pub(super) async fn put(self, client: &Client<'_>) -> anyhow::Result<Vec<Finding>> {
        match self {
            Self::G2 => bursts(client).await,
            Self::G7 => sessions(client).await,
            Self::G9 => newcomers(client).await,
            Self::G13 => ends(client).await,
            Self::G17 => long_answers(client).await,
        }
    }
}

async fn bursts(client: &Client<'_>) -> anyhow::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for size in [4, 8, 16] {
        client.idle().await?;
        let before = client.seen();
        let body = |n: usize| {
            let text = format!("Burst of {size}, number {n}: count upwards.");
            client.body(&[user(&text)], BURST_TOKENS, false)
        };
        let good = at_once((0..size).map(|n| whole(client.endpoint.clone(), body(n)))).await;
        anyhow::ensure!(good.iter().all(|good| *good), "a request of a burst was not answered");
        let (most, fewest) = client.extremes(&client.lines(before, size).await);
        let what = format!("most minus fewest requests of a replica of burst of {size}");
        findings.push(Finding::new(what, Some(most - fewest), None, Some(1.0)));
    }
    Ok(findings)
}

async fn sessions(client: &Client<'_>) -> anyhow::Result<Vec<Finding>> {
    client.idle().await?;
    let before = client.seen();
    let mut talks: Vec<Vec<Value>> = vec![Vec::new(); SESSIONS];
    for turn in 0..TURNS {
        for (session, talk) in talks.iter_mut().enumerate() {
            talk.push(user(&format!("Talk {session}, turn {turn}: go on.")));
            let body = client.body(talk, 16, true);
            let (outcome, told) =
                stream(client.endpoint.clone(), format!("verify-{before}-{session}"), body).await;
            anyhow::ensure!(outcome == Outcome::Ok, "turn {turn} ended by: {outcome}");
            talk.push(json!({ "role": "assistant", "content": told.text }));
        }
    }
    let lines = client.lines(before, SESSIONS * TURNS).await;
    let replica = |line: &Value| line.get("replica").cloned();
    // Turn by turn, in each the sessions in their order.
    let pairs = lines.iter().zip(lines.iter().skip(SESSIONS));
    let stayed = pairs.filter(|(earlier, later)| replica(earlier) == replica(later)).count();
    let percent = 100.0 * stayed as f64 / (SESSIONS * (TURNS - 1)) as f64;
    let least = if client.mode == "adaptive" { 80.0 } else { 95.0 };
    let what = "turns that went where the one before went, %".to_owned();
    Ok(vec![Finding::new(what, Some(percent), Some(least), None)])
}

/// In waves, so that a fast engine does not simply take more.
async fn newcomers(client: &Client<'_>) -> anyhow::Result<Vec<Finding>> {
    let before = client.seen();
    let size = 4 * client.replicas();
    let system = json!({ "role": "system", "content": format!("Trial {before}. {}", "Answer in short words. ".repeat(40)) });
    for wave in 0..WAVES {
        client.idle().await?;
        let calls = (0..size).map(|n| {
            let messages = [system.clone(), user(&format!("Wave {wave}, newcomer {n}: hello."))];
            let body = client.body(&messages, BURST_TOKENS, true);
            stream(client.endpoint.clone(), format!("verify-{before}-{wave}-{n}"), body)
        });
        let good = at_once(calls).await.iter().all(|(outcome, _)| *outcome == Outcome::Ok);
        anyhow::ensure!(good, "a newcomer was not answered");
    }
    let (most, fewest) = client.extremes(&client.lines(before, WAVES * size).await);
    let even = (WAVES * size) as f64 / client.replicas() as f64;
    let off = 100.0 * (most - even).max(even - fewest) / even;
    Ok(vec![Finding::new("furthest from even, %".into(), Some(off), None, Some(20.0))])
}

/// Whole answers, streams, clients that leave in the middle, and requests that are refused, all at the same time.
async fn ends(client: &Client<'_>) -> anyhow::Result<Vec<Finding>> {
    let before = client.seen();
    let calls = (0..4 * OF_EACH).map(|n| {
        let (endpoint, session) = (client.endpoint.clone(), format!("verify-{before}-{n}"));
        let long = client.body(&[user(&format!("End {n}: count."))], LONG_TOKENS, true);
        let short = client.body(&[user(&format!("End {n}: count."))], 16, n % 4 == 1);
        async move {
            match n % 4 {
                0 => _ = whole(endpoint, short).await,
                1 => _ = stream(endpoint, session, short).await,
                2 => leave(endpoint, session, long).await,
                _ => _ = whole(endpoint, "{\"model\":".into()).await,
            }
        }
    });
    let sent = at_once(calls).await.len();
    let left = client.left_behind().await;
    let lines = client.lines(before, sent).await;
    let outcomes: BTreeSet<&str> = lines.iter().filter_map(|line| line.get("outcome")?.as_str()).collect();
    let missing = (lines.len() as f64 - sent as f64).abs();
    Ok(vec![
        Finding::new("left behind".into(), Some(left as f64), None, Some(0.0)),
        Finding::new("requests without exactly one usage line".into(), Some(missing), None, Some(0.0)),
        Finding::new("distinct ends".into(), Some(outcomes.len() as f64), Some(3.0), None),
    ])
}

async fn long_answers(client: &Client<'_>) -> anyhow::Result<Vec<Finding>> {
    let (before, ejected) = (client.seen(), client.ejections());
    let body = |stream| client.body(&[user("Count upwards for as long as you may.")], LONG_TOKENS, stream);
    let calls = [true, false].map(|streams| {
        let (endpoint, body) = (client.endpoint.clone(), body(streams));
        async move {
            match streams {
                true => stream(endpoint, "verify-long".into(), body).await.0 == Outcome::Ok,
                false => whole(endpoint, body).await,
            }
        }
    });
    let good = at_once(calls).await.iter().filter(|good| **good).count();
    let lines = client.lines(before, 2).await;
    let most = |field: &str| {
        let numbers = lines.iter().filter_map(|line| line.get(field)?.as_f64());
        numbers.reduce(f64::max)
    };
    let longest = most("total_ms").unwrap_or(0.0) / 1e3;
    let what = format!("delivered whole, % (a stream and a whole answer; the longer took {longest:.1} s)");
    Ok(vec![
        Finding::new(what, Some(50.0 * good as f64), Some(100.0), None),
        Finding::new("most attempts of a request".into(), most("attempts"), None, Some(1.0)),
        Finding::new("ejections".into(), Some((client.ejections() - ejected) as f64), None, Some(0.0)),
    ])
}
