//! Sums against another reading of the same lines.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use proptest::prelude::*;
use serde_json::{Value, json};
use sluicegate_core::Micros;
use sluicegate_proxy::usage::{Outcome, UsageLine, UsageSink as _, UsageSource};
use sluicegate_wire::Usage;

use super::files::Input;
use super::sums::{Class, Sums};
use super::{By, Counts, Filter, Grouped, Groups, csv, read, table};
use crate::usage_log::MemorySink;

fn summed(text: &str, by: Vec<By>, most: usize, filter: &Filter) -> (Grouped, Counts) {
    let mut groups = Groups::bounded(by, most);
    let source = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    let counts = read(vec![Input { name: "u".into(), source }], filter, &mut groups).unwrap();
    (groups.finish(), counts)
}

fn all(text: &str, by: Vec<By>) -> (Grouped, Counts) {
    summed(text, by, super::MOST_GROUPS, &Filter::default())
}

const TIME: &str = "2026-02-03T04:05:06.789Z";

fn count() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (0..5_000_u64).prop_map(Value::from),
        (0..1_u64 << 50).prop_map(Value::from)
    ]
}

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![Just(Value::Null), "[ab\"\\\\\u{0}\n\u{e9}漢🦀-]{0,3}".prop_map(Value::from)]
}

prop_compose! {
    fn line()(
        day in 1..4_u32, outcome in prop_oneof![Just("ok"), Just("client_gone"), Just("new_kind")],
        source in prop_oneof![Just("engine"), Just("estimated"), Just("none")],
        texts in [text(), text()], counts in [count(), count(), count(), count(), count(), count()],
        cost in prop_oneof![Just(Value::Null), (0..1_000_000_000_u64).prop_map(|micros| json!(micros as f64 / 1e6))],
        total in 0.001_f64..1e6,
    ) -> Value {
        json!({
            "request_id": "r\"1", "time": format!("2026-02-{day:02}T04:05:06.789Z"), "outcome": outcome,
            "route": texts[0], "model": texts[1], "usage_source": source, "prompt_tokens": counts[0],
            "cached_tokens": counts[1], "completion_tokens": counts[2], "reasoning_tokens": counts[3],
            "bytes_in": counts[4], "bytes_out": counts[5], "cost": cost, "total_ms": total, "later": [{"a": 1}, "]"],
        })
    }
}

/// Route, model and day, and what is summed, as a reader without our code would do it.
fn naively(text: &str) -> BTreeMap<[Option<String>; 3], [u64; 9]> {
    let mut sums: BTreeMap<_, [u64; 9]> = BTreeMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let name = |field: &str| line[field].as_str().map(str::to_owned);
        let day = name("time").map(|time| time[..10].to_owned());
        let count = |field: &str| line[field].as_u64().unwrap_or(0);
        let tokens = count("prompt_tokens") + count("completion_tokens");
        let row = sums.entry([name("route"), name("model"), day]).or_default();
        let more = [
            1,
            u64::from(line["outcome"] == "ok"),
            count("prompt_tokens"),
            count("cached_tokens"),
            count("completion_tokens"),
            count("reasoning_tokens"),
            if line["usage_source"] == "estimated" { tokens } else { 0 },
            (line["cost"].as_f64().unwrap_or(0.0) * 1e6).round() as u64,
            count("bytes_in") + count("bytes_out"),
        ];
        row.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    sums
}

fn numbers(sums: &Sums) -> [u64; 9] {
    [
        sums.requests,
        sums.ended(Class::Ok),
        sums.prompt_tokens,
        sums.cached_tokens,
        sums.completion_tokens,
        sums.reasoning_tokens,
        sums.estimated_tokens,
        sums.cost.unwrap_or(0),
        sums.bytes_in + sums.bytes_out,
    ]
}

