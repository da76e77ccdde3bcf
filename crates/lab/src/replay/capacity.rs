//! How fast recorded traffic may come before round robin cannot keep up.

use super::{at_speed, run};
use crate::fleet::{Job, Outcome, Record, Settings};
use crate::rivals::{Bench, RoundRobin};
use sluicegate_core::Time;

/// Replicas that are simulated at most: under round robin none knows of the others, so that a few stand for all.
const SAMPLED: usize = 8;
/// The search ends when the speed is known to this part.
const PRECISE: f64 = 0.01;
/// Round robin keeps up where the last fifth of the requests waits at most so many times as long for a first byte as
/// the same requests at a tenth of the speed would, on the mean.
const KEEPS_UP: f64 = 10.0;

/// The traffic's speed, against its own, at which round robin just keeps up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Times as fast as recorded.
    pub speed: f64,
    /// Requests per second of the whole fleet at that speed.
    pub requests_per_second: f64,
}

/// Finds it by bisection.
#[must_use]
pub fn capacity(settings: &Settings, jobs: &[Job]) -> Capacity {
    let replicas = settings.replicas.max(1);
    let sampled = replicas.min(SAMPLED);
    let step = replicas / sampled;
    let part: Vec<Job> = jobs
        .iter()
        .enumerate()
        .filter(|(index, _)| (index % replicas).is_multiple_of(step) && (index % replicas) / step < sampled)
        .map(|(_, job)| job.clone())
        .collect();
    let fleet = Settings { replicas: sampled, ..settings.clone() };
    let late_ttft = |speed: f64| {
        let jobs = at_speed(&part, speed);
        let run = run(&fleet, Bench::new(RoundRobin::default(), sampled), &jobs, |_| {});
        mean_of_last_fifth(&run.records, &jobs)
    };
    let span = span(jobs);
    let recorded = jobs.len() as f64 / span;
    // A speed at which each replica gets a request in ten seconds leaves all of them idle most of the time.
    let (mut slow, mut fast) = (0.1 * replicas as f64 / recorded, f64::INFINITY);
    let bound = KEEPS_UP * late_ttft(slow);
    while fast / slow > 1.0 + PRECISE {
        let speed = if fast.is_finite() { (slow * fast).sqrt() } else { slow * 2.0 };
        if late_ttft(speed) <= bound && speed < 1e6 {
            slow = speed;
        } else {
            fast = speed;
        }
    }
    Capacity { speed: slow, requests_per_second: slow * recorded }
}

fn mean_of_last_fifth(records: &[Record], jobs: &[Job]) -> f64 {
    let mut arrivals: Vec<Time> = jobs.iter().map(|job| job.arrives).collect();
    arrivals.sort_unstable();
    let from = arrivals.get(arrivals.len() * 4 / 5).copied().unwrap_or_default();
    let late = records.iter().filter(|record| record.arrival >= from && record.outcome == Outcome::Ok);
    let (n, sum) =
        late.filter_map(Record::ttft).fold((0_u32, 0.0), |(n, sum), ttft| (n + 1, sum + ttft.as_secs_f64()));
    sum / f64::from(n.max(1))
}

/// Seconds from the first arrival to the last.
fn span(jobs: &[Job]) -> f64 {
    let times = || jobs.iter().map(|job| job.arrives);
    let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
    last.since(first).as_secs_f64().max(1.0)
}
