//! What some requests came to, in the numbers that tables, JSON and pages show.

mod members;

use std::collections::BTreeMap;

use sluicegate_core::Reason;
use sluicegate_lab::fleet::{Outcome, Record};
use sluicegate_lab::replay::{Spread, Summary};

use crate::usage_sums::with_commas;

pub(super) use members::Change;

/// The numbers of some requests of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// All of them.
    pub(super) requests: usize,
    /// Those that ended well.
    pub(super) ok: usize,
    /// Those that were turned away: no place in a queue, too long a wait, no replica.
    pub(super) refused: usize,
    /// Those that ended at their route's fallback.
    pub(super) fallback: usize,
    /// Requests by how they ended, in the words of the usage line.
    pub(super) outcomes: BTreeMap<&'static str, usize>,
    /// Those that went where nobody can say how long they take: in none of the times.
    pub(super) untimed: usize,
    /// Of all others.
    summary: Summary,
}

impl Figures {
    /// Those of `records`. The times are without the requests that are not `timed`.
    pub(super) fn of<'r>(
        records: impl Iterator<Item = &'r Record> + Clone,
        imbalance: &[u32],
        timed: impl Fn(&Record) -> bool,
    ) -> Self {
        let count = |is: fn(&Record) -> bool| records.clone().filter(|record| is(record)).count();
        let mut outcomes = BTreeMap::new();
        for record in records.clone() {
            *outcomes.entry(record.outcome.as_str()).or_default() += 1;
        }
        let summary = Summary::of_records(records.clone().filter(|record| timed(record)), imbalance);
        let requests = records.clone().count();
        Self {
            requests,
            ok: count(|record| record.outcome == Outcome::Ok),
            refused: count(was_refused),
            fallback: count(|record| record.reason == Reason::Fallback.as_str()),
            outcomes,
            untimed: requests - summary.requests,
            summary,
        }
    }

    /// `None` where no request that is timed ended well.
    fn timed(&self, of: impl Fn(&Summary) -> f64) -> Option<f64> {
        (self.summary.ok > 0).then(|| of(&self.summary))
    }

    fn ttft(&self, part: fn(Spread) -> f64) -> Option<f64> {
        self.timed(|summary| part(summary.ttft))
    }

    fn total(&self, part: fn(Spread) -> f64) -> Option<f64> {
        self.timed(|summary| part(summary.total))
    }
}

/// It was sent nowhere, or what it was sent to was worth less than that refusal.
pub(super) fn was_refused(record: &Record) -> bool {
    matches!(record.outcome, Outcome::RejectedQueue | Outcome::RejectedPoison | Outcome::NoReplica)
}

/// One number: its names, and how it is shown.
pub(super) struct Column {
    /// In tables; `None`: not there.
    pub(super) heading: Option<&'static str>,
    /// The member in JSON, and the member of that where it is an object.
    pub(super) json: (&'static str, Option<&'static str>),
    pub(super) value: fn(&Figures) -> Option<f64>,
    pub(super) shown: Shown,
    /// Only tables of configurations have it.
    pub(super) of_configurations: bool,
}

/// How a number is written.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shown {
    /// Whole, in tables with commas.
    Count,
    /// In tables with so many decimals.
    Decimals(usize),
    /// A part of one, in tables in per cent.
    Percent,
}

impl Column {
    /// The number as tables show it; `-` where there is none.
    pub(super) fn cell(&self, figures: &Figures) -> String {
        let Some(value) = (self.value)(figures) else { return "-".into() };
        match self.shown {
            Shown::Count => with_commas(value as u64),
            Shown::Decimals(decimals) => format!("{value:.decimals$}"),
            Shown::Percent => format!("{:.1}", value * 100.0),
        }
    }

    /// How much it grew, in per cent of what it was. `None` where that says nothing.
    pub(super) fn change(&self, from: &Figures, to: &Figures) -> Option<f64> {
        let (from, to) = ((self.value)(from)?, (self.value)(to)?);
        match (from == to, from == 0.0) {
            (true, _) => Some(0.0),
            (false, true) => None,
            (false, false) => Some((to - from) / from * 100.0),
        }
    }
}

const TTFT: &str = "ttft_seconds";
const TOTAL: &str = "total_seconds";

/// All of them, in the order of tables. Times are in seconds.
pub(super) const COLUMNS: [Column; 15] = [
    of_configurations("requests", "requests", |f| Some(f.requests as f64)),
    number("TTFT mean", (TTFT, Some("mean")), Shown::Decimals(3), |f| f.ttft(|ttft| ttft.mean)),
    number("p50", (TTFT, Some("p50")), Shown::Decimals(3), |f| f.ttft(|ttft| ttft.p50)),
    number("p95", (TTFT, Some("p95")), Shown::Decimals(3), |f| f.ttft(|ttft| ttft.p95)),
    number("p99", (TTFT, Some("p99")), Shown::Decimals(3), |f| f.ttft(|ttft| ttft.p99)),
    number("E2E mean", (TOTAL, Some("mean")), Shown::Decimals(2), |f| f.total(|total| total.mean)),
    Column {
        heading: None,
        ..number("", (TOTAL, Some("p50")), Shown::Decimals(2), |f| f.total(|total| total.p50))
    },
    number("p95", (TOTAL, Some("p95")), Shown::Decimals(2), |f| f.total(|total| total.p95)),
    Column {
        heading: None,
        ..number("", (TOTAL, Some("p99")), Shown::Decimals(2), |f| f.total(|total| total.p99))
    },
    number("hit %", ("cached_token_share", None), Shown::Percent, |f| f.timed(|summary| summary.hit_rate)),
    number("imbalance", ("imbalance_mean", None), Shown::Decimals(1), |f| Some(f.summary.imbalance)),
    number("queued", ("queued_seconds_mean", None), Shown::Decimals(3), |f| Some(f.summary.queued)),
    of_configurations("refused", "refused", |f| Some(f.refused as f64)),
    of_configurations("fallback", "fallback", |f| Some(f.fallback as f64)),
    number("failed", ("failed", None), Shown::Count, |f| Some((f.requests - f.ok) as f64)),
];

const fn number(
    heading: &'static str,
    json: (&'static str, Option<&'static str>),
    shown: Shown,
    value: fn(&Figures) -> Option<f64>,
) -> Column {
    Column { heading: Some(heading), json, value, shown, of_configurations: false }
}

const fn of_configurations(
    heading: &'static str,
    json: &'static str,
    value: fn(&Figures) -> Option<f64>,
) -> Column {
    Column { of_configurations: true, ..number(heading, (json, None), Shown::Count, value) }
}
