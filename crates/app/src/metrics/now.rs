//! The state of pools, replicas, queues and keys at the moment of the scrape.

mod keys;
mod queues;
mod sources;

use sluicegate_core::{PoolSnapshot, ReplicaSnapshot};

use super::family::{Family, Labels};
use crate::inspect::{HEALTH_STATES, Inspect, health_name};
pub(super) use sources::families as source_families;

pub(super) fn families(gateway: &dyn Inspect, lost_lines: u64) -> Vec<Family> {
    let pools: Vec<Pool> =
        gateway.pools().into_iter().map(|(name, now)| (String::from(&*name), now)).collect();
    let mut families = replica_families(&pools);
    families.extend(pool_families(&pools));
    families.extend(queues::families(&gateway.queues()));
    families.extend(keys::families(&gateway.keys()));
    let gauges = gateway.gauges();
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.extend([
        Family::levels(
            "sluicegate_open_connections",
            "Client connections open",
            one(gauges.open_connections),
        ),
        Family::levels(
            "sluicegate_open_requests",
            "Requests between head and end",
            one(gauges.open_requests),
        ),
        Family::counts(
            "sluicegate_connections",
            "Client connections accepted",
            vec![(Labels::new(), gauges.accepted_total)],
        ),
        Family::counts(
            "sluicegate_refused_heads",
            "Request heads refused as unreadable",
            vec![(Labels::new(), gauges.refused_heads_total)],
        ),
        Family::counts("sluicegate_usage_lines_lost", "Usage lines lost", vec![(Labels::new(), lost_lines)]),
        Family::levels("sluicegate_build_info", "Version of the gateway", vec![(version, 1.0)]),
    ]);
    families
}

type Pool = (String, PoolSnapshot);

fn replica_families(pools: &[Pool]) -> Vec<Family> {
    let level = |name, help, read: fn(&ReplicaSnapshot) -> f64| {
        Family::levels(name, help, each_replica(pools, |labels, replica| (labels, read(replica))))
    };
    let count = |name, help, read: fn(&ReplicaSnapshot) -> u64| {
        Family::counts(name, help, each_replica(pools, |labels, replica| (labels, read(replica))))
    };
    vec![
        Family::levels(
            "sluicegate_replica_state",
            "1 for the replica's state, 0 for the others",
            states(pools),
        ),
        level("sluicegate_replica_inflight", "Own open requests at the replica", |r| f64::from(r.inflight)),
        level("sluicegate_replica_effective_running", "Effective running requests", |r| r.effective_running),
        level("sluicegate_replica_effective_waiting", "Effective waiting requests", |r| r.effective_waiting),
        level("sluicegate_replica_cooldown_seconds", "What is left of an ejection's cooldown", |r| {
            r.cooldown_left.map_or(0.0, |left| left.as_secs_f64())
        }),
        level("sluicegate_replica_traffic_share", "Part of the pool's requests of the last 60 s", |r| {
            r.traffic_share
        }),
        count("sluicegate_replica_ejections", "Ejections", |r| r.ejections),
        count("sluicegate_replica_picks", "Requests sent to the replica", |r| r.picks),
    ]
}

fn pool_families(pools: &[Pool]) -> Vec<Family> {
    let by_pool = |name: &String| vec![("pool", name.clone())];
    let imbalance = pools.iter().map(|(name, now)| (by_pool(name), now.imbalance_index)).collect();
    let pins = pools.iter().flat_map(|(name, now)| {
        [("prefix", now.prefix_pins), ("session", now.session_pins)].map(|(kind, count)| {
            let mut labels = by_pool(name);
            labels.push(("kind", kind.into()));
            (labels, f64::from(u32::try_from(count).unwrap_or(u32::MAX)))
        })
    });
    vec![
        Family::levels(
            "sluicegate_pool_imbalance_index",
            "Largest minus smallest effective running over live replicas",
            imbalance,
        ),
        Family::levels("sluicegate_pins", "Pins held", pins.collect()),
    ]
}

fn states(pools: &[Pool]) -> Vec<(Labels, f64)> {
    let all = each_replica(pools, |labels, replica| (labels, replica.health));
    let each_state = |(labels, health): (Labels, _)| {
        HEALTH_STATES.map(|state| {
            let mut labels = labels.clone();
            labels.push(("state", health_name(state).into()));
            (labels, if state == health { 1.0 } else { 0.0 })
        })
    };
    all.into_iter().flat_map(each_state).collect()
}

fn each_replica<T>(pools: &[Pool], sample: impl Fn(Labels, &ReplicaSnapshot) -> T) -> Vec<T> {
    let labels = |pool: &String, replica: &ReplicaSnapshot| {
        vec![("pool", pool.clone()), ("replica", replica.name.clone())]
    };
    let of_pool = |(pool, now): &Pool| {
        now.replicas.iter().map(|replica| sample(labels(pool, replica), replica)).collect::<Vec<_>>()
    };
    pools.iter().flat_map(of_pool).collect()
}

fn one(value: u64) -> Vec<(Labels, f64)> {
    vec![(Labels::new(), f64::from(u32::try_from(value).unwrap_or(u32::MAX)))]
}
