//! A fault has the same consequences over HTTP and in virtual time: how requests end, in how many attempts, and why the
//! replica leaves service, where it does.
//!
//! Two replicas and one session, which keeps to one of them by its pin. That one gets the fault.

mod over_http;
mod virtual_time;

use std::collections::BTreeSet;
use std::time::Duration;

use sluicegate_lab::fault::{FaultSpec, kinds};

/// What is done with the replica at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Requests follow, one after the other, and no scrape is there before them.
    Unseen,
    /// The gateway has found out by its scrapes before a request follows.
    Found,
    /// A request is there that has no byte yet.
    Unanswered,
    /// A stream is there that has begun.
    Begun,
}

impl When {
    /// Scrapes that must not come meanwhile, or must.
    fn scrape_interval(self) -> Duration {
        match self {
            Self::Unseen => Duration::from_secs(3600),
            Self::Found | Self::Unanswered | Self::Begun => Duration::from_millis(50),
        }
    }

    /// Where nothing but this limit ends a request, it should not take long.
    fn total(self) -> Duration {
        match self {
            Self::Unseen => Duration::from_millis(700),
            Self::Found | Self::Unanswered | Self::Begun => Duration::from_secs(600),
        }
    }
}

/// A slow `/health` is to be found out soon; nothing else should come near it.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(1);
const COOLDOWN: Duration = Duration::from_secs(3600);
/// Tokens of an answer, and of one that does not end by itself.
const SHORT: u32 = 8;
const LONG: u32 = 60_000;

/// A fault and its consequences.
#[derive(Clone, Copy, Debug)]
struct Row {
    fault: &'static str,
    when: When,
    stream: bool,
    /// Outcome and attempts of each request that follows.
    ends: &'static [(&'static str, u32)],
    /// Why the replica left service.
    left: Option<&'static str>,
}

impl Row {
    fn spec(&self) -> FaultSpec {
        FaultSpec::parse(self.fault).unwrap()
    }

    fn tokens(&self) -> u32 {
        if self.when == When::Begun { LONG } else { SHORT }
    }
}

/// What was seen.
#[derive(Debug, PartialEq, Eq)]
struct Consequences {
    ends: Vec<(String, u32)>,
    left: Option<&'static str>,
}

const OK: (&str, u32) = ("ok", 1);
const ELSEWHERE: (&str, u32) = ("ok", 2);
const ABORTED: (&str, u32) = ("upstream_aborted", 1);
const REFUSED: (&str, u32) = ("client_error", 1);
const LATE: (&str, u32) = ("timeout_total", 1);
const FAILURES: Option<&str> = Some("upstream_failures");

/// Three failures eject, and what follows goes to the other one at once.
const THREE_RETRIED: &[(&str, u32)] = &[ELSEWHERE, ELSEWHERE, ELSEWHERE, OK];
const THREE_ABORTED: &[(&str, u32)] = &[ABORTED, ABORTED, ABORTED, OK];

fn unseen(
    fault: &'static str,
    stream: bool,
    ends: &'static [(&'static str, u32)],
    left: Option<&'static str>,
) -> Row {
    Row { fault, when: When::Unseen, stream, ends, left }
}

