//! `/sim/fault`: switches faults over HTTP.

use super::super::problem::Problem;
use super::board::{Board, Faults};
use crate::fault::{BadFault, FaultSpec, is_kind};
use http::Method;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Answers a request for `/sim/fault` at replica `here`, once every replica is as asked for.
pub(in super::super) async fn administer(
    board: &Board,
    here: usize,
    method: &Method,
    query: Option<&str>,
    body: &[u8],
) -> Result<String, Problem> {
    let changed = match *method {
        Method::POST => set(board, here, body),
        Method::DELETE => clear(board, here, query.unwrap_or_default()),
        _ => Ok(Vec::new()),
    };
    let changed = changed.map_err(|bad| Problem::Refused { message: bad.to_string(), param: "fault" })?;
    for faults in changed {
        faults.settled().await;
    }
    Ok(state(board))
}

fn set<'a>(board: &'a Board, here: usize, body: &[u8]) -> Result<Vec<&'a Arc<Faults>>, BadFault> {
    let fields: Map<String, Value> =
        serde_json::from_slice(body).map_err(|error| BadFault(format!("not a JSON object: {error}")))?;
    let spec = FaultSpec::from_json(&fields)?.over_http()?;
    let asked = match fields.get("replica") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(other) => Some(other.to_string()),
    };
    let chosen = choose(board, here, asked.as_deref())?;
    chosen.iter().for_each(|faults| faults.set(spec));
    Ok(chosen)
}

fn clear<'a>(board: &'a Board, here: usize, query: &str) -> Result<Vec<&'a Arc<Faults>>, BadFault> {
    let (mut kind, mut replica) = (None, None);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("kind", value)) if is_kind(value) => kind = Some(value),
            Some(("replica", value)) => replica = Some(value),
            _ => return Err(BadFault(format!("{pair:?}: expected kind=KIND or replica=INDEX"))),
        }
    }
    let chosen = choose(board, here, replica)?;
    chosen.iter().for_each(|faults| faults.clear(kind));
    Ok(chosen)
}

/// The replica with that index, all of them, or the one that was asked.
fn choose<'a>(board: &'a Board, here: usize, asked: Option<&str>) -> Result<Vec<&'a Arc<Faults>>, BadFault> {
    let index = match asked {
        Some("all") => return Ok(board.all().iter().collect()),
        None => Some(here),
        Some(index) => index.parse().ok(),
    };
    let one = index.and_then(|index| board.of(index)).map(|faults| vec![faults]);
    one.ok_or_else(|| {
        let (asked, count) = (asked.unwrap_or_default(), board.all().len());
        BadFault(format!("there is no replica {asked:?}: expected \"all\" or an index below {count}"))
    })
}

fn state(board: &Board) -> String {
    let replicas = board.all().iter().enumerate().map(|(index, faults)| {
        let list: Vec<_> = faults.list().into_iter().map(FaultSpec::to_json).collect();
        json!({"replica": index, "listening": faults.is_listening(), "faults": list})
    });
    json!({"replicas": replicas.collect::<Vec<_>>()}).to_string()
}
