//! The scenarios that the binary carries.

use sluicegate_lab::scenario::{Scenario, Unreadable, read};

/// File names and texts, in the promises' order.
const FILES: &[(&str, &str)] = &[
    ("g01-no-crystallisation.toml", include_str!("../../../../scenarios/g01-no-crystallisation.toml")),
    ("g02-no-blind-spot.toml", include_str!("../../../../scenarios/g02-no-blind-spot.toml")),
    ("g03-heavy-request.toml", include_str!("../../../../scenarios/g03-heavy-request.toml")),
    ("g04-engine-dead.toml", include_str!("../../../../scenarios/g04-engine-dead.toml")),
    ("g04-hang.toml", include_str!("../../../../scenarios/g04-hang.toml")),
    ("g04-recovery.toml", include_str!("../../../../scenarios/g04-recovery.toml")),
    ("g05-cut-streams.toml", include_str!("../../../../scenarios/g05-cut-streams.toml")),
    ("g05-failover-every-way.toml", include_str!("../../../../scenarios/g05-failover-every-way.toml")),
    ("g05-failover.toml", include_str!("../../../../scenarios/g05-failover.toml")),
    ("g06-flapping.toml", include_str!("../../../../scenarios/g06-flapping.toml")),
    ("g07-sticky.toml", include_str!("../../../../scenarios/g07-sticky.toml")),
    ("g08-sticky-yields-at-once.toml", include_str!("../../../../scenarios/g08-sticky-yields-at-once.toml")),
    (
        "g08-sticky-yields-to-prefill.toml",
        include_str!("../../../../scenarios/g08-sticky-yields-to-prefill.toml"),
    ),
    ("g08-sticky-yields.toml", include_str!("../../../../scenarios/g08-sticky-yields.toml")),
    ("g09-shared-prefix.toml", include_str!("../../../../scenarios/g09-shared-prefix.toml")),
    (
        "g10-pins-die-with-their-replica.toml",
        include_str!("../../../../scenarios/g10-pins-die-with-their-replica.toml"),
    ),
    ("g10-pins-die.toml", include_str!("../../../../scenarios/g10-pins-die.toml")),
    ("g11-no-wait.toml", include_str!("../../../../scenarios/g11-no-wait.toml")),
    ("g12-last-resort.toml", include_str!("../../../../scenarios/g12-last-resort.toml")),
    ("g12-nobody.toml", include_str!("../../../../scenarios/g12-nobody.toml")),
    ("g13-no-leak-faults.toml", include_str!("../../../../scenarios/g13-no-leak-faults.toml")),
    ("g13-no-leak.toml", include_str!("../../../../scenarios/g13-no-leak.toml")),
    ("g14-reload-and-upgrade.toml", include_str!("../../../../scenarios/g14-reload-and-upgrade.toml")),
    ("g15-poison-500.toml", include_str!("../../../../scenarios/g15-poison-500.toml")),
    ("g15-poison.toml", include_str!("../../../../scenarios/g15-poison.toml")),
    ("g16-queue-fairness.toml", include_str!("../../../../scenarios/g16-queue-fairness.toml")),
    ("g17-slow-health.toml", include_str!("../../../../scenarios/g17-slow-health.toml")),
    ("g17-timeouts.toml", include_str!("../../../../scenarios/g17-timeouts.toml")),
    ("g18-shares.toml", include_str!("../../../../scenarios/g18-shares.toml")),
];

/// All of them.
pub(crate) fn builtin() -> Result<Vec<Scenario>, Unreadable> {
    FILES.iter().map(|(name, text)| read(name, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_binary_carries_every_scenario_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    }

    #[test]
    fn every_promise_of_the_table_has_a_scenario_that_can_be_read() {
        let scenarios = builtin().unwrap_or_else(|error| panic!("{error}"));
        let mut ids: Vec<u32> = scenarios.iter().map(|s| s.id[1..].parse().unwrap()).collect();
        ids.dedup();
        assert_eq!(ids, (1..=18).collect::<Vec<_>>());
    }
}