/// Requests meet the fault.
fn met_by_requests() -> Vec<Row> {
    // The session is bound to the other one by then.
    let busy: &[_] = &[ELSEWHERE, ELSEWHERE, ELSEWHERE, OK];
    vec![
        unseen("status:500", true, THREE_RETRIED, FAILURES),
        unseen("status:502", false, THREE_RETRIED, FAILURES),
        unseen("status:501", true, &[("upstream_error", 1), ("upstream_error", 1)], None),
        unseen("status:503", true, busy, None),
        unseen("status:429", true, busy, None),
        unseen("status:404", true, &[REFUSED, REFUSED, REFUSED, REFUSED], None),
        unseen("status:500:next=1", true, &[ELSEWHERE, OK], None),
        unseen("reset", true, THREE_RETRIED, FAILURES),
        unseen("reset", false, THREE_RETRIED, FAILURES),
        unseen("hang", true, &[LATE, LATE, LATE, OK], Some("stalled")),
        unseen("cut:0", true, THREE_RETRIED, FAILURES),
        unseen("cut:3", true, THREE_ABORTED, FAILURES),
        unseen("cut:3", false, THREE_ABORTED, FAILURES),
        unseen("cut:8", true, &[OK, OK], None),
        unseen("error-event", true, busy, None),
        unseen("error-event:0:500", true, THREE_RETRIED, FAILURES),
        unseen("error-event:0:429", true, busy, None),
        unseen("error-event:0:404", true, &[REFUSED, REFUSED], None),
        unseen("error-event:3:500", true, THREE_ABORTED, FAILURES),
        unseen("error-event:3:500", false, THREE_RETRIED, FAILURES),
        unseen("error-event:3:404", true, &[ABORTED, ABORTED, ABORTED, ABORTED], None),
        unseen("slow:2", true, &[OK, OK], None),
        // A stream's head has come: that is a sign of life.
        unseen("frozen", true, &[LATE, LATE, LATE, LATE], None),
        unseen("frozen", false, &[LATE, LATE, LATE, OK], Some("stalled")),
        unseen("slow-health:3600", true, &[OK, OK], None),
        unseen("engine-dead", true, THREE_RETRIED, FAILURES),
        unseen("sigterm", true, &[ELSEWHERE, OK], Some("refused")),
        unseen("dead", true, &[ELSEWHERE, OK], Some("refused")),
        unseen("loading", true, busy, None),
    ]
}

/// Scrapes meet it.
fn met_by_scrapes() -> Vec<Row> {
    let found = |fault, left| Row { fault, when: When::Found, stream: true, ends: &[OK], left: Some(left) };
    vec![
        found("refuse", "refused"),
        found("slow-health:3600", "scrapes_failed"),
        found("flap:0.05:3600", "refused"),
        found("engine-dead", "scrapes_failed"),
        found("sigterm", "refused"),
        found("dead", "refused"),
        found("loading", "restarted"),
    ]
}

/// It meets requests that are there.
fn meets_requests() -> Vec<Row> {
    let mut rows = Vec::new();
    for (fault, unanswered, begun, left) in [
        ("engine-dead", ELSEWHERE, ABORTED, "scrapes_failed"),
        ("sigterm", ABORTED, ABORTED, "refused"),
        ("dead", ELSEWHERE, ABORTED, "refused"),
        ("loading", ELSEWHERE, ABORTED, "restarted"),
    ] {
        let one = |when, stream, end: &(&'static str, u32)| {
            let ends = if *end == ELSEWHERE { &[ELSEWHERE] } else { &[ABORTED] };
            Row { fault, when, stream, ends, left: Some(left) }
        };
        rows.push(one(When::Unanswered, true, &unanswered));
        rows.push(one(When::Unanswered, false, &unanswered));
        rows.push(one(When::Begun, true, &begun));
    }
    rows
}

#[tokio::test]
async fn a_fault_has_the_same_consequences_over_http_and_in_virtual_time() {
    let rows = [met_by_requests(), met_by_scrapes(), meets_requests()].concat();
    let tried: BTreeSet<&str> = rows.iter().map(|row| row.spec().fault.kind()).collect();
    let all = kinds().filter(|kind| FaultSpec::parse(kind).map_or(true, |spec| spec.over_http().is_ok()));
    assert_eq!(tried, all.collect(), "every fault has its row");
    let mut wrong = Vec::new();
    for row in rows {
        let ends = row.ends.iter().map(|(outcome, attempts)| ((*outcome).to_owned(), *attempts)).collect();
        let expected = Consequences { ends, left: row.left };
        let seen = [virtual_time::consequences(&row), over_http::consequences(&row).await];
        if seen.iter().any(|seen| *seen != expected) {
            wrong.push(format!("{row:?}\n  in virtual time {:?}\n  over HTTP {:?}", seen[0], seen[1]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
