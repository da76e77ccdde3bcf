//! What several cases look at.

use serde_json::Value;
use sluicegate_testkit::{Answer, Bench, Upstream};

/// The member that the gateway may splice into a streaming body.
const ASKS_USAGE: &str = r#""stream_options":{"include_usage":true}"#;

/// Asserts that `received` is `sent` with the usage member put in at one place and every other byte untouched.
pub(crate) fn assert_only_injected(received: &[u8], sent: &[u8]) {
    let text = std::str::from_utf8(received).expect("a body in UTF-8");
    let at = text.find(ASKS_USAGE).expect("the usage member is put in");
    let (before, after) = (&received[..at], &received[at + ASKS_USAGE.len()..]);
    let without = |before: &[u8], after: &[u8]| {
        before.len() + after.len() == sent.len() && sent == [before, after].concat()
    };
    let comma_after = after.strip_prefix(b",").is_some_and(|after| without(before, after));
    let comma_before = before.strip_suffix(b",").is_some_and(|before| without(before, after));
    assert!(comma_after || comma_before, "more than one member was changed");
}

/// Asserts an error answer of the gateway's own in the OpenAI shape, and returns its `error` object.
pub(crate) fn assert_own_error(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status(), status, "{}", answer.text());
    let kind = answer.head.get("content-type").unwrap_or_default();
    assert!(kind.starts_with("application/json"), "content type {kind:?}");
    let error = answer.json()["error"].clone();
    for member in ["message", "type", "param", "code"] {
        assert!(error.get(member).is_some(), "no {member} in {error}");
    }
    assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "no message in {error}");
    error
}

/// Asserts the members of one usage line: text as text, numbers as numbers, `null` as null.
pub(crate) fn assert_line(line: &Value, expected: &[(&str, Value)]) {
    for (name, value) in expected {
        assert_eq!(line.get(*name), Some(value), "{name} in {line:#}");
    }
}

/// Asserts that no replica was ever ejected and that all of these are LIVE.
pub(crate) fn assert_nobody_blamed(bench: &Bench, upstreams: &[&Upstream]) {
    for upstream in upstreams {
        let replica = bench.replica(upstream);
        assert_eq!(replica.health, sluicegate_testkit::Health::Live, "{replica:?}");
        assert_eq!(replica.ejections, 0, "{replica:?}");
    }
}

/// Complete requests at all of these.
pub(crate) fn requests_at(upstreams: &[&Upstream]) -> u64 {
    upstreams.iter().map(|u| u.counts().requests.get()).sum()
}

/// The last complete event of a stream's text, its `data:` lines as JSON.
pub(crate) fn last_event(text: &str) -> Value {
    let block = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
    let data = block.lines().filter_map(|l| l.strip_prefix("data:")).collect::<Vec<_>>().join("\n");
    serde_json::from_str(&data).unwrap_or_else(|e| panic!("{e} in the last event of {text:?}"))
}
