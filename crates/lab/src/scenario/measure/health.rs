//! Ejections and returns.

use super::most;
use crate::fleet::Happening;
use crate::scenario::seen::Seen;
use sluicegate_core::{Health, ReplicaId, Time, Transition};
use std::collections::BTreeMap;
use std::time::Duration;

/// By the health rules: good scrapes that end an ejection, and the trial after it.
const GOOD_SCRAPES: usize = 2;
const TRIAL: Duration = Duration::from_secs(15);

pub(super) fn sent_while_out(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let mut out: BTreeMap<u32, bool> = BTreeMap::new();
    let (mut sent, mut wrong) = (0, 0);
    for happening in &seen.happenings {
        match happening {
            Happening::Transition(t) => {
                out.insert(t.replica.0, !matches!(t.to, Health::Live | Health::Probing));
            }
            Happening::Sent { job, replica, reason, .. } if seen.is_of(*job, of) => {
                sent += 1;
                let is_out = out.get(&replica.0).copied().unwrap_or(true);
                wrong += usize::from(is_out && *reason != "last_resort");
            }
            _ => {}
        }
    }
    (sent > 0).then_some(wrong as f64)
}

/// For every way from EJECTED over PROBING to LIVE: how far each of the two steps was from its moment.
pub(super) fn return_off_by_ms(seen: &Seen) -> Option<f64> {
    let transitions: Vec<&Transition> = seen.transitions().collect();
    let mut off = None;
    for (index, back) in transitions.iter().enumerate() {
        let before = |to| transitions[..index].iter().rev().find(|t| t.replica == back.replica && t.to == to);
        if back.to != Health::Live || back.from != Health::Probing {
            continue;
        }
        let (probing, ejected) = (before(Health::Probing)?, before(Health::Ejected)?);
        let cooldown_over = ejected.at + ejected.cooldown?;
        let due = cooldown_over.max(second_good_scrape(seen, back.replica, ejected.at, probing.at)?);
        let step = apart(probing.at, due) + apart(back.at, probing.at + TRIAL);
        off = Some(off.unwrap_or(0.0) + step.as_secs_f64() * 1e3);
    }
    off
}

fn apart(a: Time, b: Time) -> Duration {
    a.since(b).max(b.since(a))
}

/// When the run of good scrapes that led to PROBING had as many as are needed.
fn second_good_scrape(seen: &Seen, replica: ReplicaId, ejected: Time, probing: Time) -> Option<Time> {
    let within = |at: Time| at > ejected && at <= probing;
    let scrapes = seen.scrapes.iter().filter(|scrape| scrape.replica == replica && within(scrape.at));
    let mut run = Vec::new();
    for scrape in scrapes {
        match scrape.good {
            true => run.push(scrape.at),
            false => run.clear(),
        }
    }
    run.get(GOOD_SCRAPES - 1).copied()
}

pub(super) fn returns(seen: &Seen) -> Option<f64> {
    let back = |t: &&Transition| t.from == Health::Probing && t.to == Health::Live;
    Some(seen.transitions().filter(back).count() as f64)
}

/// `None` where a fault was followed by no ejection.
pub(super) fn ejected_after_s(seen: &Seen) -> Option<f64> {
    let after = |(at, replica): &(Time, ReplicaId)| {
        let ejected = |t: &&Transition| t.replica == *replica && t.to == Health::Ejected && t.at >= *at;
        Some(seen.transitions().find(ejected)?.at.since(*at).as_secs_f64())
    };
    let times: Option<Vec<f64>> = seen.faults.iter().map(after).collect();
    most(times?.into_iter())
}

pub(super) fn ejections(seen: &Seen, why: Option<&str>) -> Option<f64> {
    let counts = |t: &&Transition| t.to == Health::Ejected && why.is_none_or(|why| why == t.reason.as_str());
    Some(seen.transitions().filter(counts).count() as f64)
}

pub(super) fn cooldowns_off(seen: &Seen) -> Option<f64> {
    let cooldowns: Vec<u64> = seen.transitions().filter_map(|t| t.cooldown).map(|c| c.as_secs()).collect();
    let expected = [30, 60, 120, 240].into_iter().chain(std::iter::repeat(300));
    let off = cooldowns.iter().zip(expected).filter(|(seen, expected)| *seen != expected).count();
    (!cooldowns.is_empty()).then_some(off as f64)
}

pub(super) fn pins_on_probing(seen: &Seen) -> Option<f64> {
    let held = seen.samples.iter().map(|sample| sample.pins_on_probing).sum::<usize>();
    let mut probing: BTreeMap<u32, bool> = BTreeMap::new();
    let (mut trials, mut followed) = (0, 0);
    for happening in &seen.happenings {
        match happening {
            Happening::Transition(t) => {
                probing.insert(t.replica.0, t.to == Health::Probing);
                trials += usize::from(t.to == Health::Probing);
            }
            Happening::Sent { replica, reason, .. } if probing.get(&replica.0) == Some(&true) => {
                followed += usize::from(reason.starts_with("affinity"));
            }
            _ => {}
        }
    }
    (trials > 0).then_some((held + followed) as f64)
}
