//! The metrics page against its golden and its documentation.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use prometheus_client::metrics::histogram::Histogram;
use sluicegate_core::{Limit, LimitRefusal, Micros};
use sluicegate_proxy::usage::{Outcome, UsageLine, UsageSink, UsageSource};
use sluicegate_proxy::{Abstention, Refusal};
use sluicegate_wire::Usage;

use super::Metrics;
use super::requests::REJECTIONS;
use crate::decisions::{DecisionsView, From};
use crate::discovery::SourceView;
use crate::plain_gateway::PlainGateway;

fn line(outcome: Outcome, status: Option<u16>) -> UsageLine<'static> {
    UsageLine {
        request_id: "r",
        time: UNIX_EPOCH,
        model: Some("asked"),
        route: Some("qwen3"),
        upstream_model: None,
        pool: Some("big"),
        replica: Some("http://10.0.0.1:8000"),
        endpoint: Some("/v1/chat/completions"),
        stream: true,
        status,
        outcome,
        error_type: None,
        reason: Some("load"),
        affinity: None,
        spilled: false,
        attempts: 1,
        key: Some("team-a"),
        project: None,
        queued: Some(Duration::from_millis(250)),
        cost: Some(Micros(4_500)),
        connect: None,
        ttft: Some(Duration::from_millis(250)),
        total: Duration::from_secs(2),
        bytes_in: 1,
        bytes_out: 1,
        usage: Some(Usage {
            prompt_tokens: 10,
            cached_tokens: Some(4),
            completion_tokens: 20,
            reasoning_tokens: None,
        }),
        usage_source: UsageSource::Engine,
        finish_reason: None,
        events: None,
    }
}

fn unknown_route() -> UsageLine<'static> {
    UsageLine {
        model: Some("no-such-model"),
        route: None,
        pool: None,
        reason: None,
        attempts: 0,
        key: None,
        queued: None,
        cost: None,
        ttft: None,
        usage: None,
        ..line(Outcome::ClientError, Some(404))
    }
}

fn rejected(outcome: Outcome, status: u16, code: &'static str) -> UsageLine<'static> {
    UsageLine { outcome, error_type: Some(code), status: Some(status), ..unknown_route() }
}

fn decisions() -> DecisionsView {
    let seconds = Histogram::new([0.1, 1.0]);
    seconds.observe(0.25);
    DecisionsView {
        route: "qwen3".into(),
        requests: From::ALL.into_iter().zip([2, 1, 7]).collect(),
        abstentions: Abstention::ALL.into_iter().zip(0..).collect(),
        seconds,
    }
}

fn page() -> String {
    let metrics = Metrics::default();
    metrics.write(&line(Outcome::Ok, Some(200)));
    metrics.write(&line(Outcome::Ok, Some(200)));
    let spilled = UsageLine { spilled: true, attempts: 2, ..line(Outcome::ClientGone, None) };
    metrics.write(&spilled);
    metrics.write(&unknown_route());
    metrics.write(&rejected(Outcome::RejectedAuth, 401, "invalid_api_key"));
    metrics.write(&UsageLine { key: Some("team-a"), ..rejected(Outcome::RejectedLimit, 429, "key_limit") });
    metrics.write(&rejected(Outcome::RejectedQueue, 503, "made up elsewhere"));
    metrics.page(&PlainGateway::default(), &[source()], &[decisions()], 3).unwrap()
}

#[test]
fn the_page_equals_its_golden() {
    let golden = include_str!("golden.txt").replace("VERSION", env!("CARGO_PKG_VERSION"));
    assert_eq!(page(), golden);
}

#[test]
fn nothing_a_client_chose_becomes_a_label() {
    assert!(!page().contains("no-such-model"));
    assert!(!page().contains("asked"));
    assert!(!page().contains("made up elsewhere"));
}

#[test]
fn every_refusal_that_turns_a_request_away_is_a_reason_of_its_own() {
    let after = Duration::from_secs(1);
    let limit = Limit::TokensPerDay;
    let codes = [
        Refusal::NoKey,
        Refusal::BadKey,
        Refusal::TwoKeys,
        Refusal::Limit(LimitRefusal::Exhausted { limit, retry_after: after }),
        Refusal::Limit(LimitRefusal::TooLarge { limit, most: 1, asked: 2 }),
        Refusal::QueueFull { retry_after: after },
        Refusal::QueueTimeout { retry_after: after },
        Refusal::SuspectedPoison { left: after },
    ]
    .map(|refusal| {
        assert!(refusal.outcome().as_str().starts_with("rejected_"), "{refusal}");
        refusal.code()
    });
    assert_eq!(codes, REJECTIONS);
}

#[test]
fn money_that_was_counted_in_millionths_is_shown_whole() {
    let metrics = Metrics::default();
    (0..1000).for_each(|_| metrics.write(&line(Outcome::Ok, Some(200))));
    let page = metrics.page(&PlainGateway::default(), &[], &[], 0).unwrap();
    assert!(page.contains("sluicegate_cost_total{route=\"qwen3\",key=\"team-a\"} 4.5\n"), "{page}");
}

#[test]
fn an_idle_gateway_shows_every_family_by_name() {
    let names = |page: &str| page.lines().filter(|l| l.starts_with("# TYPE")).map(String::from).collect();
    let idle: BTreeSet<String> =
        names(&Metrics::default().page(&PlainGateway::default(), &[], &[], 0).unwrap());
    let busy: BTreeSet<String> = names(&page());
    assert_eq!(idle, busy);
}

#[test]
fn the_documentation_names_exactly_the_metrics_of_the_page() {
    let documentation = include_str!("../../../../docs/metrics.md");
    let documented: BTreeSet<(&str, &str)> = documentation
        .lines()
        .filter_map(|row| row.strip_prefix("| `sluicegate_"))
        .filter_map(|row| {
            let mut cells = row.split('|').map(str::trim);
            Some((cells.next()?.trim_end_matches('`'), cells.next()?))
        })
        .collect();
    let page = page();
    let shown: BTreeSet<(String, &str)> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE sluicegate_")?.split_once(' '))
        .map(|(name, kind)| (if kind == "counter" { format!("{name}_total") } else { name.into() }, kind))
        .collect();
    let documented: BTreeSet<(String, &str)> =
        documented.into_iter().map(|(name, kind)| (name.to_owned(), kind)).collect();
    assert_eq!(documented, shown);
}

fn source() -> SourceView {
    SourceView {
        pool: "qwen".into(),
        source: "dns",
        what: "dns vllm port 8000".into(),
        replicas: 2,
        updates: 1,
        failures: 3,
        failing: Some("no address".into()),
    }
}
