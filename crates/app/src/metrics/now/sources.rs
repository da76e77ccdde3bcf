//! The sources that replicas are learned from.

use crate::discovery::SourceView;
use crate::metrics::family::{Family, Labels};

pub(in crate::metrics) fn families(sources: &[SourceView]) -> Vec<Family> {
    let labels = |source: &SourceView| -> Labels {
        vec![("pool", source.pool.clone()), ("source", source.source.to_owned())]
    };
    let levels = |read: fn(&SourceView) -> f64| sources.iter().map(|s| (labels(s), read(s))).collect();
    let counts = |read: fn(&SourceView) -> u64| sources.iter().map(|s| (labels(s), read(s))).collect();
    vec![
        Family::levels(
            "sluicegate_discovery_up",
            "1 while the source's last list was taken, 0 while the last known replicas stay",
            levels(|source| f64::from(u8::from(source.failing.is_none()))),
        ),
        Family::levels(
            "sluicegate_discovery_replicas",
            "Replicas in the last list that was taken",
            levels(|source| f64::from(u32::try_from(source.replicas).unwrap_or(u32::MAX))),
        ),
        Family::counts(
            "sluicegate_discovery_updates",
            "Lists that changed the replicas",
            counts(|source| source.updates),
        ),
        Family::counts(
            "sluicegate_discovery_failures",
            "Failures of the source, empty lists among them",
            counts(|source| source.failures),
        ),
    ]
}
