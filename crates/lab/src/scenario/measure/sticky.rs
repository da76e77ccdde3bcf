//! Sessions and their warm replicas.

use crate::scenario::seen::{Seen, Sent};
use sluicegate_core::ReplicaId;
use std::collections::BTreeMap;
use std::time::Duration;

/// Replicas of the turns of each session.
fn journeys(seen: &Seen, of: Option<&str>) -> Option<Vec<Vec<ReplicaId>>> {
    let mut sessions: BTreeMap<(usize, u32), Vec<ReplicaId>> = BTreeMap::new();
    for sent in seen.first_sent(of) {
        let origin = seen.origin(sent.job)?;
        sessions.entry((origin.group, origin.session)).or_default().push(sent.replica);
    }
    Some(sessions.into_values().collect())
}

/// Of the turns after the first, those that `count` counts in a session's journey, in percent.
fn percent_of_turns(seen: &Seen, of: Option<&str>, count: impl Fn(&[ReplicaId]) -> usize) -> Option<f64> {
    let journeys = journeys(seen, of)?;
    let turns: usize = journeys.iter().map(|went| went.len().saturating_sub(1)).sum();
    let counted: usize = journeys.iter().map(|went| count(went)).sum();
    (turns > 0).then(|| 100.0 * counted as f64 / turns as f64)
}

pub(super) fn turns_stayed_percent(seen: &Seen, of: Option<&str>) -> Option<f64> {
    percent_of_turns(seen, of, |went| went.windows(2).filter(|pair| pair.first() == pair.last()).count())
}

pub(super) fn turns_at_home_percent(seen: &Seen, of: Option<&str>) -> Option<f64> {
    percent_of_turns(seen, of, |went| {
        let times = |replica: &ReplicaId| went.iter().filter(|other| *other == replica).count();
        let home = went.iter().max_by_key(|replica| times(replica));
        went.iter().skip(1).filter(|replica| Some(*replica) == home).count()
    })
}

/// A scrape interval and a bit: by then the load from elsewhere has been seen.
const SEEN_AFTER: Duration = Duration::from_secs(4);

/// Turns after the first load from elsewhere has been seen, and where that load is.
fn under_load<'a>(seen: &'a Seen, of: Option<&'a str>) -> Option<(ReplicaId, Vec<Sent>)> {
    let (at, loaded) = seen.elsewhere.first().copied()?;
    let turns: Vec<Sent> = seen.first_sent(of).filter(|sent| sent.at >= at + SEEN_AFTER).collect();
    (!turns.is_empty()).then_some((loaded, turns))
}

/// Counted from the first turn that left the load; `None` where the gateway never moved the session.
pub(super) fn turns_until_moved(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let (at, loaded) = seen.elsewhere.first().copied()?;
    let away: Vec<Sent> =
        seen.first_sent(of).filter(|sent| sent.at >= at && sent.replica != loaded).collect();
    away.iter().position(|sent| sent.reason == "rebind").map(|index| (index + 1) as f64)
}

pub(super) fn turns_into_load(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let (loaded, turns) = under_load(seen, of)?;
    Some(turns.iter().filter(|sent| sent.replica == loaded).count() as f64)
}

pub(super) fn followed_a_pin(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let mut sent = seen.sent(of).peekable();
    sent.peek()?;
    Some(sent.filter(|sent| sent.reason.starts_with("affinity")).count() as f64)
}

pub(super) fn cached_tokens(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let mut records = seen.records(of).peekable();
    records.peek()?;
    Some(records.map(|record| f64::from(record.cached_tokens)).sum())
}
