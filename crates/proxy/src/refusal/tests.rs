//! Refusals as `docs/clients.md` tells clients of them.

use std::collections::BTreeSet;
use std::time::Duration;

use sluicegate_core::{Limit, LimitRefusal, NoReplica};

use super::Refusal;

const PAGE: &str = include_str!("../../../../docs/clients.md");

/// Code, status and `retry-after` of each row.
fn rows() -> Vec<[&'static str; 3]> {
    let table = PAGE.split("| code | status |").nth(1).unwrap_or_default();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let mut cells = row.split('|').skip(1).map(str::trim);
        [(); 3].map(|()| cells.next().unwrap_or_default().trim_matches('`'))
    })
    .collect()
}

#[test]
fn every_code_is_documented_and_no_other() {
    let source = include_str!("../refusal.rs");
    let from = source.find("pub fn code(").expect("the codes");
    let to = source[from..].find("\n    }\n").expect("their end") + from;
    let codes: BTreeSet<&str> = source[from..to].split('"').skip(1).step_by(2).collect();
    assert_eq!(rows().iter().map(|row| row[0]).collect::<BTreeSet<_>>(), codes);
    assert_eq!(rows().len(), codes.len());
}

#[test]
fn statuses_and_waits_are_those_documented() {
    let retry_after = Duration::from_secs(7);
    let limit = Limit::TokensPerDay;
    for refusal in [
        Refusal::NoKey,
        Refusal::BadKey,
        Refusal::TwoKeys,
        Refusal::Limit(LimitRefusal::Exhausted { limit, retry_after }),
        Refusal::Limit(LimitRefusal::TooLarge { limit, most: 1, asked: 2 }),
        Refusal::QueueFull { retry_after },
        Refusal::QueueTimeout { retry_after },
        Refusal::UnknownModel { asked: "m".into(), hint: "".into() },
        Refusal::BadModel("is missing"),
        Refusal::UnknownResponse,
        Refusal::OddStream,
        Refusal::TooLarge(1),
        Refusal::Unsupported("no"),
        Refusal::UnsupportedCoding,
        Refusal::BadCoding { coding: "gzip", what: "it is corrupt" },
        Refusal::UnknownPath { path: "/".into(), hint: "".into() },
        Refusal::WrongMethod("POST"),
        Refusal::SuspectedPoison { left: retry_after },
        Refusal::NoReplica(NoReplica::NotReady),
        Refusal::NoModels,
        Refusal::Unreachable,
        Refusal::NoMemory,
        Refusal::CredentialRefused,
        Refusal::Timeout,
        Refusal::GatewayStopped,
        Refusal::HeadTimeout,
        Refusal::BodyTimeout,
    ] {
        let rows = rows();
        let row = rows.iter().find(|row| row[0] == refusal.code()).expect("a row of it");
        let waits = if refusal.retry_after().is_some() { "yes" } else { "" };
        assert_eq!([row[1], row[2]], [&*refusal.status().to_string(), waits], "{refusal:?}");
    }
}
