//! Where requests went, and how evenly.

use super::most;
use crate::scenario::seen::Seen;
use sluicegate_core::{ReplicaId, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// Over windows that are full of traffic: the first ends five minutes after the first request.
pub(super) fn largest_share(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let mut window: VecDeque<(Time, ReplicaId)> = VecDeque::new();
    let mut counts = vec![0_usize; seen.replicas];
    let mut first = None;
    let mut largest = None;
    for sent in seen.first_sent(of) {
        let first = *first.get_or_insert(sent.at);
        *counts.get_mut(sent.replica.0 as usize)? += 1;
        window.push_back((sent.at, sent.replica));
        while let Some((at, replica)) = window.front().copied()
            && sent.at.since(at) > FIVE_MINUTES
        {
            *counts.get_mut(replica.0 as usize)? -= 1;
            window.pop_front();
        }
        if sent.at.since(first) >= FIVE_MINUTES {
            let share = 100.0 * counts.iter().copied().max()? as f64 / window.len() as f64;
            largest = Some(largest.unwrap_or(0.0_f64).max(share));
        }
    }
    largest
}

pub(super) fn imbalance_above_3_for(seen: &Seen) -> Option<f64> {
    let mut longest = Duration::ZERO;
    let mut since = None;
    for sample in &seen.samples {
        match sample.imbalance > 3.0 {
            true => longest = longest.max(sample.at.since(*since.get_or_insert(sample.at))),
            false => since = None,
        }
    }
    (!seen.samples.is_empty()).then_some(longest.as_secs_f64())
}

fn counts(seen: &Seen, of: Option<&str>) -> Option<Vec<f64>> {
    let mut counts = vec![0.0; seen.replicas];
    let mut any = false;
    for sent in seen.first_sent(of) {
        *counts.get_mut(sent.replica.0 as usize)? += 1.0;
        any = true;
    }
    any.then_some(counts)
}

pub(super) fn spread_of(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let counts = counts(seen, of)?;
    let least = counts.iter().copied().reduce(f64::min)?;
    Some(most(counts.into_iter())? - least)
}

pub(super) fn off_even_percent(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let counts = counts(seen, of)?;
    let even = counts.iter().sum::<f64>() / counts.len() as f64;
    most(counts.into_iter().map(|count| 100.0 * (count - even).abs() / even))
}

pub(super) fn replicas_used(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let used: BTreeSet<u32> = seen.sent(of).map(|sent| sent.replica.0).collect();
    Some(used.len() as f64)
}

/// Requests of `of` that went to the one request of `beside` before it had its first byte, or its end.
pub(super) fn sent_beside(
    seen: &Seen,
    of: Option<&str>,
    beside: Option<&str>,
    to_its_end: bool,
) -> Option<f64> {
    let heavy = seen.sent(beside).next()?;
    let record = seen.records(beside).next()?;
    let until = if to_its_end { record.end } else { record.first_byte? };
    let meanwhile = || seen.sent(of).filter(|sent| sent.at >= heavy.at && sent.at < until);
    meanwhile().next()?;
    Some(meanwhile().filter(|sent| sent.replica == heavy.replica && sent.job != heavy.job).count() as f64)
}

pub(super) fn past_a_free_one(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let mut choices = seen.choices.iter().filter(|choice| seen.is_of(choice.job, of)).peekable();
    choices.peek()?;
    Some(choices.filter(|choice| choice.past_a_free_one).count() as f64)
}

pub(super) fn predicted_late_ms(seen: &Seen, of: Option<&str>) -> Option<f64> {
    let choices = seen.choices.iter().filter(|choice| seen.is_of(choice.job, of));
    most(choices.filter_map(|choice| choice.late_ms))
}
