//! The demo's state as lines of text.

use std::time::Duration;

use sluicegate_core::ReplicaSnapshot;

use super::stats::{Totals, millis};
use crate::inspect::health_name;

/// Everything that is shown at one moment.
#[derive(Clone, Debug)]
pub(super) struct Now {
    /// Since the start.
    pub(super) elapsed: Duration,
    /// The replicas.
    pub(super) replicas: Vec<ReplicaRow>,
    /// Sums over all requests.
    pub(super) totals: Totals,
}

/// One replica.
#[derive(Clone, Debug)]
pub(super) struct ReplicaRow {
    name: String,
    state: &'static str,
    inflight: u32,
    load: f64,
    waiting: f64,
    share: f64,
    pins: usize,
    tokens_per_second: f64,
}

impl ReplicaRow {
    pub(super) fn of(replica: &ReplicaSnapshot, tokens_per_second: f64) -> Self {
        Self {
            name: replica.name.clone(),
            state: health_name(replica.health),
            inflight: replica.inflight,
            load: replica.effective_running,
            waiting: replica.effective_waiting,
            share: replica.traffic_share,
            pins: replica.pins,
            tokens_per_second,
        }
    }
}

/// A table that fits a terminal of 80 columns: a head, one row for each replica, the sums.
pub(super) fn table(now: &Now) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<22} {:<8} {:>9} {:>6} {:>7} {:>5} {:>5} {:>8}",
        "replica", "state", "in flight", "load", "waiting", "share", "pins", "tokens/s"
    )];
    lines.extend(now.replicas.iter().map(|row| {
        format!(
            "{:<22} {:<8} {:>9} {:>6.1} {:>7.1} {:>4.0}% {:>5} {:>8.0}",
            row.name,
            row.state,
            row.inflight,
            row.load,
            row.waiting,
            row.share * 100.0,
            row.pins,
            row.tokens_per_second
        )
    }));
    lines.push(sums(now));
    lines
}

/// The same in one line, for a log.
pub(super) fn line(now: &Now) -> String {
    let replica = |row: &ReplicaRow| {
        format!(
            "{} {}, {:.0}+{:.0}, {:.0}%",
            row.state,
            row.inflight,
            row.load,
            row.waiting,
            row.share * 100.0
        )
    };
    let replicas: Vec<String> = now.replicas.iter().map(replica).collect();
    format!("{} | {}", sums(now), replicas.join(" | "))
}

/// What the lines for a log mean, and which replica is which.
pub(super) fn legend(now: &Now) -> String {
    let names: Vec<&str> = now.replicas.iter().map(|row| &*row.name).collect();
    format!(
        "each line: sums | state, requests in flight, load+waiting, share of the traffic; for {}\n",
        names.join(" | ")
    )
}

fn sums(now: &Now) -> String {
    let Totals { requests, failed, retried, ttft_p50, ttft_p95, .. } = now.totals;
    format!(
        "{} s: {requests} requests, {failed} failed, {retried} retried, TTFT p50 {}, p95 {}",
        now.elapsed.as_secs(),
        millis(ttft_p50),
        millis(ttft_p95)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Now {
        let row = |name: &str, state, share| ReplicaRow {
            name: name.into(),
            state,
            inflight: 3,
            load: 3.5,
            waiting: 1.0,
            share,
            pins: 12,
            tokens_per_second: 1234.4,
        };
        Now {
            elapsed: Duration::from_millis(4900),
            replicas: vec![
                row("http://127.0.0.1:40001", "live", 0.75),
                row("http://127.0.0.1:40002", "ejected", 0.25),
            ],
            totals: Totals {
                requests: 120,
                failed: 1,
                retried: 2,
                ttft_p50: Some(Duration::from_micros(80_900)),
                ttft_p95: None,
                ..Totals::default()
            },
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_replica_and_the_sums() {
        let expected = [
            "replica                state    in flight   load waiting share  pins tokens/s",
            "http://127.0.0.1:40001 live             3    3.5     1.0   75%    12     1234",
            "http://127.0.0.1:40002 ejected          3    3.5     1.0   25%    12     1234",
            "4 s: 120 requests, 1 failed, 2 retried, TTFT p50 80 ms, p95 -",
        ];
        assert_eq!(table(&now()), expected);
        assert!(expected.iter().all(|line| line.len() < 80), "the usual terminal shows all of it");
    }

    #[test]
    fn a_plain_line_says_the_same_in_short() {
        let expected = "4 s: 120 requests, 1 failed, 2 retried, TTFT p50 80 ms, p95 - | live 3, 4+1, 75% | \
                        ejected 3, 4+1, 25%";
        assert_eq!(line(&now()), expected);
    }
    #[test]
    fn the_legend_of_plain_lines_names_the_replicas_in_their_order() {
        let legend = legend(&now());
        assert!(legend.ends_with("for http://127.0.0.1:40001 | http://127.0.0.1:40002\n"), "{legend}");
    }
}