fn plus(mut a: [u64; 9], b: [u64; 9]) -> [u64; 9] {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

proptest! {
    #[test]
    fn sums_are_those_of_a_naive_reading(lines in proptest::collection::vec(line(), 0..40), most in 1_usize..12) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let expected = naively(&text);
        let by = vec![By::Route, By::Model, By::Day];
        let (grouped, counts) = all(&text, by.clone());
        prop_assert_eq!((counts.lines, counts.counted, counts.bad), (lines.len() as u64, lines.len() as u64, 0));
        let told: Vec<_> = grouped.groups.iter().map(|group| (group.names.clone(), numbers(&group.sums))).collect();
        let naive: Vec<_> = expected.iter().map(|(names, sums)| (names.to_vec(), *sums)).collect();
        prop_assert_eq!(told, naive);
        let total = expected.values().copied().fold([0; 9], plus);
        prop_assert_eq!(numbers(&grouped.total), total);

        let (bounded, _) = summed(&text, by, most, &Filter::default());
        prop_assert_eq!(bounded.groups.len(), most.min(expected.len()));
        prop_assert_eq!(bounded.other.is_some(), expected.len() > most);
        prop_assert_eq!(numbers(&bounded.total), total);
        for group in &bounded.groups {
            let names: [Option<String>; 3] = group.names.clone().try_into().unwrap();
            prop_assert_eq!(numbers(&group.sums), expected[&names]);
        }
    }

    #[test]
    fn no_bytes_stop_the_reading(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut groups = Groups::new(vec![By::Hour, By::Outcome]);
        let source = Box::new(std::io::Cursor::new(bytes));
        let counts = read(vec![Input { name: "u".into(), source }], &Filter::default(), &mut groups).unwrap();
        prop_assert_eq!(counts.bad + counts.counted, counts.lines);
    }
}

