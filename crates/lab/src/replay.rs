//! Recorded traffic through a fleet: the same requests, under one policy after the other.
//!
//! - [`Policy`]: our modes and their rivals by name.
//! - [`run`], [`run_by_pool`]: one policy, or one configuration with its pools; [`Summary`]: what it came to.
//! - [`capacity`]: how fast the traffic may come before round robin cannot keep up.
//! - [`Apart`]: several gateways that share nothing, load that others send, sizes and caches that are not known well.
//! - [`Sessions`]: which requests continue which, where a record tells only what their prompts share.
mod capacity;
mod hardship;
mod policy;
mod sessions;
mod summary;

pub use capacity::{Capacity, capacity};
pub use hardship::{Apart, Hardship};
pub use policy::{Given, Policy, UnknownPolicy};
pub use sessions::{Sessions, chained};
pub use summary::{Spread, Summary};

use crate::engine::Profile;
use crate::fleet::{Decider, Fleet, Happening, Job, Limits, Record, Settings};
use sluicegate_core::Time;
use std::ops::Range;
use std::time::Duration;

/// How often the replicas' loads are looked at.
const SAMPLE: Duration = Duration::from_secs(1);

/// A fleet that lets every request finish, however long it takes.
#[must_use]
pub fn settings(replicas: usize, profile: Profile) -> Settings {
    let limits = Limits { total: Duration::from_secs(30 * 24 * 3600), ..Limits::default() };
    Settings { replicas, profile, limits, ..Settings::default() }
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// One for each request, in order of ends.
    pub records: Vec<Record>,
    /// By pool: most minus fewest open requests of its replicas, once a second while requests arrive.
    pub imbalance: Vec<Vec<u32>>,
}

impl Run {
    /// At each moment the largest imbalance of those pools that `counts` says.
    #[must_use]
    pub fn worst_imbalance(&self, counts: impl Fn(usize) -> bool) -> Vec<u32> {
        let counted = self.imbalance.iter().enumerate().filter(|(pool, _)| counts(*pool));
        let mut worst: Vec<u32> = Vec::new();
        for (_, samples) in counted {
            worst.resize(worst.len().max(samples.len()), 0);
            worst.iter_mut().zip(samples).for_each(|(worst, one)| *worst = (*worst).max(*one));
        }
        worst
    }
}

/// Plays all jobs in front of one pool. `progress` is told now and then how many have ended.
pub fn run<D: Decider>(settings: &Settings, decider: D, jobs: &[Job], progress: impl FnMut(usize)) -> Run {
    let pool = 0..settings.replicas;
    run_by_pool(settings, decider, jobs, std::slice::from_ref(&pool), progress)
}

/// The same where these replicas are the pools.
pub fn run_by_pool<D: Decider>(
    settings: &Settings,
    decider: D,
    jobs: &[Job],
    pools: &[Range<usize>],
    mut progress: impl FnMut(usize),
) -> Run {
    let mut fleet = Fleet::new(settings.clone(), decider);
    let mut last = Time::ZERO;
    for job in jobs {
        last = last.max(job.arrives);
        fleet.submit(job.clone());
    }
    let mut run = Run { records: Vec::with_capacity(jobs.len()), imbalance: vec![Vec::new(); pools.len()] };
    let mut until = Time::ZERO + SAMPLE;
    while fleet.open() > 0 {
        while let Some(happening) = fleet.next(until) {
            if let Happening::Ended(record) = happening {
                run.records.push(record);
            }
        }
        if until <= last {
            for (pool, samples) in pools.iter().zip(&mut run.imbalance) {
                let hosts = fleet.hosts().get(pool.clone()).unwrap_or_default();
                let loads = || hosts.iter().map(|host| host.inflight());
                let imbalance = loads().max().unwrap_or(0) - loads().min().unwrap_or(0);
                samples.push(u32::try_from(imbalance).unwrap_or(u32::MAX));
            }
        }
        until = until + SAMPLE;
        progress(run.records.len());
    }
    run
}

/// The same jobs, arriving `speed` times as fast.
#[must_use]
pub fn at_speed(jobs: &[Job], speed: f64) -> Vec<Job> {
    let first = jobs.iter().map(|job| job.arrives).min().unwrap_or_default();
    let scale = |at: Time| {
        let nanos = at.since(first).as_nanos() as f64 / speed.max(f64::MIN_POSITIVE);
        WARM_UP + Duration::from_nanos(nanos as u64)
    };
    jobs.iter().map(|job| Job { arrives: scale(job.arrives), ..job.clone() }).collect()
}

/// When the first request arrives: by then every replica has been scraped.
const WARM_UP: Time = Time::from_nanos(5_000_000_000);

#[cfg(test)]
mod tests;
