//! How requests fared.

use super::most;
use crate::fleet::{Outcome, Record};
use crate::scenario::seen::{Seen, left};
use sluicegate_core::Time;
use std::collections::BTreeSet;

pub(super) fn failed_before_first_byte(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let failed = |record: &&Record| {
        record.outcome != Outcome::Ok && record.first_byte.is_none() && !left(record.outcome)
    };
    let mut records = seen.records(of).peekable();
    records.peek()?;
    Some(records.filter(failed).count() as f64)
}

pub(super) fn sent_for_percent(seen: &Seen, of: Option<&str>, why: Option<&str>) -> Option<f64> {
    let reasons: Vec<&str> = seen.first_sent(of).map(|sent| sent.reason).collect();
    let so = reasons.iter().filter(|reason| Some(**reason) == why).count();
    (!reasons.is_empty()).then(|| 100.0 * so as f64 / reasons.len() as f64)
}

pub(super) fn ended_as_percent(seen: &Seen, of: Option<&str>, how: Option<&str>) -> Option<f64> {
    let outcomes: Vec<&str> = seen.records(of).map(|record| record.outcome.as_str()).collect();
    let so = outcomes.iter().filter(|outcome| Some(**outcome) == how).count();
    (!outcomes.is_empty()).then(|| 100.0 * so as f64 / outcomes.len() as f64)
}

pub(super) fn ways_to_end(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let ways: BTreeSet<Outcome> = seen.records(of).map(|record| record.outcome).collect();
    Some(ways.len() as f64)
}

pub(super) fn records_missing(seen: &Seen) -> Option<f64> {
    let mut ends = vec![0_u32; seen.jobs.len()];
    for record in seen.records(None) {
        *ends.get_mut(record.job.index())? += 1;
    }
    (!ends.is_empty()).then(|| ends.iter().filter(|ends| **ends != 1).count() as f64)
}

pub(super) fn most_attempts(seen: &Seen, of: Option<&str>) -> Option<f64> {
    most(seen.records(of).map(|record| f64::from(record.attempts)))
}

pub(super) fn replicas_hit(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let hit: BTreeSet<u32> = seen.sent(of).map(|sent| sent.replica.0).collect();
    (!hit.is_empty()).then_some(hit.len() as f64)
}

pub(super) fn longest_s(seen: &Seen, of: Option<&str>) -> Option<f64> {
    most(seen.records(of).map(|record| record.total().as_secs_f64()))
}

fn wait_p99_s(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let ttft = |record: &Record| record.ttft().map_or(f64::INFINITY, |ttft| ttft.as_secs_f64());
    let mut waits: Vec<f64> = seen.records(of).map(ttft).collect();
    waits.sort_by(f64::total_cmp);
    waits.get((waits.len() * 99).div_ceil(100).saturating_sub(1)).copied()
}

/// One that is never answered waits for ever.
pub(super) fn wait_p99_over_alone(seen: &Seen, of: Option<&str>) -> Option<f64> {
    Some(wait_p99_s(seen, of)? / wait_p99_s(seen.alone.as_ref()?, of)?)
}

/// `None` where nobody had to wait.
pub(super) fn others_sent_first(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let others: Vec<Time> =
        seen.first_sent(None).filter(|sent| !seen.is_of(sent.job, of)).map(|sent| sent.at).collect();
    let by = |at: Time, inclusive: bool| {
        others.partition_point(|other| if inclusive { *other <= at } else { *other < at })
    };
    let waited = seen.records(of).filter_map(|record| Some((record.arrival, record.sent?)));
    let waited = waited.filter(|(arrival, sent)| sent > arrival);
    most(waited.map(|(arrival, sent)| by(sent, false).saturating_sub(by(arrival, true)) as f64))
}