#[test]
fn odd_lines_are_counted_or_told_as_bad() {
    let good = |rest: &str| format!(r#"{{"time":"{TIME}","outcome":"ok"{rest}}}"#);
    for (line, bad) in [
        (good(""), None),
        (format!("  {}\r", good("")), None),
        (good(r#","key":"\u00e4\n\ud83e\udd80","new_field":{"deep":[1,2,{"a":null}]}"#), None),
        (good(r#","prompt_tokens":null,"total_ms":1e3,"ttft_ms":0.000,"cost":1.5"#), None),
        (good(r#","prompt_tokens":18446744073709551615"#), None),
        (good(r#","prompt_tokens":18446744073709551616"#), Some("invalid type")),
        (good(r#","prompt_tokens":-1"#), Some("invalid value")),
        (good(r#","prompt_tokens":1.5"#), Some("invalid type")),
        (good(r#","key":"\ud800""#), Some("hex escape")),
        (good(r#","time":"twice""#), Some("duplicate field")),
        (good("}"), Some("trailing characters at column 51")),
        (good("").replace("06.789Z", "06Z"), Some("`time` is not RFC 3339")),
        (r#"{"outcome":"ok"}"#.into(), Some("missing field `time`")),
        (format!(r#"{{"time":"{TIME}"}}"#), Some("missing field `outcome`")),
        (format!(r#"{{"time":"{TIME}","outc"#), Some("EOF")),
        ("[]".into(), Some("invalid length")),
        ("\u{feff}{}".into(), Some("expected value")),
        ("starting up".into(), Some("expected value at column 1")),
    ] {
        let (grouped, counts) = all(&line, vec![]);
        assert_eq!((counts.lines, counts.bad), (1, u64::from(bad.is_some())), "{line}: {counts:?}");
        assert_eq!(grouped.total.requests, u64::from(bad.is_none()), "{line}");
        let told = counts.first_bad.unwrap_or_default();
        assert!(told.contains(bad.unwrap_or_default()), "{line}: {told}");
    }
}

#[test]
fn blank_lines_are_no_lines_and_the_first_bad_one_is_told_with_its_place() {
    let text = format!("\n{{\"time\":\"{TIME}\",\"outcome\":\"ok\"}}\n \t\r\nfirst\nsecond");
    let (_, counts) = all(&text, vec![]);
    assert_eq!((counts.lines, counts.counted, counts.bad), (3, 1, 2));
    assert!(counts.first_bad.as_ref().unwrap().starts_with("u:4: "), "{counts:?}");
}

#[test]
fn a_filter_takes_from_since_up_to_before_until_and_only_named_ones() {
    let line = |time: &str, key: &str, route: &str| {
        format!("{{\"time\":\"{time}\",\"outcome\":\"ok\",\"key\":{key},\"route\":{route}}}\n")
    };
    let text = [
        line("2026-02-02T23:59:59.999Z", "\"a\"", "\"r\""),
        line("2026-02-03T00:00:00.000Z", "\"a\"", "\"r\""),
        line("2026-02-03T23:59:59.999Z", "\"\\u0061\"", "\"s\""),
        line("2026-02-04T00:00:00.000Z", "null", "\"r\""),
    ]
    .concat();
    let moment = |text: &str| Some(text.parse().unwrap());
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let filters: [(Filter, u64); 6] = [
        (Filter::default(), 4),
        (Filter { since: moment("2026-02-03"), ..Filter::default() }, 3),
        (Filter { since: moment("2026-02-03"), until: moment("2026-02-04"), ..Filter::default() }, 2),
        (Filter { keys: names(&["a"]), ..Filter::default() }, 3),
        (Filter { keys: names(&["a"]), routes: names(&["s", "x"]), ..Filter::default() }, 1),
        (Filter { replicas: names(&["http://a"]), ..Filter::default() }, 0),
    ];
    for (filter, counted) in filters {
        assert_eq!(summed(&text, vec![], 10, &filter).1.counted, counted, "{filter:?}");
    }
}

#[test]
fn what_the_gateway_writes_is_what_is_summed() {
    let sink = MemorySink::default();
    let written = |micros| UsageLine {
        request_id: "req-1",
        time: UNIX_EPOCH + Duration::from_millis(1_770_091_506_789),
        model: Some("qwen3\"\n"),
        route: Some("qwen3"),
        upstream_model: Some("Qwen/Qwen3-32B"),
        pool: Some("big"),
        replica: Some("http://10.0.0.11:8000"),
        endpoint: Some("/v1/chat/completions"),
        stream: true,
        status: Some(200),
        outcome: Outcome::UpstreamAborted,
        error_type: None,
        reason: None,
        affinity: None,
        spilled: false,
        attempts: 1,
        key: Some("team-a"),
        project: Some("search"),
        queued: None,
        cost: Some(Micros(micros)),
        connect: Some(Duration::ZERO),
        ttft: Some(Duration::from_micros(182_417)),
        total: Duration::from_micros(1_520_004),
        bytes_in: 1834,
        bytes_out: 20_511,
        usage: Some(Usage {
            prompt_tokens: 412,
            cached_tokens: Some(400),
            completion_tokens: 80,
            reasoning_tokens: Some(7),
        }),
        usage_source: UsageSource::Estimated,
        finish_reason: None,
        events: None,
    };
    [1, 4_500, 3_000_000, 123_456_789_012_345].into_iter().for_each(|micros| sink.write(&written(micros)));
    let (grouped, counts) =
        all(&sink.lines().join("\n"), vec![By::Key, By::Project, By::Model, By::Replica, By::Hour]);
    assert_eq!((counts.counted, counts.bad), (4, 0), "{counts:?}");
    let names = ["team-a", "search", "qwen3\"\n", "http://10.0.0.11:8000", "2026-02-03T04"];
    assert_eq!(grouped.groups[0].names, names.map(|name| Some(name.to_owned())));
    let total = &grouped.total;
    assert_eq!(numbers(total), [4, 0, 1648, 1600, 320, 28, 1968, 123_456_792_016_846, 89_380]);
    assert_eq!(
        (total.ended(Class::Upstream), total.ttft.at(0.5), total.total.at(0.5)),
        (4, Some(182.417), Some(1520.004))
    );
}

#[test]
fn sums_stay_at_the_largest_number() {
    let line = format!(r#"{{"time":"{TIME}","outcome":"ok","prompt_tokens":{},"cost":1e300}}"#, u64::MAX);
    let (grouped, _) = all(&format!("{line}\n{line}\n"), vec![]);
    assert_eq!((grouped.total.prompt_tokens, grouped.total.cost), (u64::MAX, Some(u64::MAX)));
}

#[test]
fn groups_beyond_the_bound_are_one_row_of_every_output() {
    let line = |route: usize| format!("{{\"time\":\"{TIME}\",\"outcome\":\"ok\",\"route\":\"r{route}\"}}\n");
    let text: String = (0..5).map(line).collect();
    let (grouped, _) = summed(&text, vec![By::Route, By::Day], 2, &Filter::default());
    assert_eq!(
        table(&grouped),
        "\
route    day         requests  ok
r0       2026-02-03         1   1
r1       2026-02-03         1   1
(other)                     3   3
total                       5   5
"
    );
    let csv = csv(&grouped).unwrap();
    assert!(csv.lines().last().unwrap().starts_with("(other),(other),3,3,"), "{csv}");
}
