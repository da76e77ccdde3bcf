//! The limit of open files, and how many client connections it allows.

use sluicegate_proxy::plan::ListenPlan;

/// Descriptors for everything but clients and their replicas: listeners, the admin side, scrapes, logs.
const RESERVE: u64 = 128;

/// Raises the soft limit to the hard one, and lowers `max_connections` to what it allows: a client that waits for
/// its turn is better off than one that is accepted and then finds no descriptor left for its replica.
pub(super) fn provide(listen: &mut ListenPlan) {
    // Each open stream holds two sockets, and the usual soft limit of 1,024 is a courtesy to programs that use select().
    let Some(limit) = raise() else { return };
    let allowed = allowed(limit);
    let asked = listen.max_connections;
    if asked > allowed {
        listen.max_connections = allowed;
        let needed = needed(asked);
        tracing::warn!(
            "listen.max_connections is {allowed} instead of {asked}: the limit of {limit} open files is too low. \
             Each connection may take two, and {RESERVE} are kept for the rest: {asked} connections need {needed}. \
             Raise it with LimitNOFILE={needed} (systemd) or `ulimit -n {needed}`, or set max_connections = {allowed}"
        );
    }
}

/// Raises the soft limit to the hard one; what it is then, where that can be known.
pub(super) fn raise() -> Option<u64> {
    let limit = rlimit::increase_nofile_limit(u64::MAX).or_else(|error| {
        tracing::warn!("the limit of open files stays as it is: {error}");
        rlimit::Resource::NOFILE.get_soft()
    });
    let limit = limit.ok()?;
    tracing::debug!(limit, "open files");
    Some(limit)
}

/// Client connections within `limit`: each may need one to a replica. At least 1.
fn allowed(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(RESERVE) / 2).unwrap_or(usize::MAX).max(1)
}

fn needed(connections: usize) -> u64 {
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(RESERVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_the_reserve_leaves_is_for_clients() {
        for (limit, connections) in [
            (0, 1),
            (128, 1),
            (130, 1),
            (132, 2),
            (1024, 448),
            (40_128, 20_000),
            (u64::MAX, usize::MAX / 2 - 64),
        ] {
            assert_eq!(allowed(limit), connections, "{limit}");
        }
    }

    #[test]
    fn what_is_said_to_be_needed_is_enough() {
        for connections in [1, 2, 448, 20_000] {
            assert_eq!(allowed(needed(connections)), connections);
        }
    }
}
