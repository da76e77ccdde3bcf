//! How a replica can be, and schedules of it.

use sluicegate_core::Time;
use std::time::Duration;

/// How a replica is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Condition {
    /// All is well.
    #[default]
    Up,
    /// The process has ended, its cache with it: kept connections break, new ones are refused.
    Dead,
    /// Nothing reaches it: connections are not made and scrapes end by their time limit; open streams are silent until it is back.
    Unreachable,
    /// The process listens and loads its model: requests get 503, `/health` says so.
    Loading,
    /// New requests get this status; those that run go on.
    Failing {
        /// The status.
        status: u16,
        /// Whether `/health` is 200.
        health: bool,
    },
    /// The engine stands still. Connections are accepted, no byte comes; what was begun goes on when it is over.
    Frozen {
        /// Whether `/health` is still 200, as where only the engine behind the server hangs.
        health: bool,
    },
    /// Every step takes this many times as long; above 0.
    Slow(f64),
}

impl Condition {
    /// The engine's process has ended.
    pub(super) fn is_gone(self) -> bool {
        matches!(self, Self::Dead | Self::Loading)
    }

    /// The engine makes no step that anybody could see.
    pub(super) fn is_still(self) -> bool {
        matches!(self, Self::Frozen { .. } | Self::Unreachable)
    }

    pub(super) fn slowness(self) -> f64 {
        match self {
            Self::Slow(factor) => factor,
            _ => 1.0,
        }
    }
}

/// Changes of a replica that is well for `up`, then `condition` for `down`, over and over from `from` to `until`, when
/// it is well again. Each of the two lasts at least a millisecond.
#[must_use]
pub fn flapping(
    from: Time,
    until: Time,
    up: Duration,
    condition: Condition,
    down: Duration,
) -> Vec<(Time, Condition)> {
    let least = Duration::from_millis(1);
    let (up, down) = (up.max(least), down.max(least));
    let mut changes = Vec::new();
    let mut at = from + up;
    while at < until {
        changes.push((at, condition));
        changes.push(((at + down).min(until), Condition::Up));
        at = at + down + up;
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flapping_replica_ends_well() {
        let s = |s: u64| Time::from_nanos(s * 1_000_000_000);
        let ten = Duration::from_secs(10);
        let expected = [
            (s(10), Condition::Dead),
            (s(20), Condition::Up),
            (s(30), Condition::Dead),
            (s(35), Condition::Up),
        ];
        assert_eq!(flapping(s(0), s(35), ten, Condition::Dead, ten), expected);
        assert_eq!(flapping(s(0), s(10), ten, Condition::Dead, ten), []);
    }
}
